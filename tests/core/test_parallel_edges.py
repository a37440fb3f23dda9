"""What becomes of parallel edges and of the two directions of an undirected edge, against a slow way of saying it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.core.choices import Duplicates
from graphprep.core.csr import direction_fingerprint, from_edges
from graphprep.core.types import Csr, EdgeChunk, EdgeTable, EdgeType, Treatment
from graphprep.errors import DatasetError
from graphprep.store import external_sort, sort, sort_runs
from graphprep.store.sort import SortedEdges, sort_table
from graphprep.system.executor import Threads
from tests.store.test_sort import joined, table_of

Line = tuple[int, int, float]
ONE_EDGE: tuple[Duplicates, ...] = ("drop", "sum", "max", "min", "mean")
WEIGHTS = [0.1, 0.25, 1.0, 3.0, 1e-3, 16_777_216.0, -2.0]
lines = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(WEIGHTS)), min_size=1, max_size=30)


def chunk_of(edges: list[Line], *, weighted: bool = True) -> EdgeChunk:
    src, dst, weight = (np.array(column) for column in zip(*edges, strict=True))
    return EdgeChunk(src, dst, weight.astype(np.float32) if weighted else None)


def made(edges: list[Line], treatment: Treatment, *, weighted: bool = True) -> Csr:
    chunk = chunk_of(edges, weighted=weighted)
    return from_edges([chunk], num_rows=6, num_sources=6, treatment=treatment, name="test", numbered=True)[0]


def weights_by_edge(matrix: Csr) -> dict[tuple[int, int], list[float]]:
    """Ascending weights by (source, destination)."""
    rows = np.repeat(np.arange(matrix.num_rows), np.diff(matrix.indptr))
    data = np.ones(matrix.num_edges, np.float32) if matrix.data is None else matrix.data
    found: dict[tuple[int, int], list[float]] = {}
    for src, dst, weight in zip(matrix.indices.tolist(), rows.tolist(), data.tolist(), strict=True):
        found.setdefault((src, dst), []).append(weight)
    return {edge: sorted(weights) for edge, weights in found.items()}


def expected(edges: list[Line], treatment: Treatment) -> dict[tuple[int, int], list[float]] | None:
    """The same as docs/import.md says it, one pair of nodes after the other; None where it has to be refused."""
    there: dict[tuple[int, int], list[float]] = {}
    for src, dst, weight in edges:
        there.setdefault((src, dst), []).append(float(np.float32(weight)))
    both_ways = all(sorted(there.get(edge[::-1], [])) == sorted(weights) for edge, weights in there.items())
    pairs = set(there) | ({edge[::-1] for edge in there} if treatment.undirected else set())
    found: dict[tuple[int, int], list[float]] = {}
    for src, dst in pairs:
        own = there.get((src, dst), [])
        back = there.get((dst, src), []) if treatment.undirected and src != dst else []
        if treatment.duplicates == "keep":
            union = Counter(own) | Counter(back)
            if Counter(own) - Counter(back) and Counter(back) - Counter(own):
                return None
            found[src, dst] = sorted(union.elements())
            continue
        copies = own if treatment.undirected and both_ways and treatment.duplicates == "sum" else own + back
        if treatment.duplicates == "drop" and len(set(copies)) > 1:
            return None
        ascending = sorted(copies)
        weight = {
            "drop": ascending[0],
            "sum": sum(ascending),
            "max": ascending[-1],
            "min": ascending[0],
            "mean": sum(ascending) / len(ascending),
        }[treatment.duplicates]
        found[src, dst] = [float(np.float32(weight))]
    return found


def sort_on_disk(edges: EdgeChunk, treatment: Treatment, work: Path) -> SortedEdges:
    """By sections of the stream and ranges of rows."""
    return sort_table(
        table_of(edges, sections=True),
        num_rows=6,
        num_sources=6,
        treatment=treatment,
        limit=None,
        work=work / "edges",
        executor=Threads(),
    )


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """No edge fits in memory, a range has two rows, and a run a few edges."""
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    monkeypatch.setattr(external_sort, "LEAST_RANGE_BITS", 1)
    monkeypatch.setattr(external_sort, "MOST_RANGES", 6)
    monkeypatch.setattr(sort_runs, "MOST_EDGES", 4)
    monkeypatch.setattr(sort_runs, "LEAST_EDGES", 1)


def test_copies_of_both_directions_are_counted() -> None:
    """Guards against a traceback where each weight of one direction is one of the other, but not as often."""
    edges = [(0, 1, 0.1), (0, 1, 0.25), (1, 0, 0.25), (1, 0, 0.25)]
    with pytest.raises(DatasetError, match=r"1 -> 0 has the weight 0.25 and 0 -> 1 the weight 0.1, but an undirected"):
        made(edges, Treatment(undirected=True, duplicates="keep"))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(edges=lines, undirected=st.booleans(), duplicates=st.sampled_from(["keep", *ONE_EDGE]), data=st.data())
def test_the_order_of_the_lines_does_not_matter(
    edges: list[Line], undirected: bool, duplicates: Duplicates, data: st.DataObject
) -> None:
    """Guards against sums that took some copies of one direction and some of the other, as the lines happened to lie,
    and against an undirected graph whose two directions weigh differently."""
    treatment = Treatment(undirected=undirected, duplicates=duplicates)
    wanted = expected(edges, treatment)
    shuffled = data.draw(st.permutations(edges))
    if wanted is None:
        for order in (edges, shuffled):
            with pytest.raises(DatasetError, match=r"--duplicates (drop is for|sum, max)"):
                made(order, treatment)
        return
    one, other = made(edges, treatment), made(shuffled, treatment)
    assert weights_by_edge(one) == wanted
    assert np.array_equal(one.indptr, other.indptr)
    assert np.array_equal(one.indices, other.indices)
    if undirected or duplicates != "keep":  # parallel edges of a directed graph keep the order of the lines
        assert one.data is not None
        assert other.data is not None
        assert one.data.tobytes() == other.data.tobytes()
    if undirected:
        assert direction_fingerprint(one, first_row=0) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("small_ranges")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=lines, undirected=st.booleans(), duplicates=st.sampled_from(["keep", *ONE_EDGE]))
def test_the_disk_has_the_same_rules(
    tmp_path_factory: pytest.TempPathFactory, edges: list[Line], undirected: bool, duplicates: Duplicates
) -> None:
    """Guards against a range of rows that does not know that other ranges list each edge in both directions."""
    treatment = Treatment(undirected=undirected, duplicates=duplicates)
    wanted = expected(edges, treatment)
    work = tmp_path_factory.mktemp("work")
    if wanted is None:
        with pytest.raises(DatasetError, match=r"--duplicates (drop is for|sum, max)"):
            sort_on_disk(chunk_of(edges), treatment, work)
        return
    found = sort_on_disk(chunk_of(edges), treatment, work)
    assert weights_by_edge(joined(found)) == wanted
    if undirected:
        assert found.symmetric


def on_disk_and_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[SortedEdges]]:
    """Sorts the same table both ways."""
    numbers = count()

    def both(table: EdgeTable, treatment: Treatment) -> list[SortedEdges]:
        found = []
        for name, bytes_per_edge in (("memory", 40), ("disk", 1 << 60)):
            monkeypatch.setattr(sort, "BYTES_PER_EDGE", bytes_per_edge)
            work = tmp_path / f"{name} {next(numbers)}"
            arguments = {"num_rows": 6, "num_sources": 6, "treatment": treatment, "limit": None, "work": work}
            found.append(sort_table(table, **arguments))  # type: ignore[arg-type]
        return found

    return both


BOTH_WAYS: list[Line] = [(0, 1, 2.0), (1, 0, 2.0), (1, 2, 0.5), (2, 1, 0.5), (3, 3, 4.0)]


@pytest.mark.usefixtures("small_ranges")
def test_a_list_of_both_directions_is_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against weights that double because the file lists each undirected edge once in each direction, as most
    do, and against a rule that is not said: one line less, and each line is an edge of its own."""
    both = on_disk_and_in_memory(tmp_path, monkeypatch)
    treatment = Treatment(undirected=True, duplicates="sum")
    for found in both(table_of(chunk_of(BOTH_WAYS)), treatment):
        assert weights_by_edge(joined(found)) == {(a, b): [w] for a, b, w in BOTH_WAYS}
        assert found.counts.listed_both_ways == 4
        assert found.symmetric
    assert capsys.readouterr().err.count("all 4 edges are listed in both directions with equal weights") == 2
    for found in both(table_of(chunk_of([(2, 1, 0.25), *BOTH_WAYS[:2]])), treatment):
        assert weights_by_edge(joined(found)) == {(0, 1): [4], (1, 0): [4], (2, 1): [0.25], (1, 2): [0.25]}
        assert found.counts.listed_both_ways == 0
    assert capsys.readouterr().err.count("not every edge is listed in both directions") == 2


