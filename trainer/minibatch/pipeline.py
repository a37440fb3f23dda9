"""The batches of a run, several under way at a time: sampled, requested, on their way, and trained on.

While batch t is trained on, the rows of t + 1 travel, the requests of t + 2 and the counts of t + 3, and further ones
are being sampled. Every rank takes the same steps in the same order, and waits for what the others have sent one batch
later. With one rank nothing travels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from trainer.minibatch.control_variates import Histories
from trainer.minibatch.feature_rows import FeatureRows, PendingRows, RowSource
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
    histories: Sequence[Tensor] = ()
    """with control variates those of the nodes but the last hop's, of the only type"""


@dataclass(slots=True, kw_only=True)
class _UnderWay:
    slot: Slot
    rows: Sequence[PendingRows]
    """of each source"""
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
        histories: Histories | None = None,
    ) -> None:
        """Begin with nothing under way.

        Args:
            samplers: where batches come from.
            rows: where their features come from.
            type_names: the node types.
            num_batches: of the whole run.
            world: how many ranks there are.
            idle: measures the waiting for samplers.
            histories: what control variates need; it changes between epochs, and is sent in the epoch of its batch.
        """
        self._histories = histories
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
            self._turn(self._under_way[0].slot.epoch if self._under_way else 0)
        batch = self._under_way.popleft()
        self._in_use = batch.slot
        features, *histories = (source.finish(rows) for source, rows in zip(self._sources, batch.rows, strict=True))
        if self._world > 1:
            self._turn(batch.slot.epoch)
        return ReadyBatch(slot=batch.slot, features=features, histories=histories[0] if histories else ())

    def close(self) -> None:
        """Wait for what is on its way, as all ranks do, and end the samplers."""
        for batch in self._under_way:
            for source, rows in zip(self._sources, batch.rows, strict=True):
                source.drop(rows)
        self._under_way.clear()
        self._samplers.close()

    @property
    def _sources(self) -> Sequence[RowSource]:
        return [self._rows] if self._histories is None else [self._rows, self._histories]

    def _turn(self, epoch: int) -> None:
        """Take the next step for each batch that is under way, and begin one more; `epoch` is the present one."""
        for batch in self._under_way:
            waits = self._histories is not None and batch.stage == _STAGES - 1 and batch.slot.epoch > epoch
            if batch.stage < _STAGES and not waits:
                for source, rows in zip(self._sources, batch.rows, strict=True):
                    (source.request if batch.stage == 1 else source.send)(rows)
                batch.stage += 1
        if self._remaining and len(self._under_way) < _STAGES:
            self._remaining -= 1
            with self._idle:
                slot = self._samplers.next()
            if self._is_first:
                self._is_first, num_kept = False, self._samplers.num_kept()
                self._rows.keep([num_kept[name] for name in self._type_names])
            self._idle.clock.add_span("sample", slot.started, slot.ended)
            stage = 1 if self._world > 1 else _STAGES
            pending = [
                source.begin([_plan(slot, f"{kind}/{name}/") for name in self._type_names])
                for kind, source in zip(("rows", "histories"), self._sources, strict=False)
            ]
            self._under_way.append(_UnderWay(slot=slot, rows=pending, stage=stage))


def _plan(slot: Slot, prefix: str) -> Mapping[str, Tensor]:
    """The arrays of a batch whose names begin so, without the beginning."""
    return {key.removeprefix(prefix): values for key, values in slot.arrays.items() if key.startswith(prefix)}
