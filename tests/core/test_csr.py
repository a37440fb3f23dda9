"""CSR conversion against slow, obvious ways of doing the same."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.core import csr, over_rows
from graphprep.core.types import Csr, EdgeChunk, Treatment
from graphprep.errors import DatasetError
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, edge_counter, random_edges


@pytest.fixture(autouse=True, params=[32, 0], ids=["small records", "large records"])
def record_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of 4 bytes, which every small graph gets, and of 8."""
    monkeypatch.setattr(csr, "SMALL_RECORD_BITS", request.param)


sizes = st.tuples(st.integers(1, 40), st.integers(0, 300), st.integers(0, 2**32 - 1), st.booleans())


def on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even the smallest graphs be divided among threads."""
    monkeypatch.setattr(over_rows, "ENTRIES_A_THREAD", 1)
    monkeypatch.setattr(over_rows, "kernel_threads", lambda: 3)


def pairs(chunk: EdgeChunk) -> Counter[tuple[int, int]]:
    return Counter(zip(chunk.src.tolist(), chunk.dst.tolist(), strict=True))


def found_pairs(matrix: Csr) -> Counter[tuple[int, int]]:
    rows = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    return Counter(zip(matrix.indices.tolist(), rows.tolist(), strict=True))


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes)
def test_every_edge_is_kept_in_its_row_in_order(size: tuple[int, int, int, bool]) -> None:
    """Guards against lost, doubled or misplaced edges and against weights that part from their edges."""
    num_nodes, num_edges, seed, weighted = size
    chunk = random_edges(np.random.default_rng(seed), num_nodes, num_edges, weighted=weighted)
    matrix = csr_of(chunk, num_nodes)
    assert csr.fault(matrix) is None
    weights = np.ones(num_edges, np.float32) if chunk.weight is None else chunk.weight
    bits = weights.view(np.int32).tolist()
    assert edge_counter(matrix) == Counter(zip(chunk.src.tolist(), chunk.dst.tolist(), bits, strict=True))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("undirected", [False, True])
def test_however_edges_are_cut_into_chunks(
    monkeypatch: pytest.MonkeyPatch, dtype: type[np.integer[Any]], undirected: bool
) -> None:
    """Guards against edges at the seams of chunks and threads, and against numbers that part from their edges."""
    rng = np.random.default_rng(7)
    src, dst = (rng.integers(0, 300, 5000).astype(dtype) for _ in range(2))
    weight = (src + dst).astype(np.float32)
    cuts = [0, 1, 1, 2500, 2501, 5000]
    whole = [EdgeChunk(src.astype(np.int64), dst.astype(np.int64), weight)]
    pieces = [EdgeChunk(src[a:b], dst[a:b], weight[a:b]) for a, b in pairwise(cuts)]

    def made_of(chunks: list[EdgeChunk]) -> Csr:
        treatment = Treatment(undirected=undirected)
        return csr.from_edges(chunks, num_rows=300, num_sources=300, treatment=treatment, name="t", numbered=True)[0]

    made = [made_of(whole)]
    on_threads(monkeypatch)
    made.append(made_of(pieces))
    for name in ("indptr", "indices", "data", "edge_number"):
        assert np.array_equal(getattr(made[0], name), getattr(made[1], name))


def test_equal_edges_keep_the_order_in_which_they_were_given() -> None:
    """Guards against an unstable sort, whose result would depend on the number of threads; long and short rows."""
    rng = np.random.default_rng(5)
    src = rng.integers(0, 6, 4000)
    dst = np.where(rng.random(4000) < 0.9, 0, rng.integers(0, 50, 4000))
    matrix = csr_of(EdgeChunk(src, dst, np.arange(4000, dtype=np.float32)), 50)
    assert matrix.data is not None
    for row in range(50):
        start, stop = matrix.indptr[row], matrix.indptr[row + 1]
        for column in range(6):
            weights = matrix.data[start:stop][matrix.indices[start:stop] == column]
            assert np.array_equal(weights, np.flatnonzero((src == column) & (dst == row)).astype(np.float32))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes)
def test_undirected_adds_just_the_missing_reverses(size: tuple[int, int, int, bool]) -> None:
    """Guards against doubling edges that the source lists both ways, and against doubled self-loops."""
    num_nodes, num_edges, seed, weighted = size
    rng = np.random.default_rng(seed)
    chunk = random_edges(rng, num_nodes, num_edges, weighted=weighted, one_weight_a_pair=True)
    matrix, counts = csr.from_edges(
        [chunk], num_rows=num_nodes, num_sources=num_nodes, treatment=Treatment(undirected=True), name="test"
    )
    given_pairs = pairs(chunk)
    reversed_pairs = Counter({(dst, src): count for (src, dst), count in given_pairs.items()})
    assert found_pairs(matrix) == given_pairs | reversed_pairs
    assert counts.reversed_added == matrix.num_edges - num_edges
    assert csr.is_symmetric(matrix)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes)
def test_treatments_and_their_counts(size: tuple[int, int, int, bool]) -> None:
    """Guards against counts in the store's attributes that do not say what was done."""
    num_nodes, num_edges, seed, weighted = size
    chunk = random_edges(np.random.default_rng(seed), num_nodes, num_edges, weighted=weighted)
    given_pairs = pairs(chunk)
    loops = sum(count for (src, dst), count in given_pairs.items() if src == dst)
    treatment = Treatment(duplicates="max", self_loops="add")
    matrix, counts = csr.from_edges(
        [chunk], num_rows=num_nodes, num_sources=num_nodes, treatment=treatment, name="test"
    )
    assert csr.fault(matrix) is None
    assert set(found_pairs(matrix)) == set(given_pairs) | {(node, node) for node in range(num_nodes)}
    assert max(found_pairs(matrix).values()) == 1
    assert counts.self_loops_found == loops
    assert counts.duplicates_removed == counts.duplicates_found == num_edges - len(given_pairs)
    assert counts.edges == num_edges - counts.duplicates_removed + counts.self_loops_added == matrix.num_edges
    treatment = Treatment(duplicates="sum", self_loops="drop")
    matrix, counts = csr.from_edges(
        [chunk], num_rows=num_nodes, num_sources=num_nodes, treatment=treatment, name="test"
    )
    assert counts.self_loops_dropped == loops
    expected = np.zeros((num_nodes, num_nodes))
    other = chunk.src != chunk.dst
    np.add.at(expected, (chunk.dst[other], chunk.src[other]), 1 if chunk.weight is None else chunk.weight[other])
    dense = np.zeros((num_nodes, num_nodes))
    rows = np.repeat(np.arange(num_nodes), np.diff(matrix.indptr))
    dense[rows, matrix.indices] = 1 if matrix.data is None else matrix.data
    np.testing.assert_allclose(dense, expected, rtol=1e-5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes)
