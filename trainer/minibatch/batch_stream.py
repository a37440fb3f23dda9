"""The batches of some seeds, epoch after epoch: from the samplers' processes to what a model is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from trainer.minibatch.column_batches import ColumnBatches
from trainer.minibatch.column_input import ColumnFeatures, HiddenRows
from trainer.minibatch.column_table import ColumnTable
from trainer.minibatch.control_variates import Histories
from trainer.minibatch.feature_rows import FeatureRows, FeatureSource
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
        self.rows: FeatureSource | None = None
        self._table: ColumnTable | None = None
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
        table_of: Callable[[SamplerProcesses], ColumnTable | None],
        histories: Histories | None = None,
    ) -> None:
        """Start the samplers; every rank has to call it.

        Args:
            seeds, removed, epochs: see `SamplerProcesses`.
            batch: the fields of graphprep's `BatchOptions`, but for those that all batches of a run have in common.
            steps: batches of an epoch.
            source: where samplers find neighbours, `mapped` or `owners`.
            table_of: gives the columns of features that this rank has; None where rows travel.
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
                "times_of": options.time,
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
        self.rows = self._source_of(table_of(samplers))
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

    def _source_of(self, table: ColumnTable | None) -> FeatureSource:
        stored_type, communicator = TYPES[self._options.precision], self._communicator
        self._table = table
        if table is None:
            features = [x for x in self.features if x is not None]
            return FeatureRows(features, stored_type, communicator, self._log, self.idle)
        [name], weighted = self.type_names, self._sums is not None
        return ColumnBatches(table, stored_type, communicator, self.idle, type_name=name, weighted=weighted)

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

    def input_of(self, batch: ReadyBatch) -> tuple[Tensor | TypedFeatures | ColumnFeatures, Sequence[BatchLayer], int]:
        """The features and the layers of a batch, for a `BatchGraph`, and how many rows the model gives for it."""
        device, arrays = self._communicator.device, batch.slot.arrays
        layers, num_rows = self._shape.layers(arrays), int(arrays["counts"][0].sum())
        if self._table is not None:
            return self._columns_of(batch, self._table, layers[0]), layers, num_rows
        of_types: Sequence[Tensor] = batch.features
        if self._options.time is not None:  # a node is there once for each seed that reaches it, and its row once
            row_of = [arrays[f"row_of/{name}"] for name in self.type_names]
            of_types = [rows.index_select(0, places) for rows, places in zip(of_types, row_of, strict=True)]
        features: Tensor | TypedFeatures
        if self._is_typed:
            clock, stored_type = self._communicator.clock, TYPES[self._options.precision]
            features = TypedFeatures(of_types, device, stored_type, clock, may_be_sparse=False)
        else:
            features = to_device(of_types[0], device)
        return features, layers, num_rows

    def _columns_of(self, batch: ReadyBatch, table: ColumnTable, own_layer: BatchLayer) -> ColumnFeatures:
        communicator = self._communicator
        return ColumnFeatures(
            rows_MW=to_device(batch.features[0], communicator.device),
            layers=[
                own_layer if rank == communicator.rank else self._shape.first_layer(arrays)
                for rank, arrays in enumerate(batch.plans)
            ],
            columns=table.columns,
            width=table.width,
            exchange=HiddenRows(
                communicator=communicator,
                traffic_log=self._log,
                idle=self.idle,
                wire=TYPES[self._options.precision],
            ),
        )
