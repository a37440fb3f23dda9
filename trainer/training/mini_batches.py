"""Gradient steps on sampled neighbourhoods: each on one batch of the seeds of all ranks.

A step is of all ranks: the batch has `--batch-size` seeds together, and each rank has those of them that its part owns,
perhaps none. The loss is the sum over all seeds of the batch divided by their number (or weight), so that the gradient
is the same for any number of ranks. Which seeds make a batch and which neighbours are drawn is decided by hashes, in
graphprep's sampler. Evaluation is on the whole graph, as without batches, or on sampled neighbourhoods
(`SampledEvaluation`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES
from trainer.base.traffic_log import TrafficLog
from trainer.config.options import Options
from trainer.config.row_cache import kept_rows
from trainer.data.cache import Cache
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.layers.typed_features import FirstInput
from trainer.minibatch.batch_graph import BatchGraph
from trainer.minibatch.batch_stream import BatchStream
from trainer.minibatch.control_variates import Histories
from trainer.minibatch.pipeline import ReadyBatch
from trainer.models import Network
from trainer.training.batch_seeds import BatchSeeds
from trainer.training.features_by import FeaturesBy
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
        num_outputs: int,
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
            num_outputs: C, of labelled nodes, or the width of the rows that pairs are scored by.
        """
        self._options, self._network, self._seeds = options, network, seeds
        self._communicator, self._cache = communicator, cache
        assert options.batch_size is not None
        self._batch_size = options.batch_size
        of_steps = cache.num_nodes if options.sampler == "vertices" else seeds.seeds.shape[-1]
        self.steps = -(-of_steps // self._batch_size)
        self._stream = BatchStream(options, cache, part, communicator, traffic_log, sums=sums)
        self.features_by = FeaturesBy(
            options, cache, part, communicator, num_outputs=num_outputs, num_steps=self.steps * options.epochs
        )
        self._idle, self._histories = self._stream.idle, None
        if options.control_variates:
            self._histories = Histories(communicator, traffic_log, self._idle)
        self._has_dropout = bool(options.first_dropout or options.dropout)
        self._seconds, self._idle_before, self._first_epoch = 0.0, 0.0, 0
        self._source, self._sampler_bytes = options.sample_from, 0

    def start(self, first: int, last: int) -> None:
        """Start the samplers for the epochs from `first` to `last`."""
        self._source = chosen_source(self._options, self._cache, self._communicator)
        self._stream.start(
            self._seeds.seeds,
            removed=self._seeds.removed,
            batch={
                "fanouts": self._fanouts,
                "sampler": self._options.sampler,
                "draw": self._options.draw,
                "histories": self._histories is not None,
                "roots": self._histories is not None and self._has_dropout,
                "negatives": self._seeds.negatives,
                "num_kept": self._num_kept(),
                "cache_policy": self._options.cache_policy,
            },
            epochs=(first, last),
            source=self._source,
            steps=self.steps,
            table_of=self.features_by.table,
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
            of_layers = network.histories(features, PassContext.evaluation(epoch))
            self._histories.refresh(of_layers, partial(self._stream.pipeline.begin_epoch, epoch))

    def close(self) -> None:
        """End the samplers; every rank has to call it after the same step."""
        self._stream.close()

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
        if (epoch, step) == (self._first_epoch + 1, 0):  # what is measured is the steady state
            self._seconds, self._idle_before = 0.0, self._idle.seconds
        started = time.perf_counter()
        batch = self._stream.pipeline.next()
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
            "sampler": self._options.sampler,
            "draw": self._options.draw,
            "time": self._options.time,
            "time_strategy": self._options.time_strategy,
            "eval_fanouts": self._options.eval_fanout_list,
            "control_variates": self._options.control_variates,
            "steps_an_epoch": self.steps,
            "sampler_processes": self._options.sampler_processes,
            "sample_from": self._source,
            "features_by": self.features_by.chosen,
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
        rows = self._stream.rows
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
        row_bytes = [0 if x is None else x.shape[1] * value_bytes for x in self._stream.features]
        numbers = kept_rows(
            self._options.remote_row_cache, [kind.num_nodes for kind in self._cache.node_types], row_bytes
        )
        return dict(zip(self._stream.type_names, numbers, strict=True))

    def _output(self, batch: ReadyBatch, context: PassContext) -> Tensor:
        """What the model gives for this rank's seeds."""
        options, arrays = self._options, batch.slot.arrays
        features, layers, num_rows = self._stream.input_of(batch)
        make = partial(BatchGraph, features, layers, context, stored_type=TYPES[options.precision])
        dropped = partial(make, first_share=options.first_dropout, share=options.dropout)
        self._network.train(True)
        if self._histories is None:
            return self._network.run_on(dropped(), context, num_rows=num_rows)
        counts = arrays["counts"][:, 0].tolist()
        histories = self._histories.of_layers(batch.histories, counts, arrays["seed_row"])
        means = make(first_share=0.0, share=0.0, histories=histories)
        rows_kC = self._network.run_on(means, context, num_rows=num_rows)
        if not self._has_dropout:
            return rows_kC
        return self._network.run_on(dropped(histories=histories, means=means), context, num_rows=num_rows)
