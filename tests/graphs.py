"""Small graphs for tests: random ones of every kind, and slow, independent ways to look at them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from graphprep.core.csr import from_edges
from graphprep.core.types import (
    HOMOGENEOUS_EDGE,
    HOMOGENEOUS_NODE,
    Csr,
    EdgeChunk,
    EdgeTable,
    EdgeType,
    NodeTable,
    RawGraph,
    Treatment,
)


def random_edges(
    rng: np.random.Generator,
    num_nodes: int,
    num_edges: int,
    *,
    weighted: bool = False,
    hub: bool = False,
    one_weight_a_pair: bool = False,
) -> EdgeChunk:
    """Random directed edges with loops and duplicates; with `hub` node 0 is the source of half of them.

    With `one_weight_a_pair` all edges between two nodes, in both directions, have the same weight.
    """
    src = rng.integers(0, num_nodes, num_edges)
    dst = rng.integers(0, num_nodes, num_edges)
    if hub:
        src[::2] = 0
    if one_weight_a_pair and weighted:
        mixed = np.minimum(src, dst) * 7919 + np.maximum(src, dst) * 104_729
        return EdgeChunk(src, dst, ((mixed % 1009 + 1) / 1009).astype(np.float32))
    return EdgeChunk(src, dst, rng.random(num_edges, dtype=np.float32) if weighted else None)


def csr_of(chunk: EdgeChunk, num_nodes: int, treatment: Treatment | None = None) -> Csr:
    """The CSR of one chunk."""
    matrix, _ = from_edges(
        [chunk], num_rows=num_nodes, num_sources=num_nodes, treatment=treatment or Treatment(), name="test"
    )
    return matrix


def edge_counter(matrix: Csr) -> Counter[tuple[int, ...]]:
    """How often each (source, destination, weight bits) occurs."""
    rows = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    weights = np.ones(matrix.num_edges, np.float32) if matrix.data is None else np.asarray(matrix.data)
    return Counter(
        zip(matrix.indices.tolist(), rows.tolist(), weights.astype(np.float32).view(np.int32).tolist(), strict=True)
    )


def labelled_graph(
    rng: np.random.Generator,
    num_nodes: int,
    num_edges: int,
    *,
    num_features: int = 5,
    num_classes: int = 3,
    weighted: bool = False,
    undirected: bool = False,
    dtype: str = "float32",
) -> RawGraph:
    """A random graph with features, labels (some -1) and one split."""
    chunk = random_edges(rng, num_nodes, num_edges, weighted=weighted, one_weight_a_pair=undirected)
    y: NDArray[np.int64] = rng.integers(-1, num_classes, num_nodes)
    lot = rng.random((num_nodes, 1))
    labelled = (y >= 0)[:, None]
    return RawGraph(
        nodes={
            HOMOGENEOUS_NODE: NodeTable(
                num_nodes=num_nodes,
                x=rng.standard_normal((num_nodes, num_features)).astype(dtype),
                y=y,
                train_mask=labelled & (lot < 0.4),
                val_mask=labelled & (lot >= 0.4) & (lot < 0.6),
                test_mask=labelled & (lot >= 0.6),
            )
        },
        edges=(EdgeTable(type=HOMOGENEOUS_EDGE, chunks=lambda: iter([chunk]), num_edges=num_edges),),
        treatment=Treatment(undirected=undirected),
    )


def typed_graph(rng: np.random.Generator, *, authors: int = 30, papers: int = 50, num_edges: int = 200) -> RawGraph:
    """A random graph of two node types and three edge types; papers are labelled, authors have no features."""
    writes = random_edges(rng, min(authors, papers), num_edges)
    cites = random_edges(rng, papers, num_edges, weighted=True)
    split = rng.integers(0, 3, papers)
    tables = {
        "author": NodeTable(num_nodes=authors),
        "paper": NodeTable(
            num_nodes=papers,
            x=rng.standard_normal((papers, 4)).astype(np.float32),
            y=rng.integers(0, 3, papers),
            train_mask=(split == 0)[:, None],
            val_mask=(split == 1)[:, None],
            test_mask=(split == 2)[:, None],
        ),
    }
    kinds = [
        (EdgeType("author", "writes", "paper"), writes),
        (EdgeType("paper", "by", "author"), EdgeChunk(writes.dst, writes.src)),
        (EdgeType("paper", "cites", "paper"), cites),
    ]
    return RawGraph(
        nodes=tables,
        edges=tuple(
            EdgeTable(type=kind, chunks=lambda chunk=chunk: iter([chunk]), num_edges=num_edges) for kind, chunk in kinds
        ),
    )


def with_edge_arrays(rng: np.random.Generator, raw: RawGraph) -> RawGraph:
    """The same graph, its edges with features and times; every edge's are its own."""

    def table(edges: EdgeTable) -> EdgeTable:
        count = edges.num_edges or 0
        features = rng.standard_normal((count, 3)).astype(np.float32)
        return replace(edges, attributes={"edge_attr": features, "time": rng.permutation(count)})

    return replace(raw, edges=tuple(map(table, raw.edges)))
