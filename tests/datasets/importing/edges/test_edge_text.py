"""Edges from text: every way to write them gives the same edges, and every wrong line is named with its number."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphprep.datasets.formats import text_file
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_text import EdgeText
from graphprep.errors import DatasetError

Edges = list[tuple[int, ...]]


def written(folder: Path, text: str | bytes, name: str = "e.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def opened(path: Path, *, num_nodes: int | None = None, **options: Any) -> EdgeText:
    return EdgeText(path, EdgeOptions(num_sources=num_nodes, num_destinations=num_nodes, **options))


def edges_of(path: Path, **options: Any) -> Edges:
    chunks: list[Any] = list(opened(path, **options).rows())
    for chunk in chunks:
        assert chunk.src.dtype == chunk.dst.dtype in (np.int32, np.int64)
        assert len(chunk.src) == len(chunk.dst)
    return [pair for chunk in chunks for pair in zip(chunk.src.tolist(), chunk.dst.tolist(), strict=True)]


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n2 3\n",
        "0 1\n2 3",
        "0\t1\n2\t3\n",
        "0\t1\n2 3\n",
        "0  1\n2 \t 3\n",
        "  0 1  \n\t2 3\t\n",
        "0 1\r\n2 3\r\n",
        "0 1\r2 3\r",
        "0 1 \r\n2\t\t3\t\r\n",
        "\n\n0 1\n\n   \n2 3\n\n",
        "# a\n% b\n0 1\n  # c 7 8\n2 3\n# d",
        "#0 9\n0 1\n#\n2 3\n",
        "00 01\n2 0000000000000000000000000003\n",
        "0,1\n2,3\n",
        "0, 1\n 2 ,3 \n",
        '"0","1"\n"2","3"\n',
        "0;1\n2;3\n",
        "# a, b\n0 1\n2 3\n",
        "0 1 5\n2 3 6\n",
        "0 1 0.5\n2  3 x\n",
        "0,1,2004-05-06\n2,3,\n",
        "0\t1\t2\r\n2\t3\t4\r\n",
        "-0 1\n2 3\n",
    ],
)
def test_ways_to_write_two_edges(tmp_path: Path, text: str) -> None:
    """People's files differ in delimiters, white space, comments and line ends, and mean the same."""
    assert edges_of(written(tmp_path, text)) == [(0, 1), (2, 3)]
    assert edges_of(written(tmp_path, gzip.compress(text.encode()), "e.txt.gz")) == [(0, 1), (2, 3)]


def test_largest_id(tmp_path: Path) -> None:
    """Ids may be 64-bit keys."""
    assert edges_of(written(tmp_path, f"0 {2**63 - 2}\n")) == [(0, 2**63 - 2)]


@pytest.mark.parametrize(
    ("name", "header", "found"),
    [
        ("e.csv", None, True),
        ("e.tsv.gz", None, True),
        ("e.txt", True, True),
        ("e.txt", None, False),
        ("e.csv", False, False),
    ],
)
def test_headers(tmp_path: Path, name: str, header: bool | None, found: bool) -> None:
    """Tables have names in their first line; elsewhere a word there is an error that says how to allow it."""
    text = b"# exported\nsource,target\n0,1\n"
    path = written(tmp_path, gzip.compress(text) if name.endswith(".gz") else text, name)
    if found:
        assert edges_of(path, header=header) == [(0, 1)]
    else:
        with pytest.raises(DatasetError, match="line 2: 'source' is no node id"):
            edges_of(path, header=header)


def test_header_hint(tmp_path: Path) -> None:
    """A header in a .txt file is the likely reason for words in line 1."""
    with pytest.raises(DatasetError, match="say that there is a header"):
        edges_of(written(tmp_path, "src dst\n0 1\n"))


def test_weights(tmp_path: Path) -> None:
    """The third column is the weight if asked for."""
    path = written(tmp_path, "0 1 0.5\n2  3 -1e2\n")
    (chunk,) = opened(path, weights=True).rows()
    assert chunk.weight is not None
    assert chunk.weight.dtype == np.float64
    assert chunk.weight.tolist() == [0.5, -100]
    assert next(opened(path).rows()).weight is None


BAD_LINES = [
    ("1 abc", "'abc' is no node id"),
    ("x 1", "'x' is no node id"),
    ("1 0x10", "'0x10' is no node id"),
    ("1 1_0", "'1_0' is no node id"),
    ("1 \u0663", "is no node id"),
    ("1 -2", "'-2' is negative"),
    ("1 +2", "'\\+2' is no whole number in plain digits"),
    ("1 2.0", "'2.0' is no whole number"),
    ("1 1e3", "'1e3' is no whole number"),
    ("1 9223372036854775808", "beyond 64 bits"),
    ("1 99999999999999999999999999999999999999999999999", "beyond 64 bits"),
    ("1 nan", "'nan' is no node id"),
    ("1", "1 columns where the lines before have 2"),
    ("1 ", "1 columns"),
    ("1 2 3", "3 columns where the lines before have 2"),
    ("1 2 # why", "4 columns"),
    ("1,2", "1 columns"),
    ("1 2\0", "NUL byte"),
    ("\0\0\0", "NUL byte"),
]


