"""AMiner's papers, authors and venues, as metapath2vec publishes them: two zip archives of tables in text.

    net_aminer.zip    paper_author.txt, paper_conf.txt      paper, then author or venue
                      id_author.txt, id_conf.txt            number, then name
    label.zip         googlescholar.8area.author.label.txt, ...venue.label.txt    name, then class from 1

A type has as many nodes as its highest number says. Labels are by name, and a name may belong to several nodes: all get
the class. Each relation also gets its reverse, and repeated lines are dropped by the registry's treatment, as PyTorch
Geometric does. No type has features. The split is the seeded one, of authors and of venues alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeTable, EdgeType, NodeTable, RawGraph
from graphprep.datasets.assemble import drawn_split, labelled, stream
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.checks import classes, reading
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

NETWORK, LABELS = "net_aminer.zip", "label.zip"
NAMES = {"author": "id_author.txt", "venue": "id_conf.txt"}
RELATIONS = {
    ("paper", "written_by", "author", "writes"): "paper_author.txt",
    ("paper", "published_in", "venue", "publishes"): "paper_conf.txt",
}


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; y int64 and masks bool [N, 1] of authors and venues, edges of both relations in both directions."""
    options_of(entry, ReaderOptions)
    sizes: dict[str, int] = {}
    tables: list[EdgeTable] = []
    numbered: dict[str, tuple[Any, Any]] = {}
    with reading(folder / NETWORK), Archive(folder / NETWORK) as archive:
        for (source, there, target, back), member in RELATIONS.items():
            pairs = _table(archive, member, "\t", ("int64", "int64"))
            if not len(pairs[0]) or min(int(ids.min()) for ids in pairs) < 0:
                raise DatasetError(f"its member {member} is empty or has a number below 0")
            for name, ids in zip((source, target), pairs, strict=True):
                sizes[name] = max(sizes.get(name, 0), int(ids.max()) + 1)
            tables += _both(EdgeType(source, there, target), EdgeType(target, back, source), np.column_stack(pairs))
        for name, member in NAMES.items():
            numbered[name] = _table(archive, member, "\t", ("int64", "binary"))
            ids = numbered[name][0]
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()):
                raise DatasetError(f"its member {member} has a number below 0")
    nodes, notes = {"paper": NodeTable(num_nodes=sizes["paper"])}, dict[str, object]()
    with reading(folder / LABELS), Archive(folder / LABELS) as archive:
        for name in NAMES:
            named = _table(archive, f"googlescholar.8area.{name}.label.txt", " ", ("binary", "int64"))
            y, unknown = _labels(named, numbered[name], sizes[name])
            masks, notes["seeded_split"] = drawn_split(entry, y)
            notes[f"labels_of_no_{name}"] = unknown
            nodes[name] = labelled(sizes[name], y=y, masks=masks)
    return RawGraph(nodes=nodes, edges=tuple(tables), treatment=entry.edge_treatment, notes=notes)


def _both(there: EdgeType, back: EdgeType, pairs: NDArray[np.int64]) -> list[EdgeTable]:
    return [
        EdgeTable(type=there, chunks=stream(pairs), num_edges=len(pairs)),
        EdgeTable(type=back, chunks=stream(pairs[:, ::-1]), num_edges=len(pairs)),
    ]


def _table(archive: Archive, member: str, delimiter: str, kinds: tuple[str, str]) -> tuple[Any, Any]:
    """Two columns of a text without a heading: arrays of int64, or lists of bytes."""
    import pyarrow as pa
    from pyarrow import csv

    with archive.open(member) as text:
        table = csv.read_csv(
            text,
            read_options=csv.ReadOptions(column_names=["0", "1"]),
            parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types={str(place): pa.type_for_alias(kind) for place, kind in enumerate(kinds)},
                null_values=[],
            ),
        )
    columns = [
        column.to_numpy() if kind == "int64" else column.to_pylist()
        for column, kind in zip(table.columns, kinds, strict=True)
    ]
    return columns[0], columns[1]


def _labels(
    named: tuple[list[bytes], NDArray[np.int64]], numbered: tuple[NDArray[np.int64], list[bytes]], num_nodes: int
) -> tuple[NDArray[np.int64], int]:
    """The class of each node, int64 [N], and how many labelled names belong to no node."""
    class_of = dict(zip(named[0], named[1].tolist(), strict=True))
    y = np.full(num_nodes, -1, np.int64)
    matched = set()
    for node, name in zip(numbered[0].tolist(), numbered[1], strict=True):
        if name in class_of and node < num_nodes:
            matched.add(name)
            y[node] = class_of[name] - 1
    if len(named[1]) and int(named[1].min()) < 1:
        raise DatasetError(f"it has the class {int(named[1].min())}: classes are numbered from 1")
    return classes(y), len(class_of.keys() - matched)
