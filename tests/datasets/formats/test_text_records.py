"""Blocks of whole records, and what makes a block tidy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.datasets.formats.text_dialect import Dialect, fields_of, records
from graphprep.datasets.formats.text_records import record_blocks, tidied
from graphprep.errors import DatasetError
from tests.conftest import BoundsChecked
from tests.datasets.user_graphs import written

words = st.sampled_from(["a", "bc", "(0, 1)", '"x y"', '"q ""r"""', "[1 2]", "d#", "{'w': 3}"])
SAFE = Dialect(delimiter=" ", columns=2, quoted=True, bracketed=True, comments_anywhere=False)


@settings(deadline=None)
@given(
    rows=st.lists(st.lists(words, min_size=1, max_size=4), max_size=6),
    gaps=st.lists(st.sampled_from([" ", "\t", "  \t"]), min_size=1, max_size=4),
)
def test_tidied_text_has_the_same_fields(rows: list[list[str]], gaps: list[str]) -> None:
    """Guards against the fast way and the slow one disagreeing on what a field is."""
    text = "".join(" " + gaps[number % len(gaps)].join(row) + " \n" for number, row in enumerate(rows)).encode()
    tidy = tidied(text, " ", quoted=True, bracketed=True)
    assert tidy.decode() == "".join("\t".join(row) + "\n" for row in rows)
    assert [fields for _, fields, _ in records(text, 1, SAFE)] == [
        fields_of(" ".join(row).encode(), SAFE) for row in rows
    ]


def test_a_quote_without_an_end(tmp_path: Path) -> None:
    """Guards against the rest of a file that becomes one field."""
    path = written(tmp_path / "e.csv", 'a,b\n1,2\n3,"4\n5,6\n7,8\n')
    with pytest.raises(DatasetError, match="line 3: a quote in this line has no end"):
        list(record_blocks(path, ",", quoted=True, after=0))


@pytest.mark.slow
def test_kernels_stay_inside_their_arrays(bounds_checked: BoundsChecked) -> None:
    """Guards against a byte that is read behind the end of a block, which numba does not notice by itself."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.datasets.formats.text_records import _records_end, tidied\n"
        "texts = [b'', b'\"', b'(', b' ', b'a (b', b'a \"b', b'\"\"', b'\"a\"\"',"
        " b'a  b\\n', b'(a b) [c\\n\"d\\n\"', b'a,(b,c)\\n']\n"
        "for text in texts:\n"
        "    for delimiter in ' ,':\n"
        "        tidied(text, delimiter, quoted=True, bracketed=True)\n"
        "        _records_end(np.frombuffer(text, np.uint8), ord(delimiter))\n"
    )