def test_transpose_and_clean_graph(size: tuple[int, int, int, bool]) -> None:
    """Guards against a partitioner that is given one-way edges, loops or duplicates, on which METIS dies."""
    num_nodes, num_edges, seed, weighted = size
    chunk = random_edges(np.random.default_rng(seed), num_nodes, num_edges, weighted=weighted)
    matrix = csr_of(chunk, num_nodes)
    back = csr.transpose(csr.transpose(matrix))
    assert edge_counter(back) == edge_counter(matrix)
    clean = csr.undirected_simple(matrix)
    assert csr.fault(clean) is None
    assert csr.is_symmetric(clean)
    expected: Counter[tuple[int, int]] = Counter()
    for (src, dst), count in pairs(chunk).items():
        if src != dst:
            expected[src, dst] += count
            expected[dst, src] += count
    rows = np.repeat(np.arange(num_nodes), np.diff(clean.indptr))
    counts = [2.0] * clean.num_edges if clean.data is None else clean.data.tolist()
    assert dict(zip(zip(clean.indices.tolist(), rows.tolist(), strict=True), counts, strict=True)) == expected
    again = csr.undirected_simple(clean)
    assert again.data is None
    assert again.indices is clean.indices
    if clean.data is None:
        assert clean.indices is matrix.indices


@pytest.mark.parametrize(("src", "dst"), [([0, 1, 1], [1, 0, 1]), ([0, 1, 0, 1], [1, 0, 1, 0]), ([0, 1], [1, 2])])
def test_a_graph_that_is_not_clean_is_not_shared(src: list[int], dst: list[int]) -> None:
    """Guards against a self-loop, a double edge or a one-way edge that slips through to METIS."""
    clean = csr.undirected_simple(csr_of(EdgeChunk(np.array(src), np.array(dst)), 3))
    assert clean.data is not None
    assert csr.is_simple(clean)
    assert csr.is_symmetric(clean)