@pytest.mark.parametrize(
    ("edges", "weighted"), [([(0, 1), (1, 0)], False), ([(0, 1)], False), ([(0, 1), (0, 1)], True)]
)
def test_sums_of_edges_without_weights_count_them(edges: list[tuple[int, int]], weighted: bool) -> None:
    """Guards against a graph without weights that gets some, all 1, and against copies that are not counted."""
    matrix = made([(*edge, 1.0) for edge in edges], Treatment(undirected=True, duplicates="sum"), weighted=False)
    assert (matrix.data is not None) == weighted
    assert weights_by_edge(matrix) == {edge: [2.0 if weighted else 1.0] for edge in [(0, 1), (1, 0)]}


@pytest.mark.parametrize("duplicates", ["drop", "sum", "mean"])
def test_both_directions_get_the_attributes_of_the_same_edge(duplicates: Duplicates) -> None:
    """Guards against an undirected edge whose times differ by direction, since each took its own first copy."""
    matrix = made(
        [(2, 1, 1.0), (1, 2, 1.0), (0, 1, 1.0), (1, 0, 1.0)], Treatment(undirected=True, duplicates=duplicates)
    )
    assert matrix.edge_number is not None
    rows = np.repeat(np.arange(6), np.diff(matrix.indptr))
    numbers = dict(zip(zip(matrix.indices.tolist(), rows.tolist(), strict=True), matrix.edge_number, strict=True))
    assert numbers == {(2, 1): 0, (1, 2): 0, (0, 1): 2, (1, 0): 2}


