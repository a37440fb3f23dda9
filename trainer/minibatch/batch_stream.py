"""The batches of some seeds, epoch after epoch: from the samplers' processes to what a model is called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from trainer.base.precision import TYPES
from trainer.base.to_device import to_device
from trainer.base.traffic_log import TrafficLog
from trainer.config.options import Options, is_own_model
from trainer.data.cache import Cache
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.layers.typed_features import TypedFeatures
from trainer.minibatch.batch_graph import BatchLayer, BatchShape
from trainer.minibatch.control_variates import Histories
from trainer.minibatch.feature_rows import FeatureRows
from trainer.minibatch.idle_time import IdleTime
from trainer.minibatch.owner_sockets import open_owner_sockets
from trainer.minibatch.pipeline import Pipeline, ReadyBatch, slots_of_each
from trainer.minibatch.sampler_process import SamplerProcesses


class BatchStream:
    """The batches of one rank."""

    def __init__(
        self,
        options: Options,
        cache: Cache,
        part: Part,
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
            communicator: the ranks of the run.
            traffic_log: of this rank's bytes.
            sums: what edges count in the model's sums; None where it makes none.
        """
        self._options, self._communicator, self._log, self._sums = options, communicator, traffic_log, sums
        self._target, self._is_typed = cache.node_type, part.typed is not None
        self.features = [part.x_nF] if part.typed is None else [of.x_kF for of in part.typed.types]
        """of each node type, of this rank's nodes; None for none"""
        self.type_names = [kind.name for kind in cache.node_types]
        self.idle = IdleTime(communicator.clock)
        self._shape = BatchShape(
            type_names=self.type_names,
            first_ids=[kind.first_id for kind in cache.node_types],
            relation_names=[relation.key for relation in cache.relations],
            target=self._target,
            is_typed=self._is_typed,
            sums=sums,
            num_nodes=cache.num_nodes,
            seed=options.seed,
            communicator=communicator,
        )
        self.rows: FeatureRows | None = None
        self._pipeline: Pipeline | None = None

    def start(
        self,
        seeds: Tensor,
        *,
        removed: Tensor | None,
        batch: Mapping[str, Any],
        epochs: tuple[int, int],
        steps: int,
        source: str,
        histories: Histories | None = None,
    ) -> None:
        """Start the samplers.

        Args:
            seeds, removed, epochs: see `SamplerProcesses`.
            batch: the fields of graphprep's `BatchOptions`, but for those that all batches of a run have in common.
            steps: batches of an epoch.
            source: where samplers find neighbours, `mapped` or `owners`.
            histories: what control variates need.
        """
        options, world = self._options, self._communicator.world
        samplers = SamplerProcesses(
            cache=options.cache,
            rank=self._communicator.rank,
            seeds=seeds,
            removed=removed,
            batch={
                "batch_size": options.batch_size,
                "seed": options.seed,
                "sums": self._drawn_sums,
                "times_of": options.times_of,
                "time_strategy": options.time_strategy,
                "edge_features": options.edge_features if options.reads_edge_features else None,
                "is_typed": self._is_typed,
                "node_type": self._target,
                **batch,
            },
            epochs=epochs,
            num_processes=options.sampler_processes,
            num_slots=slots_of_each(world, options.sampler_processes),
            timeout=options.timeout,
            quiet=options.quiet or not self._communicator.is_main,
            owners=open_owner_sockets(self._communicator) if source == "owners" else None,
        )
        features = [x for x in self.features if x is not None]
        self.rows = FeatureRows(features, TYPES[options.precision], self._communicator, self._log, self.idle)
        first, last = epochs
        self._pipeline = Pipeline(
            samplers,
            self.rows,
            type_names=self.type_names,
            num_batches=steps * (last + 1 - first),
            world=world,
            idle=self.idle,
            histories=histories,
        )

    @property
    def _drawn_sums(self) -> str | None:
        """What drawn edges count: in the model's sums, or where it may sum messages in their place."""
        options = self._options
        may_sum_messages = options.sums_messages or (is_own_model(options.model) and options.reads_edge_features)
        return "messages" if self._sums is None and may_sum_messages else self._sums

    @property
    def pipeline(self) -> Pipeline:
        """Once the samplers are started."""
        assert self._pipeline is not None
        return self._pipeline

    def close(self) -> None:
        """End the samplers; every rank has to call it after the same batch."""
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None

    def input_of(self, batch: ReadyBatch) -> tuple[Tensor | TypedFeatures, Sequence[BatchLayer], int]:
        """The features and the layers of a batch, for a `BatchGraph`, and how many rows the model gives for it."""
        device = self._communicator.device
        arrays = batch.slot.arrays
        of_types: Sequence[Tensor] = batch.features
        if self._options.times_of is not None:  # a node is there once for each seed that reaches it, and its row once
            row_of = [arrays[f"row_of/{name}"] for name in self.type_names]
            of_types = [rows.index_select(0, places) for rows, places in zip(of_types, row_of, strict=True)]
        features: Tensor | TypedFeatures
        if self._is_typed:
            clock, stored_type = self._communicator.clock, TYPES[self._options.precision]
            features = TypedFeatures(of_types, device, stored_type, clock, may_be_sparse=False)
        else:
            features = to_device(of_types[0], device)
        return features, self._shape.layers(arrays), int(arrays["counts"][0].sum())
