"""Edges sorted by way of the disk are those sorted in memory, piece by piece, also after a kill in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.core.csr import from_edges
from graphprep.core.types import HOMOGENEOUS_EDGE, Csr, EdgeChunk, EdgeSections, EdgeTable, EdgeType, Treatment
from graphprep.errors import DatasetError, UsageError
from graphprep.store import external_sort, sort, sort_runs
from graphprep.store.sort import SortedEdges, sort_table
from graphprep.system import memory
from graphprep.system.executor import Executor, Threads
from tests.conftest import BoundsChecked
from tests.elsewhere import Elsewhere
from tests.graphs import random_edges


def table_of(
    edges: EdgeChunk, *, pieces: int = 5, attributes: dict[str, np.ndarray] | None = None, sections: bool = False
) -> EdgeTable:
    """A stream of a few chunks, or of as many sections of two chunks."""
    bounds = np.linspace(0, len(edges.src), pieces + 1).astype(int).tolist()
    found = EdgeSections(counts=np.diff(bounds).tolist(), read=section_of, shared=(edges, bounds))
    table = EdgeTable.of_sections(HOMOGENEOUS_EDGE, found)
    if not sections:
        table = EdgeTable(type=HOMOGENEOUS_EDGE, chunks=found.chunks)
    return replace(table, attributes=attributes or {})


def section_of(number: int, edges: EdgeChunk, bounds: list[int]) -> Iterator[EdgeChunk]:
    """The edges between two bounds, in two chunks."""
    start, stop = bounds[number : number + 2]
    for chunk in (slice(start, (start + stop) // 2), slice((start + stop) // 2, stop)):
        yield EdgeChunk(edges.src[chunk], edges.dst[chunk], None if edges.weight is None else edges.weight[chunk])


def joined(edges: SortedEdges) -> Csr:
    """All pieces as one CSR."""
    pieces = list(edges.pieces())
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(piece.indptr) for piece in pieces]))])
    data = [np.ones(piece.num_edges, np.float32) if piece.data is None else piece.data for piece in pieces]
    numbers = [piece.edge_number for piece in pieces if piece.edge_number is not None]
    return Csr(
        indptr=indptr,
        indices=np.concatenate([piece.indices for piece in pieces]),
        data=np.concatenate(data) if edges.weighted else None,
        num_sources=edges.num_sources,
        edge_number=np.concatenate(numbers) if numbers else None,
    )


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No edge fits in memory, and ranges are small."""
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    monkeypatch.setattr(external_sort, "LEAST_RANGE_BITS", 2)
    monkeypatch.setattr("graphprep.core.csr.RECORDS_PER_BUCKET", 4)
    monkeypatch.setattr(external_sort, "MOST_RANGES", 6)
    monkeypatch.setattr(sort_runs, "MOST_EDGES", 40)


