"""What all generators share: edges and features come in chunks, each from its own stream of random numbers.

A chunk's stream depends on the seed and on the chunk's number alone, so a graph can be read again, in any order and by
any process, and is the same on every machine, without being held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphprep.core.splits import seeded_split
from graphprep.core.types import (
    HOMOGENEOUS_EDGE,
    HOMOGENEOUS_NODE,
    EdgeChunk,
    EdgeSections,
    EdgeTable,
    NodeTable,
    RawGraph,
    Treatment,
)
from graphprep.datasets.generators.requests import GraphRequest
from graphprep.system import progress
from graphprep.system.files.atomic import reserve

EDGES_AT_A_TIME = 1 << 20
CHUNKS_A_SECTION = 4
ROWS_AT_A_TIME = 1 << 16


def drawn_sections(num_edges: int, draw: Callable[..., EdgeChunk], *shared: object) -> EdgeSections:
    """Edges that are drawn in chunks, a few of them a section.

    Args:
        num_edges: all of them.
        draw: called with a chunk's number, its number of edges, and what is shared; a function of a module.
        shared: what all chunks have in common.
    """
    a_section = EDGES_AT_A_TIME * CHUNKS_A_SECTION
    counts = [min(a_section, num_edges - start) for start in range(0, num_edges, a_section)]
    return EdgeSections(counts=counts, read=_drawn, shared=(num_edges, EDGES_AT_A_TIME, draw, *shared))


def _drawn(
    section: int, num_edges: int, a_chunk: int, draw: Callable[..., EdgeChunk], *shared: object
) -> Iterator[EdgeChunk]:
    for number in range(section * CHUNKS_A_SECTION, (section + 1) * CHUNKS_A_SECTION):
        count = min(a_chunk, num_edges - number * a_chunk)
        if count > 0:
            yield draw(number, count, *shared)


def undirected_graph(
    kind: str, request: GraphRequest, y: NDArray[np.int64], sections: EdgeSections, folder: Path
) -> RawGraph:
    """The graph of some edges, each given once; self-loops and repetitions are dropped.

    Args:
        kind: the generator's name.
        request: its parameters.
        y: int64 [N], the classes.
        sections: the edges.
        folder: features go to a file in it.
    """
    return RawGraph(
        nodes={HOMOGENEOUS_NODE: _labelled_nodes(y, request, folder / "x.npy")},
        edges=(EdgeTable.of_sections(HOMOGENEOUS_EDGE, sections),),
        treatment=Treatment(undirected=True, duplicates="drop", self_loops="drop"),
        notes={"generator": kind, "parameters": asdict(request), "split": "seeded, 20 and 30 nodes a class"},
    )


def _labelled_nodes(y: NDArray[np.int64], request: GraphRequest, file: Path) -> NodeTable:
    """Nodes whose features are their class's centre plus noise of deviation 1; a seeded split.

    Features go to `file`, row range by row range, and are returned as a memory map of it.
    """
    split = seeded_split(y, seed=request.seed)
    x = None
    if request.features:
        file.parent.mkdir(parents=True, exist_ok=True)
        centres = np.random.default_rng([request.seed, 1]).standard_normal(
            (int(y.max(initial=0)) + 1, request.features)
        )
        centres *= request.signal / np.linalg.norm(centres, axis=1, keepdims=True)
        x = np.lib.format.open_memmap(file, mode="w+", dtype=request.dtype, shape=(len(y), request.features))
        reserve(file)
        with progress.task("drawing features", total=len(y), unit="rows") as task:
            for start in range(0, len(y), ROWS_AT_A_TIME):
                labels = y[start : start + ROWS_AT_A_TIME]
                noise = np.random.default_rng([request.seed, 2, start]).standard_normal(
                    (len(labels), request.features), np.float32
                )
                x[start : start + len(labels)] = noise + centres[labels]
                task.advance(len(labels))
    return NodeTable(num_nodes=len(y), x=x, y=y, **split._asdict())
