"""What a plan knows of a partitioned graph: its counts, and some of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import index_dtype
from graphprep.core.types import Csr
from graphprep.plan.trainer_memory import RankSizes
from graphprep.topology import Topology
from graphprep.traffic import Traffic
from graphprep.traffic.tensor import CrossRows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionedGraph:
    """The counts of a partitioned graph, and some of its rows to measure rates on."""

    dataset: str
    topology: Topology
    traffic: Traffic
    cross: CrossRows
    nodes_P: NDArray[np.int64]
    num_features: int
    entries_P: list[int | None]
    """features that are not 0; None where they are many"""
    num_classes: int
    sample: Csr
    is_sketch: bool
    num_edge_features: int = 0
    """Of those that the model reads."""

    @property
    def widths(self) -> tuple[int, int, int]:
        """What the number of a model's weights depends on: features, classes, features of an edge."""
        return self.num_features, self.num_classes, self.num_edge_features


def rank_sizes(graph: PartitionedGraph) -> list[RankSizes]:
    """What the trainer's memory depends on; a block of edges is between a rank's rows and those of one peer."""
    rows_PP, edges_PP, local_edges_P = graph.traffic.rows_PP, graph.traffic.edges_PP, graph.traffic.local_edges_P
    ranks: list[RankSizes] = []
    for rank, rows in enumerate(graph.nodes_P.tolist()):
        largest_halo = int(rows_PP[:, rank].max())
        longest = max(rows, largest_halo, int(edges_PP[:, rank].max()), int(local_edges_P[rank]))
        ranks.append(
            {
                "rows": rows,
                "halo": int(graph.traffic.halo_rows_P[rank]),
                "largest_halo": largest_halo,
                "sent": int(rows_PP[rank].sum()),
                "others": int(graph.nodes_P.sum()) - rows,
                "edges": int(graph.traffic.in_edges_P[rank]),
                "shared_rows": int(graph.cross.shared_P[rank]),
                "halo_sums": int(graph.cross.sums_P[rank]),
                "cross_edges": int(edges_PP[:, rank].sum()),
                "index_bytes": np.dtype(index_dtype(longest)).itemsize,
                "features": graph.num_features,
                "outputs": graph.num_classes,
                "edge_features": graph.num_edge_features,
                "entries": graph.entries_P[rank],
            }
        )
    return ranks