@pytest.mark.slow
@pytest.mark.usefixtures("on_disk")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    num_nodes=st.integers(1, 60),
    num_edges=st.integers(1, 300),
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
    numbered=st.booleans(),
    undirected=st.booleans(),
    duplicates=st.sampled_from(["keep", "drop", "sum", "max", "min", "mean"]),
    self_loops=st.sampled_from(["keep", "drop", "add"]),
    executor=st.sampled_from([None, Threads(), Elsewhere()]),
)
def test_the_disk_gives_what_memory_gives(
    tmp_path_factory: pytest.TempPathFactory,
    num_nodes: int,
    num_edges: int,
    seed: int,
    weighted: bool,
    numbered: bool,
    undirected: bool,
    duplicates: str,
    self_loops: str,
    executor: Executor | None,
) -> None:
    """Guards against edges lost between ranges, loops counted twice, and weights or numbers that part from edges.

    With an executor the stream is read by sections.
    """
    rng = np.random.default_rng(seed)
    alike = duplicates == "drop" or (undirected and duplicates == "keep")
    edges = random_edges(rng, num_nodes, num_edges, weighted=weighted, one_weight_a_pair=alike)
    treatment = Treatment(undirected=undirected, duplicates=duplicates, self_loops=self_loops)  # type: ignore[arg-type]
    attributes = {"time": np.arange(num_edges)} if numbered else None
    found = sort_table(
        table_of(edges, attributes=attributes, sections=executor is not None),
        num_rows=num_nodes,
        num_sources=num_nodes,
        treatment=treatment,
        limit=None,
        work=tmp_path_factory.mktemp("spill") / "edges",
        executor=executor,
    )
    expected, counts = from_edges(
        [edges], num_rows=num_nodes, num_sources=num_nodes, treatment=treatment, name="test", numbered=numbered
    )
    assert found.counts == counts
    assert found.weighted == (expected.data is not None)
    matrix = joined(found)
    assert np.array_equal(matrix.indptr, expected.indptr)
    assert np.array_equal(matrix.indices, expected.indices)
    assert matrix.indices.dtype == np.int32
    for name in ("data", "edge_number"):
        one, other = getattr(matrix, name), getattr(expected, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    if numbered:
        rows = np.repeat(np.arange(num_nodes), np.diff(matrix.indptr))
        numbers = matrix.edge_number
        assert numbers is not None
        real = numbers >= 0
        src, dst = edges.src[numbers[real]], edges.dst[numbers[real]]
        same = (src == matrix.indices[real]) & (dst == rows[real])
        back = (dst == matrix.indices[real]) & (src == rows[real])
        assert (same | (back if undirected else False)).all()


@pytest.mark.usefixtures("on_disk")
def test_a_run_goes_on_with_the_ranges_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a killed conversion that begins again, and against one that trusts half a range."""
    edges = random_edges(np.random.default_rng(0), 50, 400)
    arguments = {"num_rows": 50, "num_sources": 50, "treatment": Treatment(), "limit": None, "work": tmp_path / "e"}
    sort_range = external_sort.ExternalSort._sort_range
    done: list[int] = []

    def stop_at_the_third(self: external_sort.ExternalSort, number: int) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(number)
        sort_range(self, number)

    monkeypatch.setattr(external_sort.ExternalSort, "_sort_range", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        sort_table(table_of(edges), **arguments)  # type: ignore[arg-type]
    again: list[int] = []

    def count(self: external_sort.ExternalSort, number: int) -> None:
        again.append(number)
        sort_range(self, number)

    def unread() -> Iterator[EdgeChunk]:
        raise AssertionError("the edges are on disk already and need not be read again")

    monkeypatch.setattr(external_sort.ExternalSort, "_sort_range", count)
    table = EdgeTable(type=HOMOGENEOUS_EDGE, chunks=unread)
    found = joined(sort_table(table, **arguments))  # type: ignore[arg-type]
    assert not set(again) & set(done)
    expected, _ = from_edges([edges], num_rows=50, num_sources=50, treatment=Treatment(), name="test")
    assert np.array_equal(found.indices, expected.indices)


@pytest.mark.usefixtures("on_disk")
def test_edges_that_were_only_half_read_are_read_again(tmp_path: Path) -> None:
    """Guards against a spill without its mark that is taken for complete."""
    edges = random_edges(np.random.default_rng(0), 50, 400)

    def cut_short() -> Iterator[EdgeChunk]:
        yield EdgeChunk(edges.src[:100], edges.dst[:100])
        raise KeyboardInterrupt

    arguments = {"num_rows": 50, "num_sources": 50, "treatment": Treatment(), "limit": None, "work": tmp_path / "e"}
    with pytest.raises(KeyboardInterrupt):
        sort_table(EdgeTable(type=HOMOGENEOUS_EDGE, chunks=cut_short), **arguments)  # type: ignore[arg-type]
    found = sort_table(table_of(edges), **arguments)  # type: ignore[arg-type]
    assert found.counts.edges == 400


@pytest.mark.usefixtures("on_disk")
def test_a_run_goes_on_with_the_sections_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a killed conversion that reads everything again, and against one that trusts half a section."""
    edges = random_edges(np.random.default_rng(0), 50, 400)
    arguments = {"num_rows": 50, "num_sources": 50, "treatment": Treatment(), "limit": None, "work": tmp_path / "e"}
    table = table_of(edges, sections=True)
    began: list[int] = []

    def stop_in_the_fourth(number: int, *shared: object) -> Iterator[EdgeChunk]:
        began.append(number)
        chunks = section_of(number, *shared)  # type: ignore[arg-type]
        yield next(chunks)
        if len(began) == 4:
            raise KeyboardInterrupt
        yield from chunks

    assert table.sections is not None
    stopping = replace(table, sections=replace(table.sections, read=stop_in_the_fourth))
    with pytest.raises(KeyboardInterrupt):
        sort_table(stopping, **arguments)  # type: ignore[arg-type]
    assert began == [0, 1, 2, 3]
    found = joined(sort_table(stopping, **arguments))  # type: ignore[arg-type]
    assert began == [0, 1, 2, 3, 3, 4]
    expected, _ = from_edges([edges], num_rows=50, num_sources=50, treatment=Treatment(), name="test")
    assert np.array_equal(found.indices, expected.indices)
    assert not list((tmp_path / "e").glob("*.run"))


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("executor", [Threads(), Elsewhere()])
def test_other_sections_are_not_gone_on_with(tmp_path: Path, executor: Executor) -> None:
    """Guards against sections that were cut elsewhere, and against a section that has changed since it was counted."""
    edges = random_edges(np.random.default_rng(0), 50, 400)
    arguments = {"num_rows": 50, "num_sources": 50, "treatment": Treatment(), "limit": None, "work": tmp_path / "e"}
    table = table_of(edges, sections=True)
    assert table.sections is not None
    counts = [*table.sections.counts[:-1], 81]
    wrong = EdgeTable.of_sections(HOMOGENEOUS_EDGE, replace(table.sections, counts=counts))
    with pytest.raises(DatasetError, match="80 edges where there were 81; a file has changed"):
        sort_table(wrong, **arguments, executor=executor)  # type: ignore[arg-type]
    weighted = random_edges(np.random.default_rng(0), 50, 400, weighted=True)
    table = table_of(weighted, sections=True, pieces=4)
    found = joined(sort_table(table, **arguments, executor=executor))  # type: ignore[arg-type]
    expected, _ = from_edges([weighted], num_rows=50, num_sources=50, treatment=Treatment(), name="test")
    assert np.array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)  # type: ignore[arg-type]