@pytest.mark.parametrize(("line", "words"), BAD_LINES)
@pytest.mark.parametrize("untidy", [False, True])
def test_bad_lines(tmp_path: Path, line: str, words: str, untidy: bool) -> None:
    """The error must have the file, the number of the line, and the text that is wrong."""
    before = "# comment\n0 1\n\n" + ("0   1\r\n" if untidy else "0 1\n") * 5000
    path = written(tmp_path, f"{before}{line}\n3 4\n5 oh\n")
    with pytest.raises(DatasetError, match=words) as caught:
        edges_of(path)
    assert f"{path}, line 5004:" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [("1,", "a field is empty"), ("1 2,3", "'1 2' is no node id"), ("1,2,3", "3 columns"), ('1,"a"', "'a' is no")],
)
def test_bad_lines_of_tables(tmp_path: Path, line: str, words: str) -> None:
    """A space inside a field must not be dropped: 1 2,3 is not 12,3."""
    with pytest.raises(DatasetError, match=words) as caught:
        edges_of(written(tmp_path, f"0,1\n{line}\n"))
    assert "line 2:" in str(caught.value)


@pytest.mark.parametrize("weight", ["x", "nan", "inf", "1e99", "", "0x1"])
def test_bad_weights(tmp_path: Path, weight: str) -> None:
    """One infinite weight would make every loss NaN."""
    with pytest.raises(DatasetError, match=r"line 2: .*(weight|columns)"):
        edges_of(written(tmp_path, f"0 1 1\n1 2 {weight}\n"), weights=True)
    with pytest.raises(DatasetError, match="no finite weight"):
        edges_of(written(tmp_path, f"0,1,1\n1,2,{weight}\n"), weights=True)


def test_missing_third_column_is_not_ignored(tmp_path: Path) -> None:
    """Even where the third column is not read, a line without it is not whole."""
    with pytest.raises(DatasetError, match="line 2: 2 columns where the lines before have 3"):
        edges_of(written(tmp_path, "0 1 7\n1 2 \n"))


def test_number_of_columns_in_the_file(tmp_path: Path) -> None:
    """One column, or four, is another format."""
    with pytest.raises(DatasetError, match="line 1: 1 columns, but an edge list has 2"):
        edges_of(written(tmp_path, "0\n1\n"))
    with pytest.raises(DatasetError, match="line 1: 4 columns"):
        edges_of(written(tmp_path, "0 1 2 3\n"))
    with pytest.raises(DatasetError, match="no third column"):
        edges_of(written(tmp_path, "0 1\n"), weights=True)


def test_ids_beyond_the_number_of_nodes(tmp_path: Path) -> None:
    """An id that has no row of features would read another node's memory in training."""
    path = written(tmp_path, "0 1\n1 3\n")
    assert edges_of(path, num_nodes=4) == [(0, 1), (1, 3)]
    with pytest.raises(DatasetError, match=r"line 2: the node id 3 does not fit 3 nodes"):
        edges_of(path, num_nodes=3)


def test_no_edges(tmp_path: Path) -> None:
    """A file of comments has no nodes; with a number of nodes it is a graph without edges."""
    path = written(tmp_path, "# nothing\n\n")
    with pytest.raises(DatasetError, match="no edges"):
        edges_of(path)
    assert edges_of(path, num_nodes=3) == []


def test_file_that_changes_between_passes(tmp_path: Path) -> None:
    """The second pass must not use what the first has learnt about another file."""
    path = written(tmp_path, "0 1\n")
    text = opened(path)
    path.write_text("0 1\n5 6\n")
    with pytest.raises(DatasetError, match="has changed"):
        list(text.rows())


def test_bad_line_in_a_later_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are parsed ahead by threads; the first bad line must be reported, with its number in the file."""
    monkeypatch.setattr(text_file, "BLOCK_BYTES", 64)
    path = written(tmp_path, "0 1\n" * 1000 + "0 x\n" + "0 1\n" * 500 + "0 y\n")
    with pytest.raises(DatasetError, match="line 1001: 'x'"):
        edges_of(path)


def test_reading_can_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that stops early must not leave threads."""
    import threading

    monkeypatch.setattr(text_file, "BLOCK_BYTES", 64)
    chunks = opened(written(tmp_path, "0 1\n" * 5000)).rows()
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("edge-text")]


pieces = st.sampled_from(
    ["0", "1", "17", "00", "x", "-1", " ", "  ", "\t", "\n", "\r\n", "\r", "#", "%", "\0", ".", "\n5 6\n"]
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(pieces, max_size=30).map("".join), size=st.integers(1, 40))
def test_same_as_a_plain_reader(tmp_path: Path, text: str, size: int) -> None:
    """The fast way and a loop over lines must agree on every text: the same edges, or an error in the same line."""
    path = written(tmp_path, "3 4\n" + text)
    expected: Edges = []
    bad = None
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        fields = line.split()
        if not fields or fields[0][:1] in (b"#", b"%"):
            continue
        if len(fields) != 2 or not all(field.isdigit() for field in fields):
            bad = number
            break
        expected.append((int(fields[0]), int(fields[1])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_file, "BLOCK_BYTES", size)
        if bad is None:
            assert edges_of(path) == expected
        else:
            with pytest.raises(DatasetError) as caught:
                edges_of(path)
            if "\r" not in text:  # a block that ends between \r and \n counts one line more
                assert f"line {bad}:" in str(caught.value)


def test_row_with_more_columns_than_names(tmp_path: Path) -> None:
    """Guards against an internal error where the first row has more fields than the header has names."""
    found = opened(written(tmp_path, "src,dst,weight\n0,1,,1,0.\n", "e.csv"))
    assert found.ignored == ("column 3 'weight'", "column 4", "column 5")