def test_weights_belong_to_the_direction_of_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a store that says `directed: false` of a graph whose two directions weigh differently."""
    both = on_disk_and_in_memory(tmp_path, monkeypatch)
    table = table_of(chunk_of([(0, 1, 2.0), (1, 0, 5.0)]))
    assert [found.symmetric for found in both(table, Treatment())] == [False, False]


def test_sums_of_edges_between_two_types(tmp_path: Path) -> None:
    """Guards against rules that only hold between nodes of one type."""
    edges = chunk_of([(0, 1, 0.1), (0, 1, 1e-3), (0, 1, 3.0), (1, 0, 2.0)])
    table = EdgeTable(type=EdgeType("author", "writes", "paper"), chunks=lambda: iter([edges]))
    arguments = {"num_rows": 2, "num_sources": 2, "limit": None, "work": tmp_path / "edges"}
    found = sort_table(table, treatment=Treatment(duplicates="sum"), **arguments)  # type: ignore[arg-type]
    total = float(np.float32(sum(sorted(np.float32([0.1, 1e-3, 3.0]).astype(float)))))
    assert weights_by_edge(joined(found)) == {(0, 1): [total], (1, 0): [2.0]}
    with pytest.raises(DatasetError, match=r"author__writes__paper: 0 -> 1 has copies of the weights 0\.001 and 3"):
        sort_table(table, treatment=Treatment(duplicates="drop"), **arguments)  # type: ignore[arg-type]


def test_sums_that_float32_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against an infinite weight, and against whole numbers that are rounded without a word."""
    arguments = {"num_rows": 6, "num_sources": 6, "limit": None, "work": tmp_path / "edges"}
    for treatment in (Treatment(duplicates="sum"), Treatment(duplicates="sum", undirected=True)):
        huge = table_of(chunk_of([(0, 1, 3e38), (0, 1, 2e38)]))
        with pytest.raises(DatasetError, match=r"\d -> \d has weights whose sum is beyond float32"):
            sort_table(huge, treatment=treatment, **arguments)  # type: ignore[arg-type]
        large = table_of(chunk_of([(0, 1, 2.0**24), (0, 1, 1.0), (2, 1, 1.0), (2, 1, 1.0)]))
        found = sort_table(large, treatment=treatment, **arguments)  # type: ignore[arg-type]
        assert found.counts.sums_rounded == (2 if treatment.undirected else 1)
        assert "sums of weights are whole numbers above 2^24 that float32 rounds" in capsys.readouterr().err


def test_a_hub_with_many_copies() -> None:
    """Guards against the sort of long runs of copies, which goes another way than that of short ones."""
    rng = np.random.default_rng(0)
    weights = rng.random(300).astype(np.float32)
    edges = [(0, 1, float(weight)) for weight in weights]
    wanted = float(np.float32(np.cumsum(np.sort(weights).astype(np.float64))[-1]))
    for treatment, order in product(
        (Treatment(duplicates="sum"), Treatment(duplicates="sum", undirected=True)), (edges, edges[::-1])
    ):
        assert weights_by_edge(made(order, treatment))[0, 1] == [wanted]
    kept = made(edges[::-1] + [(1, 0, weight) for _, _, weight in edges[:100]], Treatment(undirected=True))
    assert weights_by_edge(kept) == {edge: np.sort(weights).tolist() for edge in [(0, 1), (1, 0)]}
