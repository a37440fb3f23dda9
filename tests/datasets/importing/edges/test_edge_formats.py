"""Formats by the endings of names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cli
from graphprep.datasets.importing.edges.edge_formats import FORMATS, format_of
from graphprep.datasets.importing.options import Format


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("e.txt", "auto", "text"),
        ("e", "auto", "text"),
        ("e.CSV.GZ", "auto", "text"),
        ("g.graph", "auto", "metis"),
        ("g.graph.gz", "auto", "metis"),
        ("g.mgraph.zst", "auto", "metis"),
        ("M.MTX", "auto", "mtx"),
        ("m.mtx.gz", "auto", "mtx"),
        ("a.npy", "auto", "npy"),
        ("a.npz", "auto", "npz"),
        ("a.parquet", "auto", "parquet"),
        ("a.pq", "auto", "parquet"),
        ("a.pt", "auto", "pyg"),
        ("a.pt", "text", "text"),
        ("npy", "auto", "text"),
    ],
)
def test_format_of(name: str, given: Format, expected: Format) -> None:
    """Guards against packed files and capital letters that hide the ending."""
    assert format_of(Path(name), given) == expected


def test_the_command_knows_all_formats() -> None:
    """Guards against a format that the command line does not offer."""
    command: Any = cli.main.commands["import"]
    (option,) = (option for option in command.params if option.name == "format")
    assert tuple(option.type.choices) == FORMATS
