"""Write an event store: events in the order of time, then the nodes, then the root attributes and the manifest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.manifest import Manifest
from graphprep.core.event_rows import ChangingFeatures, EventReader, NodesOfEvents
from graphprep.errors import DatasetError
from graphprep.system import memory, progress
from graphprep.temporal.changing_features import FeatureHistory
from graphprep.temporal.events import ROWS_AT_A_TIME
from graphprep.temporal.format import (
    DESTINATION,
    EVENT_FORMAT,
    EVENT_STORE_KIND,
    EVENT_X,
    EVENT_Y,
    NODE_X,
    ORIGINAL_ID,
    SOURCE,
    TIME,
    WORD_BYTES,
    WORD_OFFSETS,
)
from graphprep.temporal.sort_events import EventSpool
from graphprep.version import __version__


def write_event_store(
    folder: Path,
    reader: EventReader,
    *,
    scratch: Path,
    name: str,
    time_unit: str,
    memory_limit: int | None = None,
    changing: Callable[[NodesOfEvents], ChangingFeatures] | None = None,
) -> tuple[FolderWriter, dict[str, Any]]:
    """Write all but the root.

    Args:
        folder: of the store, which the caller publishes; what an earlier run left there is removed.
        reader: of the events.
        scratch: a folder for events that are being sorted; removed at the end.
        name: of the dataset.
        time_unit: of the times.
        memory_limit: bytes that this process may hold; None for half of what is free.
        changing: gives the features of nodes that change, from the nodes; None where there are none.

    Returns:
        The writer, and the root attributes but for those that `write_root` adds.

    Raises:
        DatasetError: an event is wrong, or there is none.
    """
    for path in (folder, scratch):
        shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(parents=True)
    spool = EventSpool(
        folder=scratch,
        num_features=reader.num_features,
        has_states=reader.has_states,
        budget=memory.budget(memory_limit),
    )
    with progress.task("reading events", unit="events") as task:
        for rows in reader.rows():
            spool.add(rows)
            task.advance(len(rows.time))
    nodes = reader.nodes()
    writer = FolderWriter(folder)
    facts = _write_events(writer, spool, nodes)
    shutil.rmtree(scratch)
    _write_nodes(writer, nodes)
    history = None
    if changing is not None:
        history = FeatureHistory.sorted(changing(nodes), nodes.num_nodes, spool.time_dtype)
        writer.group("changing")
        for array_name, array in history.named():
            _write_in_pieces(writer, array_name, array)
    return writer, {
        "graphprep_format": EVENT_FORMAT,
        "graphprep_kind": EVENT_STORE_KIND,
        "tool_version": __version__,
        "dataset": name,
        "num_nodes": nodes.num_nodes,
        "num_event_features": spool.num_features,
        "num_node_features": 0 if nodes.x is None else int(nodes.x.shape[1]),
        "num_changing_features": 0 if history is None else int(history.x_RD.shape[1]),
        "time_unit": time_unit,
        **facts,
        "notes": {**nodes.notes, "read_as": reader.read_as()},
    }


def write_root(writer: FolderWriter, attributes: Mapping[str, Any], *, key: str, source: Mapping[str, Any]) -> None:
    """Write the root attributes, which make the folder a store, and the manifest.

    Args:
        writer: of all the rest.
        attributes: as `write_event_store` gives them.
        key: 64 hex digits over all that determines the content.
        source: where the events came from, with checksums.
    """
    writer.group("", {**attributes, "key": key, "source": dict(source)})
    Manifest(key=key, files=writer.files).write(writer.folder)


def _write_events(writer: FolderWriter, spool: EventSpool, nodes: NodesOfEvents) -> dict[str, Any]:
    """The arrays of events; returns what the root says of them."""
    writer.group("events")
    is_source_N, is_destination_N = np.zeros((2, nodes.num_nodes), np.bool_)
    first = last = None
    has_states = spool.has_states and spool.highest_state > 0
    if spool.has_states and not has_states:
        progress.say("all states of sources are 0, so no states are kept")
    with ExitStack() as stack:

        def column(name: str, dtype: Any, row_shape: tuple[int, ...] = ()) -> Any:
            return stack.enter_context(writer.growing_array(name, np.dtype(dtype), row_shape))

        append = {SOURCE: column(SOURCE, np.int64), DESTINATION: column(DESTINATION, np.int64)}
        append[TIME] = column(TIME, spool.time_dtype)
        if spool.num_features:
            append[EVENT_X] = column(EVENT_X, np.float32, (spool.num_features,))
        if has_states:
            append[EVENT_Y] = column(EVENT_Y, np.int64)
        total = spool.num_events + spool.num_waiting
        with progress.task("writing events", total=total, unit="events") as task:
            for rows in spool.sorted_rows():
                source, destination = nodes.sources(rows.source), nodes.destinations(rows.destination)
                is_source_N[source] = True
                is_destination_N[destination] = True
                first, last = rows.time[0] if first is None else first, rows.time[-1]
                for name, part in ((SOURCE, source), (DESTINATION, destination), (TIME, rows.time)):
                    append[name](part)
                if EVENT_X in append:
                    append[EVENT_X](rows.x)
                if EVENT_Y in append:
                    append[EVENT_Y](rows.y)
                task.advance(len(rows.time))
    if first is None or last is None:
        raise DatasetError("there is no event in what was read; give files of edges with times")
    return {
        "num_events": spool.num_events,
        "num_states": spool.highest_state + 1 if has_states else 0,
        "bipartite": not bool((is_source_N & is_destination_N).any()),
        "time_range": [first.item(), last.item()],
        "was_sorted": spool.was_sorted,
    }


def _write_nodes(writer: FolderWriter, nodes: NodesOfEvents) -> None:
    writer.group("nodes")
    if nodes.x is not None:
        _write_in_pieces(writer, NODE_X, nodes.x)
    ids: NDArray[Any] | None = nodes.original_id
    if ids is None:
        return
    if ids.dtype.kind not in "UT":
        writer.array(ORIGINAL_ID, ids.astype(np.int64))
        return
    words = [str(word).encode() for word in ids]
    writer.group("words")
    writer.array(WORD_OFFSETS, np.concatenate([[0], np.cumsum([len(word) for word in words], dtype=np.int64)]))
    writer.array(WORD_BYTES, np.frombuffer(b"".join(words), np.uint8))


def _write_in_pieces(writer: FolderWriter, name: str, array: NDArray[Any]) -> None:
    dtype = np.dtype(np.float32) if array.ndim == 2 else array.dtype
    with writer.growing_array(name, dtype, array.shape[1:]) as append:
        for start in range(0, len(array), ROWS_AT_A_TIME):
            append(array[start : start + ROWS_AT_A_TIME])
