"""What ranks exchange for layer 1 of batches: rows of features, or parts of hidden rows (`--features-by`).

`auto` counts bytes of the first batch that the samplers draw, over all ranks:

    rows        what the batches need of other ranks' nodes, but for the share that is kept: F values, and the number
                of the row in a request
    columns     (P - 1) times, of each rank's batch: the G values of the n rows that layer 1 computes, forward and
                backward; its nodes and edges; and once in a run the columns of all features

The rows of --remote-row-cache are counted as a cache of the most probable ones has them, and Belady's policy keeps
better ones. Columns also have to fit: they may take half of the memory that is free on every machine.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from trainer.base.precision import TYPES
from trainer.config.features_by import first_width, obstacle_to_columns
from trainer.config.options import Options, is_own_model
from trainer.config.row_cache import kept_share
from trainer.data.cache import Cache
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.minibatch.column_table import ColumnTable, load_column_table, sent_for_tables, sent_type, table_bytes
from trainer.minibatch.sampler_process import SamplerProcesses
from trainer.startup.memory import available_bytes, fits_on_machines

log = logging.getLogger("trainer")

_NUMBER_BYTES, _EDGE_BYTES = 8, 8
"""of a row's number in a request; of an edge with its weight"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLayerCounts:
    """What layer 1 of one rank's batch has."""

    requested: int
    """nodes of other ranks"""
    computed: int
    nodes: int
    edges: int

    @classmethod
    def of_batch(cls, arrays: Mapping[str, Tensor], type_name: str) -> FirstLayerCounts:
        """From the arrays of a batch of one node type."""
        (computed,), (nodes,) = arrays["counts"][-2:].tolist()
        return cls(
            requested=sum(len(arrays[f"rows/{type_name}/{source}_place"]) for source in ("requested", "kept")),
            computed=computed,
            nodes=nodes,
            edges=sum(len(arrays[f"layer/1/{side}_indices"]) for side in ("own", "halo")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBytes:
    """Bytes that all ranks send for layer 1 in a step."""

    rows: float
    columns: float


def step_bytes(
    counts_P: Sequence[FirstLayerCounts],
    *,
    row_bytes: int,
    hidden_bytes: int,
    miss_share: float,
    bytes_before: float,
) -> StepBytes:
    """The bytes of either way.

    Args:
        counts_P: of each rank's batch.
        row_bytes: of a row of features.
        hidden_bytes: of a row that layer 1 computes, as often as such rows are summed over the ranks.
        miss_share: of other ranks' rows that are not kept.
        bytes_before: sent before the first step to share the columns out, as a share of one step.
    """
    of_layers = sum(
        2 * hidden_bytes * one.computed + 4 * (one.nodes + 2 * one.computed) + _EDGE_BYTES * one.edges
        for one in counts_P
    )
    requested = sum(one.requested for one in counts_P)
    return StepBytes(
        rows=miss_share * requested * (row_bytes + _NUMBER_BYTES),
        columns=(len(counts_P) - 1) * of_layers + bytes_before,
    )


class FeaturesBy:
    """The choice of one run, made once for training and evaluation, and the columns of this rank if it is columns."""

    def __init__(
        self,
        options: Options,
        cache: Cache,
        part: Part,
        communicator: Communicator,
        *,
        num_outputs: int,
        num_steps: int,
    ) -> None:
        """Nothing is chosen yet.

        Args:
            options: of the run.
            cache: whose graph it is.
            part: this rank's.
            communicator: the ranks of the run.
            num_outputs: scores a node, or the width of the rows that pairs are scored by.
            num_steps: of the run.
        """
        self._options, self._cache, self._part, self._communicator = options, cache, part, communicator
        self._num_outputs, self._num_steps = num_outputs, max(num_steps, 1)
        self.chosen: str | None = None
        """`rows` or `columns`, once the first samplers have started"""
        self._table: ColumnTable | None = None

    def table(self, samplers: SamplerProcesses) -> ColumnTable | None:
        """This rank's columns, None where rows travel; every rank has to call it.

        Args:
            samplers: whose first batch is looked at if nothing is chosen yet.

        Raises:
            LostPeerError: a rank is gone.
            TrainingError: a sampler process has ended.
        """
        if self.chosen is None:
            self.chosen = self._choose(samplers)
            if self.chosen == "columns":
                assert self._part.x_nF is not None
                stored_type = TYPES[self._options.precision]
                self._table = load_column_table(
                    self._part.x_nF, self._part.ids_n, self._cache.num_nodes, stored_type, self._communicator
                )
        return self._table

    def _choose(self, samplers: SamplerProcesses) -> str:
        options, is_main = self._options, self._communicator.is_main
        if self._communicator.world == 1:
            if options.features_by == "columns":
                log.info("--features-by columns: rows, for the only rank has all features")
            return "rows"
        if options.features_by != "auto":
            return options.features_by
        reason = self._obstacle()
        if reason is not None:
            if is_main:
                log.info("--features-by auto: rows; columns cannot be with %s", reason)
            return "rows"
        return self._fewer_bytes(samplers)

    def _obstacle(self) -> str | None:
        options, x_nF = self._options, self._part.x_nF
        if is_own_model(options.model):
            return f"--model {options.model}, of whose layer 1 the width is not known; try --features-by columns"
        if x_nF is None or self._part.typed is not None:
            return "a graph of several types of nodes, or without features"
        if options.residual and x_nF.shape[1] == first_width(options, self._num_outputs):
            return "--residual where features are as wide as layer 1, which adds whole rows of them"
        return obstacle_to_columns(options)

    def _fewer_bytes(self, samplers: SamplerProcesses) -> str:
        options, communicator, x_nF = self._options, self._communicator, self._part.x_nF
        assert x_nF is not None
        counts = FirstLayerCounts.of_batch(samplers.peek().arrays, self._cache.node_type)
        value_bytes = sent_type(x_nF, TYPES[options.precision]).itemsize
        table = table_bytes(self._cache.num_nodes, x_nF.shape[1], value_bytes, communicator.world)
        facts = communicator.all_gather_object(
            {
                "counts": [counts.requested, counts.computed, counts.nodes, counts.edges],
                "rows": len(x_nF),
                "miss": samplers.miss_share(),
                "host": socket.gethostname(),
                "available": available_bytes(),
            }
        )
        of_ranks = [
            FirstLayerCounts(requested=r, computed=c, nodes=n, edges=e)
            for r, c, n, e in (fact["counts"] for fact in facts)
        ]
        times = 1 + options.residual
        before = sent_for_tables([fact["rows"] for fact in facts], x_nF.shape[1], value_bytes)
        found = step_bytes(
            of_ranks,
            row_bytes=x_nF.shape[1] * value_bytes,
            hidden_bytes=times * first_width(options, self._num_outputs) * TYPES[options.precision].itemsize,
            miss_share=sum(fact["miss"] for fact in facts) / len(facts),
            bytes_before=before / self._num_steps,
        )
        fits, chosen = fits_on_machines(facts, table), "rows"
        if found.columns < found.rows and fits:
            chosen = "columns"
        if communicator.is_main:
            _say(chosen, found, table, fits=fits, keeps=bool(kept_share(options.remote_row_cache)))
        return chosen


def _say(chosen: str, found: StepBytes, table: int, *, fits: bool, keeps: bool) -> None:
    remark = ""
    if found.columns < found.rows and not fits:
        remark = f"; columns of {table / 1e9:.3g} GB a rank take more than half of the free memory"
    elif chosen == "columns":
        remark = f"; each rank keeps {table / 1e9:.3g} GB of columns" + (
            ", and --remote-row-cache does nothing: leave it out" if keeps else ""
        )
    log.info(
        "--features-by auto: %s, for a step sends %.3g MB of rows, or %.3g MB by columns%s",
        chosen,
        found.rows / 1e6,
        found.columns / 1e6,
        remark,
    )