@pytest.mark.parametrize(
    ("src", "dst", "bad"), [([0, -1], [0, 0], "-1"), ([0, 3], [0, 0], "3"), ([0], [3], "3"), ([0], [-7], "-7")]
)
def test_ids_out_of_range_are_refused(src: list[int], dst: list[int], bad: str) -> None:
    """Guards against a kernel that writes outside its arrays and kills the process later."""
    with pytest.raises(DatasetError, match=rf"id {bad} is out of range 0 \.\. 2"):
        csr_of(EdgeChunk(np.array(src), np.array(dst)), 3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("records_per_bucket", [1 << 16, 5000, 100])
def test_rows_at_the_borders_of_buckets(
    monkeypatch: pytest.MonkeyPatch, records_per_bucket: int, weighted: bool
) -> None:
    """Guards against bucket borders: rows at both sides of each, rows without edges at the end, big and small buckets,
    and a hub whose bucket is far larger than the others."""
    monkeypatch.setattr(csr, "RECORDS_PER_BUCKET", records_per_bucket)
    num_nodes = 70_001
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, num_nodes, 50_000), rng.integers(0, num_nodes - 20, 50_000)
    bits = csr.bucket_bits(num_nodes, 50_000, csr.key_bits(num_nodes, undirected=False))
    dst[:4] = [0, (1 << bits) - 1, 1 << bits, num_nodes - 21]
    dst[30_000:40_000] = 12_345
    weight = np.arange(50_000, dtype=np.float32) if weighted else None
    matrix = csr_of(EdgeChunk(src, dst, weight), num_nodes)
    assert csr.fault(matrix) is None
    order = np.lexsort((src, dst))
    assert np.array_equal(matrix.indices, src[order])
    assert np.array_equal(np.diff(matrix.indptr), np.bincount(dst, minlength=num_nodes))
    if weighted:
        assert matrix.data is not None
        assert np.array_equal(matrix.data, order.astype(np.float32))


def test_faults_are_found() -> None:
    """Guards against a damaged store that passes for whole."""
    good = csr_of(EdgeChunk(np.array([0, 1, 2, 0]), np.array([0, 0, 1, 2])), 3)
    assert csr.fault(good) is None
    falling = Csr(indptr=np.array([0, 3, 2, 4]), indices=good.indices, num_sources=3)
    assert csr.fault(falling) is not None
    beyond = Csr(indptr=good.indptr, indices=np.array([0, 1, 2, 3], np.int32), num_sources=3)
    assert csr.fault(beyond) is not None
    unsorted = Csr(indptr=good.indptr, indices=np.array([1, 0, 2, 0], np.int32), num_sources=3)
    assert csr.fault(unsorted) is not None
    short = Csr(indptr=good.indptr, indices=good.indices[:3], num_sources=3)
    assert csr.fault(short) is not None


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range reads and writes, which corrupt the heap and hang the process later."""
    bounds_checked(
        "import numpy as np\n"
        "from tests.graphs import csr_of, random_edges\n"
        "from graphprep.core import csr\n"
        "from graphprep.core.types import Treatment\n"
        f"csr.SMALL_RECORD_BITS = {csr.SMALL_RECORD_BITS}\n"
        "rng = np.random.default_rng(0)\n"
        "for n, e in ((1, 0), (1, 3), (5, 40), (300, 4000), (9, 3000)):\n"
        "    for weighted in (False, True):\n"
        "        chunk = random_edges(rng, n, e, weighted=weighted, hub=True, one_weight_a_pair=True)\n"
        "        treatments = [Treatment(undirected=u, duplicates=d)\n"
        "                      for u in (False, True) for d in ('keep', 'drop', 'sum', 'max', 'min', 'mean')]\n"
        "        for treatment in (*treatments, Treatment(duplicates='drop', self_loops='add')):\n"
        "            matrix = csr_of(chunk, n, treatment)\n"
        "            csr.undirected_simple(matrix), csr.weighted_in_degree(matrix)\n"
        "            csr.self_loops_of_rows(matrix, first_row=0)\n"
        "            assert csr.fault(csr.transpose(matrix)) is None\n"
    )


def test_any_number_of_threads_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against ranges of rows that miss a row or take one twice, and against sums of one range for all."""
    chunk = random_edges(np.random.default_rng(3), 50, 600, weighted=True)
    matrix = csr_of(chunk, 50)

    def found() -> list[Any]:
        simple = csr.undirected_simple(matrix)
        sums_N = csr.weighted_in_degree(matrix)
        fingerprints = (csr.direction_fingerprint(matrix, first_row=0), csr.edges_fingerprint(chunk))
        facts = (csr.is_simple(matrix), csr.is_simple(simple), csr.self_loops_of_rows(matrix, first_row=0))
        assert simple.data is not None
        return [
            simple.indptr.tolist(),
            simple.indices.tolist(),
            simple.data.tolist(),
            sums_N.tolist(),
            fingerprints,
            facts,
        ]

    alone = found()
    on_threads(monkeypatch)
    assert found() == alone
