"""One pass over the edges: every figure is that of a slow, independent count."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csgraph

from graphprep.core.types import HOMOGENEOUS_EDGE, Csr, EdgeType, RawGraph
from graphprep.report.summary import edge_scan
from graphprep.report.summary.edge_scan import Findings, scan_edges
from graphprep.store.store import GraphStore
from tests.conftest import BoundsChecked
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_store

GRAPHS = {
    "directed": {"num_nodes": 40, "num_edges": 300},
    "undirected": {"num_nodes": 40, "num_edges": 90, "undirected": True},
    "sparse": {"num_nodes": 300, "num_edges": 120},
    "without edges": {"num_nodes": 5, "num_edges": 0},
    "one node": {"num_nodes": 1, "num_edges": 3},
}


def labels_of(store: GraphStore) -> dict[str, np.ndarray]:
    y = store.node_array("node", "y")
    assert y is not None
    return {"node": np.asarray(y[:]).astype(np.int32)}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("edges_at_a_time", [1, 7, 1 << 23])
def test_the_figures_are_those_of_a_slow_count(
    name: str, edges_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against figures that depend on where a range of rows ends, and against wrong ones."""
    monkeypatch.setattr(edge_scan, "EDGES_AT_A_TIME", edges_at_a_time)
    store = make_store(labelled_graph(np.random.default_rng(3), **GRAPHS[name]))
    label_N = labels_of(store)["node"]
    found = scan_edges(store, {"node": label_N})
    edges = found.edges[HOMOGENEOUS_EDGE]
    matrix = store.csr(HOMOGENEOUS_EDGE)
    dst = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    src = matrix.indices.astype(np.int64)
    pairs = Counter(zip(src.tolist(), dst.tolist(), strict=True))
    assert edges.in_degree_N.tolist() == np.bincount(dst, minlength=matrix.num_rows).tolist()
    assert edges.out_degree_N.tolist() == np.bincount(src, minlength=matrix.num_rows).tolist()
    assert edges.self_loops == sum(count for (u, v), count in pairs.items() if u == v)
    assert edges.duplicates == sum(count - 1 for count in pairs.values())
    distinct = [(u, v) for u, v in pairs if u != v]
    lonely = [(u, v) for u, v in distinct if (v, u) not in pairs]
    assert edges.one_way is not None
    assert edges.one_way["is_exact"]
    assert edges.one_way["share"] == (len(lonely) / len(distinct) if distinct else 0)
    number, component_N = csgraph.connected_components(store.to_scipy(), directed=False)
    assert found.components == number
    assert found.largest_component == np.bincount(component_N).max()
    counted = (src != dst) & (label_N[src] >= 0) & (label_N[dst] >= 0)
    if not counted.any():
        assert edges.homophily is None
        return
    assert edges.homophily is not None
    same = label_N[src] == label_N[dst]
    shares = [same[counted & (dst == v)].mean() for v in np.unique(dst[counted])]
    assert edges.homophily["labelled_edges"] == counted.sum()
    assert edges.homophily["edge"] == pytest.approx(same[counted].mean())
    assert edges.homophily["node"] == pytest.approx(np.mean(shares))
    chance = sum((label_N[src[counted]] == c).mean() * (label_N[dst[counted]] == c).mean() for c in np.unique(label_N))
    assert edges.homophily["adjusted"] == pytest.approx((same[counted].mean() - chance) / (1 - chance))


def test_several_types_are_one_graph() -> None:
    """Guards against components and degrees of one edge type taken for those of the graph."""
    raw: RawGraph = typed_graph(np.random.default_rng(2), authors=40, papers=60, num_edges=50)
    store = make_store(raw)
    found: Findings = scan_edges(store, {})
    first = {"author": 0, "paper": 40}
    ends = [
        (first[kind.source] + matrix.indices, first[kind.destination] + np.repeat(rows, np.diff(matrix.indptr)))
        for kind in store.num_edges
        for matrix in [store.csr(kind)]
        for rows in [np.arange(matrix.num_rows)]
    ]
    src, dst = (np.concatenate(side) for side in zip(*ends, strict=True))
    from scipy.sparse import coo_array

    number, _ = csgraph.connected_components(coo_array((np.ones(len(src)), (src, dst)), shape=(100, 100)))
    assert found.components == number
    writes = next(edges for kind, edges in found.edges.items() if kind.relation == "writes")
    assert (writes.one_way, writes.homophily, len(writes.in_degree_N), len(writes.out_degree_N)) == (None, None, 60, 40)


def test_a_sample_of_pairs_is_close_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a sample in which an edge is kept and its reverse is not: that would look one-way."""
    rng = np.random.default_rng(5)
    store = make_store(labelled_graph(rng, num_nodes=600, num_edges=20_000))
    whole = scan_edges(store, {}).edges[HOMOGENEOUS_EDGE].one_way
    monkeypatch.setattr(edge_scan, "SAMPLED_EDGES", 4096)
    some = scan_edges(store, {}).edges[HOMOGENEOUS_EDGE].one_way
    assert whole is not None
    assert some is not None
    assert (whole["is_exact"], some["is_exact"]) == (True, False)
    assert 1000 < some["looked_at"] < 16_384
    assert some["share"] == pytest.approx(whole["share"], abs=0.05)


def test_ranges_hold_few_edges_and_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a hub that draws many rows into memory with it, and against rows that are left out."""
    monkeypatch.setattr(edge_scan, "EDGES_AT_A_TIME", 50)
    store = make_store(labelled_graph(np.random.default_rng(1), num_nodes=200, num_edges=900))
    read: list[tuple[int, int]] = []
    csr_rows = store.csr_rows

    def watched(kind: EdgeType, start: int, stop: int) -> Csr:
        rows = csr_rows(kind, start, stop)
        assert rows.num_edges <= 50 or rows.num_rows == 1
        read.append((start, stop))
        return rows

    monkeypatch.setattr(store, "csr_rows", watched)
    scan_edges(store, {})
    assert len(read) > edge_scan.GROUPS
    assert [start for start, _ in sorted(read)] == [0, *(stop for _, stop in sorted(read)[:-1])]
    assert max(stop for _, stop in read) == 200


@pytest.mark.slow
def test_no_kernel_reads_or_writes_out_of_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against an index one too far, which numba does not notice by itself."""
    bounds_checked(
        """
import numpy as np
from graphprep.report.summary import edge_kernels as k
indptr, indices = np.array([0, 2, 2, 5]), np.array([0, 2, 0, 2, 2], np.int32)
label = np.array([1, -1, 0], np.int32)
out, counts, into, sums = np.zeros(3, np.int32), np.zeros(4, np.int64), np.zeros(2, np.int64), np.zeros(2)
k.scan_rows(indptr, indices, 0, label, label, out, counts, into, into.copy(), sums)
assert counts.tolist() == [3, 1, 2, 0], counts
k.scan_rows(indptr, indices, -1, label[:0], label[:0], out, counts, into, into.copy(), sums)
parent = np.arange(3, dtype=np.int32)
k.join_rows(indptr, indices, 0, 0, parent)
k.join_components(np.array([0, 0, 0], np.int32), parent)
assert parent[1] == 0
parent = np.array([0, 1, 0], np.int32)
sizes = np.zeros(3, np.int32)
k.component_sizes(parent, sizes)
assert sorted(sizes.tolist()) == [0, 1, 2]
low, high = np.empty(1, np.int64), np.empty(1, np.int64)
assert k.sample_pairs(indptr, indices, 0, np.uint64(0), low, high, 0) == 2
"""
    )