@pytest.mark.parametrize("disk", [False, True])
def test_symmetry_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: bool) -> None:
    """Guards against a directed graph that is called undirected, and the other way round."""
    if disk:
        monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
        monkeypatch.setattr(external_sort, "MOST_RANGES", 6)
    edges = random_edges(np.random.default_rng(0), 50, 400)
    for undirected in (False, True):
        found = sort_table(
            table_of(edges),
            num_rows=50,
            num_sources=50,
            treatment=Treatment(undirected=undirected),
            limit=None,
            work=tmp_path / str(undirected),
        )
        assert found.symmetric == undirected


@pytest.mark.parametrize("disk", [False, True])
def test_wrong_ids_and_lengths_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: bool) -> None:
    """Guards against kernels that write outside their arrays, in memory and by way of the disk."""
    if disk:
        monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    arguments = {"num_sources": 50, "treatment": Treatment(), "limit": None, "work": tmp_path / "e"}
    edges = random_edges(np.random.default_rng(0), 50, 400)
    with pytest.raises(DatasetError, match=r"destination id 49 is out of range 0 \.\. 48"):
        sort_table(table_of(edges), num_rows=49, **arguments)  # type: ignore[arg-type]
    mixed = EdgeTable(
        type=HOMOGENEOUS_EDGE,
        chunks=lambda: iter([edges, EdgeChunk(edges.src, edges.dst, np.ones(400, np.float32))]),
    )
    with pytest.raises(DatasetError, match="some have weights and some have none"):
        sort_table(mixed, num_rows=50, **arguments)  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match="time has 3 rows for 400 edges"):
        sort_table(table_of(edges, attributes={"time": np.zeros(3)}), num_rows=50, **arguments)  # type: ignore[arg-type]
    between = EdgeTable(type=EdgeType("author", "writes", "paper"), chunks=lambda: iter([edges]))
    arguments["treatment"] = Treatment(undirected=True)
    with pytest.raises(DatasetError, match="different types"):
        sort_table(between, num_rows=50, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "amount"), [("2GB", 2 * 10**9), ("512MiB", 2**29), ("1.5g", 1_500_000_000), ("64000000", 64_000_000)]
)
def test_amounts_of_memory(text: str, amount: int) -> None:
    """Guards against a limit that is taken for another unit."""
    assert memory.parse(text) == amount


def test_amounts_that_are_none_and_limits_too_small() -> None:
    """Guards against a limit that cannot be kept and is not refused."""
    for text in ("lots", "-1GB", "", "2 XB"):
        with pytest.raises(UsageError, match="--memory"):
            memory.parse(text)
    with pytest.raises(UsageError, match="give at least"):
        memory.budget(1_000_000)
    assert memory.budget(memory.resident() + 10**9) > 9 * 10**8
    assert memory.budget(None) >= memory.LEAST_BUDGET


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range writes where ranges are sorted."""
    bounds_checked(
        "import numpy as np, tempfile\n"
        "from pathlib import Path\n"
        "from graphprep.store import sort, external_sort\n"
        "from graphprep.core.types import HOMOGENEOUS_EDGE, EdgeTable, Treatment\n"
        "from tests.graphs import random_edges\n"
        "sort.BYTES_PER_EDGE = 1 << 60\n"
        "rng = np.random.default_rng(0)\n"
        "for n, e in ((1, 3), (40_000, 9000)):\n"
        "    for weighted in (False, True):\n"
        "        edges = random_edges(rng, n, e, weighted=weighted, hub=True)\n"
        "        table = EdgeTable(type=HOMOGENEOUS_EDGE, chunks=lambda: iter([edges]))\n"
        "        for undirected, duplicates in ((False, 'sum'), (True, 'sum'), (True, 'mean')):\n"
        "            with tempfile.TemporaryDirectory() as folder:\n"
        "                treatment = Treatment(undirected=undirected, duplicates=duplicates)\n"
        "                found = sort.sort_table(table, num_rows=n, num_sources=n, limit=None,\n"
        "                    treatment=treatment, work=Path(folder) / 'e')\n"
        "                assert sum(piece.num_edges for piece in found.pieces()) == found.counts.edges\n"
    )


@pytest.mark.parametrize("disk", [False, True])
def test_the_stream_is_released_when_it_has_been_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: bool
) -> None:
    """Guards against edges that are held twice while they are sorted, and against a stream released before its end."""
    if disk:
        monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 40)
    told: list[str] = []
    table = table_of(random_edges(np.random.default_rng(3), 20, 200, weighted=False))

    def chunks() -> Iterator[EdgeChunk]:
        yield from table.chunks()
        told.append("read")

    watched = replace(table, chunks=chunks, release=lambda: told.append("released"))
    sort_table(watched, num_rows=20, num_sources=20, treatment=Treatment(), limit=None, work=tmp_path / "work")
    assert told == ["read", "released"]
