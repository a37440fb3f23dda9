"""The batches of a run, several under way at a time: sampled, requested, on their way, and trained on.

While batch t is trained on, the rows of t + 1 travel, the requests of t + 2 and the counts of t + 3, and further ones
are being sampled. Every rank takes the same steps in the same order, and waits for what the others have sent one batch
later. With one rank nothing travels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from trainer.minibatch.feature_rows import FeatureRows, PendingRows
from trainer.minibatch.idle_time import IdleTime
from trainer.minibatch.ring import Slot
from trainer.minibatch.sampler_process import SamplerProcesses

_STAGES = 3
"""Batches under way behind the one that is trained on, with several ranks."""
_AHEAD = 3
"""Slots beyond those in use, which the samplers can fill meanwhile."""


def slots_of_each(world: int, num_processes: int) -> int:
    """How many slots the ring of each sampler process needs."""
    in_use = 1 + (_STAGES if world > 1 else 0)
    return -(-(in_use + _AHEAD) // num_processes) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyBatch:
    """A batch that can be trained on."""

    slot: Slot
    features: Sequence[Tensor]
    """[n, F] of each node type, on the host"""


@dataclass(slots=True, kw_only=True)
class _UnderWay:
    slot: Slot
    rows: PendingRows
    stage: int = 1
    """how many of the steps of `FeatureRows` have been begun, of `_STAGES`"""


class Pipeline:
    """The batches of one rank, in their order."""

    def __init__(
        self,
        samplers: SamplerProcesses,
        rows: FeatureRows,
        *,
        type_names: Sequence[str],
        num_batches: int,
        world: int,
        idle: IdleTime,
    ) -> None:
        """Begin with nothing under way.

        Args:
            samplers: where batches come from.
            rows: where their features come from.
            type_names: the node types.
            num_batches: of the whole run.
            world: how many ranks there are.
            idle: measures the waiting for samplers.
        """
        self._samplers, self._rows, self._type_names = samplers, rows, type_names
        self._remaining, self._world, self._idle = num_batches, world, idle
        self._under_way: deque[_UnderWay] = deque()
        self._in_use: Slot | None = None
        self._is_first = True

    def next(self) -> ReadyBatch:
        """The next batch; the one before is given back, and its tensors are not used any more.

        Raises:
            TrainingError: a sampler process has ended.
            LostPeerError: another rank is gone.
        """
        if self._in_use is not None:
            self._samplers.free(self._in_use)
            self._in_use = None
        while not self._under_way or self._under_way[0].stage < _STAGES:
            self._turn()
        batch = self._under_way.popleft()
        self._in_use = batch.slot
        features = self._rows.finish(batch.rows)
        if self._world > 1:
            self._turn()
        return ReadyBatch(slot=batch.slot, features=features)

    def close(self) -> None:
        """Wait for what is on its way, as all ranks do, and end the samplers."""
        for batch in self._under_way:
            self._rows.drop(batch.rows)
        self._under_way.clear()
        self._samplers.close()

    def _turn(self) -> None:
        """Take the next step for each batch that is under way, and begin one more."""
        for batch in self._under_way:
            if batch.stage < _STAGES:
                (self._rows.request if batch.stage == 1 else self._rows.send)(batch.rows)
                batch.stage += 1
        if self._remaining:
            self._remaining -= 1
            with self._idle:
                slot = self._samplers.next()
            if self._is_first:
                self._is_first, num_kept = False, self._samplers.num_kept()
                self._rows.keep([num_kept[name] for name in self._type_names])
            self._idle.clock.add_span("sample", slot.started, slot.ended)
            prefixes = [f"rows/{name}/" for name in self._type_names]
            plans = [
                {key.removeprefix(prefix): values for key, values in slot.arrays.items() if key.startswith(prefix)}
                for prefix in prefixes
            ]
            stage = 1 if self._world > 1 else _STAGES
            self._under_way.append(_UnderWay(slot=slot, rows=self._rows.begin(plans), stage=stage))
