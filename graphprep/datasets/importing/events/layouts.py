"""Which layout files of events have, and the reader of it.

    edges   edges with times, in any format that `graphprep import --edge-times` reads
    jodie   CSV: user_id,item_id,timestamp,state_label,comma_separated_list_of_features; users and items are other nodes
    tgn     ml_NAME.csv with the columns u,i,ts,label,idx; beside it ml_NAME.npy (of events) and ml_NAME_node.npy
    tgb     NAME_edgelist.csv: as JODIE's, or timestamp,source,destination[,weight] under any names

`auto` goes by the first line: JODIE's names or TGN's; then by a file name that has `_edgelist`; all else is `edges`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from graphprep.core.event_rows import EventReader
from graphprep.datasets.formats.text_file import UTF8_MARK, first_bytes, unpacked_name
from graphprep.datasets.importing.edges.edge_columns import RequestedColumns
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.edges.edge_formats import WHOLE_GRAPH, format_of
from graphprep.datasets.importing.events.edge_events import EdgeEvents
from graphprep.datasets.importing.events.jodie import JODIE_NAMES, JodieEvents
from graphprep.datasets.importing.events.number_rows import num_fields
from graphprep.datasets.importing.events.tgn import TGN_NAMES, TgnEvents, arrays_beside
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.errors import DatasetError, UsageError

Layout = Literal["edges", "jodie", "tgn", "tgb"]
LINE_BYTES = 1 << 16
"""of a file's beginning that are looked at for names of columns"""


def open_events(request: ImportRequest, layout: str) -> EventReader:
    """The reader of files of events.

    Args:
        request: the files, and how to read them where they are edges.
        layout: a `Layout`, or auto.

    Raises:
        UsageError: options that are not for events.
        DatasetError: a file is not what it should be.
    """
    [part] = request.edges
    paths = part.paths
    chosen = layout_of(paths[0]) if layout == "auto" else layout
    if part.table is not None or chosen == "edges":
        return EdgeEvents(request)
    if len(paths) > 1:
        raise UsageError(f"{paths[1]}: the layout {chosen} is one file; import each file as a dataset of its own")
    if chosen == "tgn":
        return TgnEvents(paths[0])
    names = first_names(paths[0])
    if chosen == "jodie" or names[: len(JODIE_NAMES)] == JODIE_NAMES:
        return JodieEvents(paths[0])
    _require_names(paths[0], names)
    columns = RequestedColumns(source="2", target="3", time="1", weight="4" if len(names) > 3 else None)
    options = EdgeOptions.of_columns(columns, weights=len(names) > 3, times=True, header=True, delimiter=",")
    return EdgeEvents(replace(request, edges=(replace(part, options=options),)), words_unless_numbers=True)


def _require_names(path: Path, names: Sequence[str]) -> None:
    """Raises:
    DatasetError: the first line does not name as many columns as the first row has.
    """
    if numbers := [name for name in names if name.isdecimal()]:
        raise DatasetError(f"{path}, line 1: {numbers[0]} is no name of a column, and the layout tgb begins with names")
    if (fields := num_fields(path)) != len(names) or fields < 3:
        raise DatasetError(
            f"{path}, line 2: there are {fields} fields and the first line names {len(names)}; the layout tgb has a "
            "timestamp, a source, a destination and maybe a weight"
        )


def event_files(request: ImportRequest, layout: str) -> list[tuple[str, Path]]:
    """Every file with its role, arrays beside a table among them."""
    files = request.files()
    paths = [path for part in request.edges if part.table is None for path in part.paths]
    for path in paths if layout in ("auto", "tgn") else []:
        if path.is_file() and (layout == "tgn" or layout_of(path) == "tgn"):
            files += [("arrays", beside) for beside in arrays_beside(path) if beside.exists()]
    return files


def layout_of(path: Path) -> Layout:
    """The layout that a file's first line and name suggest."""
    if format_of(path) != "text":
        return "edges"
    names = first_names(path)
    if names[: len(JODIE_NAMES)] == JODIE_NAMES:
        return "jodie"
    if set(TGN_NAMES) <= set(names):
        return "tgn"
    return "tgb" if "_edgelist" in unpacked_name(path) and path.suffix == ".csv" else "edges"


def first_names(path: Path) -> tuple[str, ...]:
    """The fields of a file's first line, in lower case."""
    line = first_bytes(path, LINE_BYTES).removeprefix(UTF8_MARK).split(b"\n", 1)[0].decode("utf-8", "replace")
    return tuple(field.strip().strip('"').lower() for field in line.split(","))


def require_for_events(request: ImportRequest) -> None:
    """Refuse options that say something of a graph without times.

    Raises:
        UsageError: there is one.
    """
    if len(request.edges) != 1:
        raise UsageError("--events makes a store of one kind of events; give a schema with one edge type")
    [part] = request.edges
    treatment = part.treatment or request.treatment
    for flag, is_given in (
        ("--undirected", treatment.undirected),
        ("--duplicates", treatment.duplicates != "keep"),
        ("--self-loops", treatment.self_loops != "keep"),
    ):
        if is_given:
            raise UsageError(f"{flag} cannot be given beside --events, which keep every event as it is; leave it out")
    for files in request.nodes.values():
        for name in ("labels", "train", "val", "test", "times", "split_column"):
            if getattr(files, name) is not None:
                flag = "--node-times" if name == "times" else f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} cannot be given beside --events, whose splits are by time; leave it out")
    if part.table is None and {format_of(path, part.format) for path in part.paths} & set(WHOLE_GRAPH):
        raise UsageError(f"{part.paths[0]} is a whole graph, and --events needs a list of edges with times")
    if part.reverse is not None or (part.table is not None and part.table.split is not None):
        name = "reverse" if part.reverse is not None else "split_column"
        raise UsageError(f"`{name}` of edges cannot be given beside --events, whose splits are by time; leave it out")
