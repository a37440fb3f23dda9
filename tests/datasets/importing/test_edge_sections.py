"""Files of edges that are read by sections give what they give from front to back, whoever reads them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.core.types import RawGraph, Treatment
from graphprep.datasets.formats import text_file
from graphprep.datasets.formats.text_file import byte_ranges, lines_between
from graphprep.datasets.importing import edge_sections
from graphprep.datasets.importing.edge_sections import Place
from graphprep.datasets.importing.edges import edge_text, numpy_edges, parquet_edges
from graphprep.datasets.importing.edges.edge_file import EdgeOptions, SectionedFile
from graphprep.datasets.importing.edges.edge_formats import open_edges
from graphprep.datasets.importing.ids import DistinctIds
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_ids import FoundIds
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import DatasetError
from graphprep.store import sort
from graphprep.store.sort import sort_table
from tests.datasets.user_graphs import Edges, edges_of, graph, rows_of, written
from tests.elsewhere import Elsewhere
from tests.store.test_sort import joined

TEXTS = {
    "pairs": "0 1\n1 2\n22 0\n3 1\n",
    "no end": "0 1\n1 2\n22 0",
    "returns": "0\t1\r\n1\t2\r\n22\t0\r\n",
    "header": "src,dst\n0,1\n1,2\n22,0\n",
    "comments": "# of edges\n0 1\n\n# more\n1 2\n22 0\n",
}


@pytest.fixture
def short_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few edges make a section."""
    monkeypatch.setattr(edge_text, "BYTES_A_SECTION", 9)
    monkeypatch.setattr(numpy_edges, "ROWS_A_SECTION", 3)
    monkeypatch.setattr(parquet_edges, "ROWS_A_SECTION", 5)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=8),
    ends=st.booleans(),
    size=st.integers(1, 12),
    block=st.integers(1, 9),
)
def test_every_line_is_in_one_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], ends: bool, size: int, block: int
) -> None:
    """Guards against lines that are lost, cut or given twice where ranges of bytes meet, and blocks of half lines."""
    text = b"# \n" + b"\n".join(lines) + b"\n" * ends
    path = written(tmp_path / "e.txt", text)
    monkeypatch.setattr(text_file, "BLOCK_BYTES", block)
    ranges = [(start, min(start + size, len(text))) for start in range(0, len(text), size)]
    blocks = [list(lines_between(path, *span)) for span in ranges]
    all_blocks = list(itertools.chain(*blocks))
    assert all(piece.endswith(b"\n") for piece in all_blocks[:-1])
    whole = BytesIO(text).readlines()
    begins = itertools.accumulate(map(len, whole), initial=0)
    by_begin = dict(zip(begins, whole, strict=False))
    for span, pieces in zip(ranges, blocks, strict=True):
        assert b"".join(pieces) == b"".join(by_begin.get(at, b"") for at in range(*span))


def test_which_files_have_ranges(tmp_path: Path) -> None:
    """Guards against packed files read from the middle, and lines that only end in carriage returns."""
    import gzip

    plain = written(tmp_path / "a.txt", "0 1\n" * 10)
    assert byte_ranges(plain, 25) == [(0, 25), (25, 40)]
    assert byte_ranges(written(tmp_path / "b.txt.gz", gzip.compress(b"0 1\n" * 10)), 25) == []
    assert byte_ranges(written(tmp_path / "c.txt", "0 1\r" * 10), 25) == []
    assert open_edges(tmp_path / "c.txt", "auto", EdgeOptions()).sections() == [(0, 40)]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("short_sections")
@pytest.mark.parametrize("name", TEXTS)
def test_text(tmp_path: Path, name: str) -> None:
    """Guards against a header or comments that count as edges in a section, and edges that are lost between two."""
    path = written(tmp_path / "e.csv", TEXTS[name])
    assert len(rows_of(path)) == TEXTS[name].count("\n") + (name == "no end") - (name == "header") - 3 * (
        name == "comments"
    )
    assert len(opened(path).sections()) > 1


def opened(path: Path, **wanted: Any) -> SectionedFile:
    """A file that can be read by sections."""
    found = open_edges(path, "auto", EdgeOptions(**wanted))
    assert isinstance(found, SectionedFile)
    return found


def test_what_is_read_from_front_to_back(tmp_path: Path) -> None:
    """Guards against words that would get other codes in each process, and times that change their type on the way."""
    text = written(tmp_path / "e.txt", "0 1 5\n1 2 7\n")
    assert opened(text, ids="words").sections() == []
    assert opened(text, times=True).sections() == []
    assert opened(text, weights=True).sections() != []
    pq.write_table(pa.table({"src": ["a", "b"], "dst": ["b", "a"]}), tmp_path / "w.parquet")
    assert opened(tmp_path / "w.parquet").sections() == []


