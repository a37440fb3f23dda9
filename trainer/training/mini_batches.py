"""Gradient steps on sampled neighbourhoods: each on one batch of the seeds of all ranks.

A step is of all ranks: the batch has `--batch-size` seeds together, and each rank has those of them that its part owns,
perhaps none. The loss is the sum over all seeds of the batch divided by their number (or weight), so that the gradient
is the same for any number of ranks. Which seeds make a batch and which neighbours are drawn is decided by hashes, in
graphprep's sampler. Evaluation is on the whole graph, as without batches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES
from trainer.base.to_device import to_device
from trainer.base.traffic_log import TrafficLog
from trainer.config.options import Options
from trainer.config.row_cache import kept_rows
from trainer.data.cache import Cache
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.layers.typed_features import FirstInput, TypedFeatures
from trainer.minibatch.batch_graph import BatchGraph, BatchShape
from trainer.minibatch.control_variates import Histories
from trainer.minibatch.feature_rows import FeatureRows
from trainer.minibatch.idle_time import IdleTime
from trainer.minibatch.owner_sockets import open_owner_sockets
from trainer.minibatch.pipeline import Pipeline, ReadyBatch, slots_of_each
from trainer.minibatch.sampler_process import SamplerProcesses
from trainer.models import Network
from trainer.training.batch_seeds import BatchSeeds
from trainer.training.sample_from import chosen_source


class MiniBatches:
    """The batches of one run, and what is computed on each."""

    def __init__(
        self,
        options: Options,
        cache: Cache,
        part: Part,
        network: Network,
        seeds: BatchSeeds,
        communicator: Communicator,
        traffic_log: TrafficLog,
        *,
        sums: str | None,
    ) -> None:
        """Prepare.

        Args:
            options: of the run.
            cache: whose graph it is.
            part: this rank's.
            network: what is trained.
            seeds: what batches are made for.
            communicator: the ranks of the run.
            traffic_log: of this rank's bytes.
            sums: what edges count in the model's sums; None where it makes none.
        """
        self._options, self._network, self._seeds = options, network, seeds
        self._communicator, self._log, self._sums = communicator, traffic_log, sums
        self._cache, self._is_typed = cache, part.typed is not None
        assert options.batch_size is not None
        self._batch_size = options.batch_size
        self.steps = -(-seeds.seeds.shape[-1] // self._batch_size)
        self._features = [part.x_nF] if part.typed is None else [of.x_kF for of in part.typed.types]
        self._idle = IdleTime(communicator.clock)
        self._shape = BatchShape(
            type_names=[kind.name for kind in cache.node_types],
            first_ids=[kind.first_id for kind in cache.node_types],
            relation_names=[relation.key for relation in cache.relations],
            target=cache.node_type,
            is_typed=self._is_typed,
            sums=sums,
            num_nodes=cache.num_nodes,
            seed=options.seed,
            communicator=communicator,
        )
        self._histories = Histories(communicator, traffic_log, self._idle) if options.control_variates else None
        self._has_dropout = bool(options.first_dropout or options.dropout)
        self._pipeline: Pipeline | None = None
        self._rows: FeatureRows | None = None
        self._seconds, self._idle_before, self._first_epoch = 0.0, 0.0, 0
        self._source, self._sampler_bytes = options.sample_from, 0

    def start(self, first: int, last: int) -> None:
        """Start the samplers for the epochs from `first` to `last`."""
        options, world = self._options, self._communicator.world
        num_slots = slots_of_each(world, options.sampler_processes)
        self._source = chosen_source(options, self._cache, self._communicator)
        samplers = SamplerProcesses(
            cache=options.cache,
            rank=self._communicator.rank,
            seeds=self._seeds.seeds,
            removed=self._seeds.removed,
            batch={
                "batch_size": self._batch_size,
                "fanouts": self._fanouts,
                "histories": self._histories is not None,
                "roots": self._histories is not None and self._has_dropout,
                "seed": options.seed,
                "sums": self._sums,
                "is_typed": self._is_typed,
                "node_type": self._cache.node_type,
                "negatives": self._seeds.negatives,
                "num_kept": self._num_kept(),
                "cache_policy": options.cache_policy,
            },
            epochs=(first, last),
            num_processes=options.sampler_processes,
            num_slots=num_slots,
            timeout=options.timeout,
            quiet=options.quiet or not self._communicator.is_main,
            owners=open_owner_sockets(self._communicator) if self._source == "owners" else None,
        )
        features = [x for x in self._features if x is not None]
        rows = FeatureRows(features, TYPES[options.precision], self._communicator, self._log, self._idle)
        self._rows = rows
        self._pipeline = Pipeline(
            samplers,
            rows,
            type_names=self._shape.type_names,
            num_batches=self.steps * (last + 1 - first),
            world=world,
            idle=self._idle,
            histories=self._histories,
        )
        self._first_epoch = first

    @property
    def _fanouts(self) -> list[int]:
        """Of each hop; none of the last one where control variates know the exact sums of the features."""
        fanouts = list(self._options.fanout_list)
        is_first_exact = self._histories is not None and not self._options.first_dropout
        return [*fanouts[:-1], 0] if is_first_exact else fanouts

    def refresh(self, network: Network, features: FirstInput, epoch: int) -> None:
        """Keep what an exact pass over the whole graph gives, for the control variates of the epoch that begins; every
        rank has to call it."""
        if self._histories is not None:
            network.train(False)
            self._histories.refresh(network.histories(features, PassContext.evaluation(epoch)))

    def close(self) -> None:
        """End the samplers; every rank has to call it after the same step."""
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None

    def backward(self, epoch: int, step: int, factor: float) -> tuple[Tensor, Tensor]:
        """Compute the next batch's scores and backpropagate this rank's share of its loss.

        Args:
            epoch: from 1.
            step: of the epoch, from 0.
            factor: on the loss.

        Returns:
            the sum of the losses of this rank's seeds, divided by `--batch-size`, without a gradient; and what the sum
            over all ranks is to be divided by to become a mean, divided likewise: scalars.
        """
        assert self._pipeline is not None
        if (epoch, step) == (self._first_epoch + 1, 0):  # what is measured is the steady state
            self._seconds, self._idle_before = 0.0, self._idle.seconds
        started = time.perf_counter()
        batch = self._pipeline.next()
        assert (batch.slot.epoch, batch.slot.step) == (epoch, step)
        self._sampler_bytes += batch.slot.num_bytes
        begun = time.perf_counter()
        rows_kC = self._output(batch, PassContext(epoch=(epoch - 1) * self.steps + step + 1, training=True))
        loss, weight = (value / self._batch_size for value in self._seeds.loss(rows_kC, batch.slot.arrays))
        (loss * factor).backward()  # type: ignore[no-untyped-call]
        ended = time.perf_counter()
        self._communicator.clock.add_span("train", begun, ended)
        self._seconds += ended - started
        return loss.detach(), weight

    def facts(self, of_ranks: Sequence[dict[str, float]]) -> dict[str, Any]:
        """What the result says of batches, from the `seconds` of all ranks."""
        return {
            "batch_size": self._batch_size,
            "fanouts": self._options.fanout_list,
            "control_variates": self._options.control_variates,
            "steps_an_epoch": self.steps,
            "sampler_processes": self._options.sampler_processes,
            "sample_from": self._source,
            "sampler_bytes": round(sum(of_rank["sampler_bytes"] for of_rank in of_ranks)),
            "seconds_by_rank": [of_rank["seconds"] for of_rank in of_ranks],
            "idle_seconds_by_rank": [of_rank["idle"] for of_rank in of_ranks],
            "rows_fetched": round(sum(of_rank["fetched"] for of_rank in of_ranks)),
            "rows_from_cache": round(sum(of_rank["from_cache"] for of_rank in of_ranks)),
        }

    @property
    def seconds(self) -> dict[str, float]:
        """Of this rank's steps from the second epoch on, or of all if there is one alone, and those that were idle; and
        rows of other ranks that all steps have fetched, and taken from the cache."""
        rows = self._rows
        return {
            "seconds": self._seconds,
            "idle": self._idle.seconds - self._idle_before,
            "fetched": 0 if rows is None else rows.num_fetched,
            "from_cache": 0 if rows is None else rows.num_from_cache,
            "sampler_bytes": self._sampler_bytes,
        }

    def _num_kept(self) -> dict[str, int]:
        """Rows of other ranks that this one keeps, by node type; none where there are no other ranks."""
        if self._communicator.world == 1:
            return {}
        value_bytes = TYPES[self._options.precision].itemsize
        row_bytes = [0 if x is None else x.shape[1] * value_bytes for x in self._features]
        numbers = kept_rows(
            self._options.remote_row_cache, [kind.num_nodes for kind in self._cache.node_types], row_bytes
        )
        return dict(zip(self._shape.type_names, numbers, strict=True))

    def _output(self, batch: ReadyBatch, context: PassContext) -> Tensor:
        """What the model gives for this rank's seeds."""
        options, device = self._options, self._communicator.device
        stored_type = TYPES[options.precision]
        features: Tensor | TypedFeatures
        if self._is_typed:
            clock = self._communicator.clock
            features = TypedFeatures(batch.features, device, stored_type, clock, may_be_sparse=False)
        else:
            features = to_device(batch.features[0], device)
        arrays = batch.slot.arrays
        layers, num_rows = self._shape.layers(arrays), int(arrays["counts"][0].sum())
        make = partial(BatchGraph, features, layers, context, stored_type=stored_type)
        dropped = partial(make, first_share=options.first_dropout, share=options.dropout)
        self._network.train(True)
        if self._histories is None:
            return self._network.run_on(dropped(), context, num_rows=num_rows)
        counts = arrays["counts"][:, 0].tolist()
        histories = self._histories.of_layers(batch.histories[0], counts)
        means = make(first_share=0.0, share=0.0, histories=histories)
        rows_kC = self._network.run_on(means, context, num_rows=num_rows)
        if not self._has_dropout:
            return rows_kC
        return self._network.run_on(dropped(histories=histories, means=means), context, num_rows=num_rows)
