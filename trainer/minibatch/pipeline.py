"""The batches of a run, several under way at a time: sampled, requested, on their way, and trained on.

While batch t is trained on, the rows of t + 1 travel, the requests of t + 2 and the counts of t + 3, and further ones
are being sampled. Every rank takes the same steps in the same order, and waits for what the others have sent one batch
later. With one rank nothing travels.

With control variates the next epoch's first batches are got ready so too, while the exact pass between both runs: all
but what that pass changes, which is sent for those of them that have got so far as soon as it is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from trainer.minibatch.column_batches import ColumnBatches
from trainer.minibatch.control_variates import Histories
from trainer.minibatch.feature_rows import FeatureSource, PendingRows
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
    """[n, F] of each node type, on the host; with `--features-by columns` this rank's columns of all ranks' nodes"""
    plans: Sequence[Mapping[str, Tensor]] = ()
    """where features came from, by type; with `--features-by columns` layer 1 of all ranks' batches"""
    histories: Sequence[Tensor] = ()
    """with control variates what `Histories.finish` gives"""


@dataclass(slots=True, kw_only=True)
class _UnderWay:
    slot: Slot
    rows: Sequence[Any]
    """of each source"""
    stage: int = 1
    """how many of the steps of a `FeatureSource` have been begun, of `_STAGES`"""
    histories: PendingRows | None = None
    """those that change between epochs, once they are sent"""


class Pipeline:
    """The batches of one rank, in their order."""

    def __init__(
        self,
        samplers: SamplerProcesses,
        rows: FeatureSource,
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
            histories: what control variates need.
        """
        self._histories = histories
        self._samplers, self._rows, self._type_names = samplers, rows, type_names
        self._remaining, self._world, self._idle = num_batches, world, idle
        self._under_way: deque[_UnderWay] = deque()
        self._in_use: Slot | None = None
        self._is_first, self._epoch = True, 0

    def begin_epoch(self, epoch: int) -> None:
        """Send the histories of an epoch, which are there now, for its batches that are under way."""
        self._epoch = epoch
        for batch in self._under_way:
            self._send_histories(batch)

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
        features = self._rows.finish(batch.rows[0])
        histories: Sequence[Tensor] = ()
        if self._histories is not None:
            assert batch.histories is not None
            histories = self._histories.finish(batch.rows[1], batch.histories)
        if self._world > 1:
            self._turn()
        return ReadyBatch(slot=batch.slot, features=features, plans=batch.rows[0].plans, histories=histories)

    def close(self) -> None:
        """Wait for what is on its way, as all ranks do, and end the samplers."""
        for batch in self._under_way:
            for source, rows in zip(self._sources, batch.rows, strict=True):
                source.drop(rows)
            if batch.histories is not None:
                self._rows.drop(batch.histories)
        self._under_way.clear()
        self._samplers.close()

    @property
    def _sources(self) -> Sequence[FeatureSource]:
        return [self._rows] if self._histories is None else [self._rows, self._histories.fixed]

    def _send_histories(self, batch: _UnderWay) -> None:
        """Send what changes between epochs for a batch of this one, once all else of it is sent."""
        is_ready = batch.stage == _STAGES and batch.histories is None and batch.slot.epoch <= self._epoch
        if self._histories is not None and is_ready:
            batch.histories = self._histories.send(batch.rows[1])

    def _turn(self) -> None:
        """Take the next step for each batch that is under way, and begin one more."""
        for batch in self._under_way:
            if batch.stage < _STAGES:
                for source, rows in zip(self._sources, batch.rows, strict=True):
                    (source.request if batch.stage == 1 else source.send)(rows)
                batch.stage += 1
                self._send_histories(batch)
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
                source.begin(self._plans(slot, kind))
                for kind, source in zip(("rows", "histories"), self._sources, strict=False)
            ]
            self._under_way.append(_UnderWay(slot=slot, rows=pending, stage=stage))
            self._send_histories(self._under_way[-1])

    def _plans(self, slot: Slot, kind: str) -> Sequence[Mapping[str, Tensor]]:
        if isinstance(self._rows, ColumnBatches):
            return [slot.arrays]
        return [_plan(slot, f"{kind}/{name}/") for name in self._type_names]


def _plan(slot: Slot, prefix: str) -> Mapping[str, Tensor]:
    """The arrays of a batch whose names begin so, without the beginning."""
    return {key.removeprefix(prefix): values for key, values in slot.arrays.items() if key.startswith(prefix)}
