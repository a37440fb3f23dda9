"""Pairs of numbers, read in one pass: right where the text is nothing else, and not at all where it is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.datasets.importing.edges.edge_lines import count_line_feeds, pairs_of
from tests.conftest import BoundsChecked

SEPARATORS = b" \t,"


def slowly(text: bytes) -> list[list[int]] | None:
    """What the words of `pairs_of` say, by regular expressions."""
    lines = text.removesuffix(b"\n").split(b"\n")
    lines = [line.removesuffix(b"\r") if number < len(lines) - 1 or text.endswith(b"\n") else line
             for number, line in enumerate(lines)]  # fmt: skip
    found = [re.fullmatch(rb"([0-9]{1,18})([ \t,])([0-9]{1,18})", line) for line in lines]
    if not text or None in found or len({match[2] for match in found if match}) > 1:
        return None
    return [[int(match[1]), int(match[3])] for match in found if match]


def columns(text: bytes) -> list[list[int]] | None:
    pairs = pairs_of(text, SEPARATORS)
    if pairs is None:
        return None
    assert pairs[0].dtype == pairs[1].dtype
    assert len(pairs[0]) == len(pairs[1])
    small = max(int(ids.max(initial=0)) for ids in pairs) < 2**31
    assert pairs[0].dtype == (np.int32 if small else np.int64)
    return [list(pair) for pair in zip(pairs[0].tolist(), pairs[1].tolist(), strict=True)]


@settings(deadline=None)  # the first example compiles
@given(
    st.lists(st.sampled_from([b"0", b"7", b"12", b"999999999", b" ", b"\t", b",", b"\n", b"\r\n", b"\r", b"#", b"-"]))
)
def test_any_text(pieces: list[bytes]) -> None:
    """A block with anything else in it goes to the general parser, whatever and wherever it is."""
    text = b"".join(pieces)
    assert columns(text) == slowly(text)


@settings(deadline=None)  # the first example compiles
@given(
    st.lists(st.tuples(st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1)), min_size=1),
    st.sampled_from([b" ", b"\t", b","]),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
)
def test_lines_of_pairs(edges: list[tuple[int, int]], separator: bytes, end: bytes, ended: bool) -> None:
    """Every number arrives, in its line and its column, with and without a last line end."""
    text = b"".join(b"%d%b%d%b" % (src, separator, dst, end) for src, dst in edges)
    assert columns(text if ended else text.removesuffix(end)) == [list(edge) for edge in edges]


@pytest.mark.parametrize("largest", [2**31 - 1, 2**31, 10**18 - 1])
@pytest.mark.parametrize("place", range(4))
def test_numbers_beyond_int32(largest: int, place: int) -> None:
    """One large id anywhere makes both columns int64, and none wraps around."""
    numbers = [1, 2, 3, 4]
    numbers[place] = largest
    assert columns(b"%d %d\n%d %d\n" % tuple(numbers)) == [numbers[:2], numbers[2:]]


def test_too_many_digits() -> None:
    """Nineteen digits may not fit into int64; they must not come back as another number."""
    assert pairs_of(b"1 1000000000000000000\n", b" ") is None
    assert pairs_of(b"10000000000000000000000000000000 1\n", b" ") is None


@given(st.binary())
def test_line_feeds(text: bytes) -> None:
    """Line numbers in errors rest on this count."""
    assert count_line_feeds(np.frombuffer(text, np.uint8)) == text.count(b"\n")


@pytest.mark.slow
def test_within_bounds(bounds_checked: BoundsChecked) -> None:
    """No byte before or behind the block is read, and no line too many is written."""
    bounds_checked(
        "from graphprep.datasets.importing.edges.edge_lines import pairs_of\n"
        "texts = [b'', b'1', b'1 ', b'1 2', b'1 2\\n', b'1 2\\r', b'1 2\\r\\n', b'1 2\\n3', b'1 2\\n3 ', "
        "b'12 3000000000', b' 1', b'\\n', b'1 2\\n\\n', b'1 2 3']\n"
        "print([pairs_of(text, b' ') is None for text in texts])\n"
    )