def text(folder: Path, edges: Edges) -> Path:
    return written(folder / "e.txt", "".join(" ".join(map(str, edge)) + "\n" for edge in edges))


def parquet(folder: Path, edges: Edges) -> Path:
    columns = dict(zip(("src", "dst", "weight"), zip(*edges, strict=True), strict=False))
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), folder / "e.parquet", 3)
    return folder / "e.parquet"


def npy(folder: Path, edges: Edges) -> Path:
    np.save(folder / "e.npy", np.array([edge[:2] for edge in edges]))
    return folder / "e.npy"


def npy_in_columns(folder: Path, edges: Edges) -> Path:
    np.save(folder / "c.npy", np.asfortranarray(np.array([edge[:2] for edge in edges], np.uint64).T))
    return folder / "c.npy"


WRITERS = [text, parquet, npy, npy_in_columns]


def some_edges(highest: int, count: int = 40) -> Edges:
    """Ids that have gaps, with weights."""
    rng = np.random.default_rng(5)
    ends = rng.integers(0, highest, (count, 2))
    return [(int(one), int(other), float(weight)) for (one, other), weight in zip(ends, range(count), strict=True)]


def read(*paths: Path, **options: Any) -> RawGraph:
    return read_files(ImportRequest.of_one_type(paths, **options), executor=Elsewhere())


@pytest.mark.usefixtures("short_sections")
@pytest.mark.parametrize("highest", [30, 3000, 1 << 40], ids=["table", "bisection", "beyond the flags"])
@pytest.mark.parametrize("write", WRITERS)
def test_the_graph_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, Edges], Path], highest: int
) -> None:
    """Guards against ids that get other rows, and edges in another order, where workers read a file."""
    path = write(tmp_path, [edge[:2] for edge in some_edges(highest)])
    here, there = graph(path), read(path)
    sections = there.edges[0].sections
    assert sections is not None
    assert len(sections.counts) > 5
    assert edges_of(there.edges[0]) == edges_of(here.edges[0])
    assert np.array_equal(there.nodes["node"].original_id, here.nodes["node"].original_id)  # type: ignore[arg-type]
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    arguments = {"num_rows": there.nodes["node"].num_nodes, "num_sources": there.nodes["node"].num_nodes}
    matrices = [
        joined(
            sort_table(
                raw.edges[0],
                **arguments,
                treatment=Treatment(undirected=True),
                limit=None,
                work=tmp_path / name,
                executor=executor,
            )
        )
        for raw, name, executor in ((here, "here", None), (there, "there", Elsewhere()))
    ]
    assert np.array_equal(matrices[0].indptr, matrices[1].indptr)
    assert np.array_equal(matrices[0].indices, matrices[1].indices)


@pytest.mark.usefixtures("short_sections")
def test_several_files_weights_and_known_nodes(tmp_path: Path) -> None:
    """Guards against files that are mixed up, weights left out, and ids compared with nothing."""
    edges = some_edges(30)
    paths = (text(tmp_path, edges[:17]), parquet(tmp_path, edges[17:]))
    for options in ({}, {"num_nodes": 30}):
        there = read(*paths, weights=True, **options)
        assert edges_of(there.edges[0]) == edges_of(graph(*paths, weights=True, **options).edges[0])
        assert there.edges[0].sections is not None
    ids = written(tmp_path / "ids.csv", "id,x\n" + "".join(f"{node},1\n" for node in reversed(range(30))))
    there, here = (reader(*paths, features=ids, id_column="id") for reader in (read, graph))
    assert edges_of(there.edges[0]) == edges_of(here.edges[0])
    assert there.edges[0].sections is not None
    fewer = written(tmp_path / "fewer.csv", "id,x\n" + "".join(f"{node},1\n" for node in range(29)))
    with pytest.raises(DatasetError, match=r"e\.txt cannot be used: the node 29 has no row in .*fewer\.csv"):
        read(*paths, features=fewer, id_column="id")


