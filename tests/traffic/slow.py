"""Small random graphs of several types, and the cost model written down once more, slowly and without arrays."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphprep.core.types import Csr, EdgeType
from graphprep.topology import Topology

KINDS = (
    EdgeType("a", "to", "a"),
    EdgeType("a", "likes", "b"),
    EdgeType("a", "owns", "b"),
    EdgeType("b", "of", "a"),
)
Edges = dict[EdgeType, list[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class Case:
    edges: Edges
    csrs: dict[EdgeType, Csr]
    assignments: dict[str, NDArray[np.int32]]
    num_parts: int


def csr_of(edges: list[tuple[int, int]], num_sources: int, num_rows: int, dtype: type = np.int32) -> Csr:
    """In-edges, by sorting."""
    ordered = sorted((dst, src) for src, dst in edges)
    indptr = np.zeros(num_rows + 1, np.int64)
    for dst, _ in ordered:
        indptr[dst + 1 :] += 1
    return Csr(indptr=indptr, indices=np.array([src for _, src in ordered], dtype), num_sources=num_sources)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Directed, with self-loops and duplicates; types, parts and the whole graph may be empty."""
    num_parts = draw(st.integers(1, 5))
    nodes = {"a": draw(st.integers(0, 9)), "b": draw(st.integers(0, 5))}
    kinds = draw(st.lists(st.sampled_from(KINDS), unique=True))
    used_parts = draw(st.lists(st.integers(0, num_parts - 1), min_size=1))
    edges: Edges = {}
    for kind in kinds:
        possible = [(src, dst) for src in range(nodes[kind.source]) for dst in range(nodes[kind.destination])]
        edges[kind] = draw(st.lists(st.sampled_from(possible), max_size=30)) if possible else []
    assignments = {
        name: np.array(draw(st.lists(st.sampled_from(used_parts), min_size=count, max_size=count)), np.int32)
        for name, count in nodes.items()
    }
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    csrs = {kind: csr_of(listed, nodes[kind.source], nodes[kind.destination], dtype) for kind, listed in edges.items()}
    return Case(edges=edges, csrs=csrs, assignments=assignments, num_parts=num_parts)


def slow_rows_and_edges(case: Case) -> tuple[list[list[int]], list[list[int]]]:
    """Distinct (type, node) and edges of every ordered pair of parts; edges inside a part on the diagonal."""
    parts = range(case.num_parts)
    senders: defaultdict[tuple[int, int], set[tuple[str, int]]] = defaultdict(set)
    edges: defaultdict[tuple[int, int], int] = defaultdict(int)
    for kind, listed in case.edges.items():
        for src, dst in listed:
            p, q = int(case.assignments[kind.source][src]), int(case.assignments[kind.destination][dst])
            edges[p, q] += 1
            if p != q:
                senders[p, q].add((kind.source, src))
    return [[len(senders[p, q]) for q in parts] for p in parts], [[edges[p, q] for q in parts] for p in parts]


def slow_seconds(units: list[list[int]], topology: Topology, row_bytes: int) -> dict[tuple[int, int], float]:
    """Seconds of every (link, direction), pair by pair along the names of its path."""
    seconds: dict[tuple[int, int], float] = {}
    for number, link in enumerate(topology.links):
        for direction in (0, 1):
            total_bytes = messages = 0
            for p in range(topology.num_ranks):
                for q in range(topology.num_ranks):
                    if units[p][q] and (number, direction) in topology.routes[p][q]:
                        total_bytes += units[p][q] * row_bytes
                        messages += 1
            seconds[number, direction] = total_bytes / (link.gbytes_per_s * 1e9) + messages * link.latency_us / 1e6
    return seconds
