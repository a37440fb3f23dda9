"""Graphs from files, for tests of the formats."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.core.types import EdgeTable, RawGraph
from graphprep.datasets.importing.edges.edge_file import EdgeOptions, EdgeRows, SectionedFile
from graphprep.datasets.importing.edges.edge_formats import open_edges
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.options import Format
from graphprep.datasets.importing.user_files import read_files

Edges = list[tuple[Any, ...]]


def written(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def rows_of(path: Path, format: Format = "auto", **wanted: Any) -> Edges:
    """What the format gives: (source, destination) and weight and time where there are any. Read twice, the same.

    What can be read by sections gives the same by these, after a journey to another process.
    """
    file = open_edges(path, format, EdgeOptions(**wanted))
    first, again = (_rows(file.rows()) for _ in range(2))
    assert first == again
    if isinstance(file, SectionedFile) and (sections := file.sections()):
        there: SectionedFile = pickle.loads(pickle.dumps(file))
        assert _rows(itertools.chain.from_iterable(there.rows_of(section) for section in sections)) == first
    return first


def _rows(runs: Iterable[EdgeRows]) -> Edges:
    found: Edges = []
    for run in runs:
        ends = [end if isinstance(end, np.ndarray) else np.array(end.words)[end.codes] for end in (run.src, run.dst)]
        columns = [array.tolist() for array in (*ends, run.weight, run.time) if array is not None]
        found += zip(*columns, strict=True)
    return found


def graph(*paths: Path, **options: Any) -> RawGraph:
    """Files of one node and one edge type as a graph."""
    return read_files(ImportRequest.of_one_type(paths, **options))


def edges_of(table: EdgeTable) -> Edges:
    """The edges of one type, (source, destination) and weight where there is one. Streamed twice, the same."""
    first, again = ([_columns(chunk) for chunk in table.chunks()] for _ in range(2))
    assert first == again
    found = [edge for chunk in first for edge in chunk]
    assert len(found) == table.num_edges
    return found


def _columns(chunk: Any) -> Edges:
    assert chunk.src.dtype == chunk.dst.dtype in (np.int32, np.int64)
    return list(zip(*(array.tolist() for array in chunk if array is not None), strict=True))