@pytest.mark.usefixtures("short_sections")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("0 1\n1 2\n2 0\n3 x\n", r"e\.txt, line 4: 'x' is no node id"),
        ("0 1\n1 2\n2 0\n3 1\n1 2 3\n", r"e\.txt, line 5: 3 columns"),
        ("0 1\n1 2\n2 0\n3 -7\n", r"e\.txt, line 4: the node id '-7' is negative"),
    ],
)
def test_a_fault_has_its_place(tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a line number that counts from the middle of the file."""
    path = written(tmp_path / "e.txt", content)
    with pytest.raises(DatasetError, match=said):
        read(path)
    assert "read by this process alone, as a worker could not: " + str(path) + " has a line that is no edge\n" in (
        capsys.readouterr().err
    )


@pytest.mark.usefixtures("short_sections")
def test_quotes_are_read_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a line feed within quotes that passes for the end of an edge."""
    path = written(tmp_path / "e.csv", 'src,dst,note\n0,1,"a\n5,6,b"\n1,2,c\n2,0,d\n')
    found = read(path)
    assert found.edges[0].sections is None
    assert edges_of(found.edges[0]) == [(0, 1), (1, 2), (2, 0)]
    assert "quotes, which may hold line feeds" in capsys.readouterr().err


def unreached(*_: object) -> None:
    raise DatasetError("e.txt cannot be read (No such file or directory)")


def test_files_that_workers_do_not_reach_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a cluster without the user's disk that makes an import fail, or drops what was not read."""
    monkeypatch.setattr(edge_sections, "_scan_section", unreached)
    path = written(tmp_path / "e.txt", TEXTS["pairs"])
    found = read(path)
    assert found.edges[0].sections is None
    assert edges_of(found.edges[0]) == edges_of(graph(path).edges[0])
    assert "as a worker could not: e.txt cannot be read" in capsys.readouterr().err


@pytest.mark.slow
@given(sets=st.lists(st.lists(st.one_of(st.integers(0, 300_000), st.integers(0, 1 << 40)), max_size=20), max_size=5))
@settings(max_examples=30, deadline=None)
def test_sets_of_ids_join(sets: list[list[int]]) -> None:
    """Guards against ids that are lost on the way from one process to another."""
    whole = DistinctIds()
    for ids in sets:
        part = DistinctIds()
        if ids:
            part.add(np.array(ids))
        whole.join(part.id_set())
    assert whole.ascending().tolist() == sorted(set(itertools.chain(*sets)))


def test_a_section_gives_its_own_ids_alone(tmp_path: Path) -> None:
    """Guards against ids that pile up in a worker, or that its threads lose because they share one set."""
    path = written(tmp_path / "e.txt", "0 1\n2 3\n")
    sections = edge_sections.FileSections.of([open_edges(path, "auto", EdgeOptions())])
    assert sections is not None
    ids = FoundIds()
    first, second = (edge_sections._scan_section(Place(0, span), sections.files, ids, ids) for span in ((0, 4), (4, 8)))
    assert [section.sources.ascending().tolist() for section in (first, second)] == [[0, 1], [2, 3]]  # type: ignore[union-attr]
    assert ids.id_set() is None


@pytest.mark.usefixtures("short_sections")
def test_a_header_behind_many_comments(tmp_path: Path) -> None:
    """Guards against a header of numbers that counts as an edge, as no section knows that it is one."""
    path = written(tmp_path / "e.txt", "# a graph\n# of mine\n7 8\n0 1\n1 2\n")
    assert opened(path, header=True).sections() == []
    assert edges_of(read(path, header=True).edges[0]) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_an_endless_line_is_no_two_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Guards against the middle of a long line, or of lines without line feeds, that passes for the begin of one."""
    monkeypatch.setattr(text_file, "LONGEST_LINE", 8)
    path = written(tmp_path / "e.txt", f"0 1\n0 1{end}2 3{end}4 5{end}6 7{end}")
    for span in ((0, 6), (6, 20)):
        if end == "\n":
            assert all(block.endswith(b"\n") for block in lines_between(path, *span))
            continue
        with pytest.raises(DatasetError, match="no line feed within 8 bytes"):
            list(lines_between(path, *span))


@pytest.mark.usefixtures("short_sections")
@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("later", ["0 1\n1 2\n2 9\n9 0\n", "0 1\n1 2\n2 0\n1 0\n"], ids=["new id", "known ids"])
@pytest.mark.parametrize("kind", ["txt", "npy", "parquet"])
def test_a_file_that_changes_between_two_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: bool, later: str, kind: str
) -> None:
    """Guards against edges of one version with the ids, and the store's key, of another."""

    def put(text: str, nanoseconds: int) -> Path:
        edges = np.array(text.split(), np.int64).reshape(-1, 2)
        path = tmp_path / f"e.{kind}"
        if kind == "npy":
            np.save(path, edges)
        elif kind == "parquet":
            pq.write_table(pa.table({"src": edges[:, 0], "dst": edges[:, 1]}), path)
        else:
            written(path, text)
        os.utime(path, ns=(nanoseconds, nanoseconds))
        return path

    if disk:
        monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    raw = read(put("0 1\n1 2\n2 0\n0 5\n", 1))
    put(later, 2)
    with pytest.raises(DatasetError, match="has changed while it was being read"):
        sort_table(
            raw.edges[0],
            num_rows=4,
            num_sources=4,
            treatment=Treatment(),
            limit=None,
            work=tmp_path / "work",
            executor=Elsewhere(),
        )
    assert not (tmp_path / "work").exists()
