"""What a reader gave is checked, sorted and written as a store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphprep.core.types import RawGraph
from graphprep.core.validate import check_dtypes, check_nodes
from graphprep.errors import DatasetError
from graphprep.store.location import work_beside
from graphprep.store.sort import SortedEdges, sort_table
from graphprep.store.store import GraphStore
from graphprep.store.write import write_store
from graphprep.system import home, progress
from graphprep.system.executor import Executor
from graphprep.system.files.atomic import PARTIAL_PREFIX

if TYPE_CHECKING:
    from graphprep.datasets.entry import Expected

ANYWAY = "anyway"
"""the note of a store that says what was wrong and was converted all the same"""


def graph_to_store(
    raw: RawGraph,
    target: Path | str,
    *,
    name: str,
    key: str,
    source: Mapping[str, Any],
    expected: Expected | None,
    memory_limit: int | None = None,
    anyway: bool = False,
    executor: Executor | None = None,
) -> GraphStore:
    """Convert what a reader gave, check what it means, and write the store.

    Args:
        raw: the graph.
        target: path or fsspec URL of the store.
        name, key, source: as for `write_store`.
        expected: the registry's counts, if there are any.
        memory_limit: bytes that the process may use; None for half of what is free.
        anyway: only warn about counts and values that are not what they should be.
        executor: of the edges that do not fit in memory, which are sorted and written by ranges; None for threads.

    Raises:
        DatasetError: ids out of range; values or counts that are wrong, unless `anyway`.
    """
    scratch, _ = scratch_of(work_beside(target if home.is_url(str(target)) else Path(target), name))
    for other in scratch.glob("*"):
        if other.name != key:
            shutil.rmtree(other)
    check_dtypes(raw)
    deviations: list[str] = []
    with tolerated(anyway, deviations):
        check_nodes(raw.nodes)
    edges = [
        sort_table(
            table,
            num_rows=raw.nodes[table.type.destination].num_nodes,
            num_sources=raw.nodes[table.type.source].num_nodes,
            treatment=table.treatment or raw.treatment,
            limit=memory_limit,
            work=scratch / key / table.type.key,
            executor=executor,
        )
        for table in raw.edges
    ]
    if expected is not None:
        with tolerated(anyway, deviations):
            expected.check(_counts(raw, edges), dataset=name)
    store = write_store(
        target,
        name=name,
        key=key,
        source=source,
        nodes=raw.nodes,
        edges=edges,
        treatment=raw.treatment,
        notes={**raw.notes, **({ANYWAY: deviations} if deviations else {})},
        executor=executor,
        memory_limit=memory_limit,
    )
    if scratch.exists():
        shutil.rmtree(scratch)
    return store


def scratch_of(target: Path) -> tuple[Path, Path]:
    """The folders beside a store where its edges are sorted and its generated features lie meanwhile."""
    before = target.with_name(f"{PARTIAL_PREFIX}{target.name}")
    return Path(f"{before}-edges"), Path(f"{before}-features")


@contextmanager
def tolerated(anyway: bool, deviations: list[str]) -> Iterator[None]:
    """Turn a DatasetError into a warning, and add it to `deviations`, if the user said so; else say how to."""
    try:
        yield
    except DatasetError as error:
        if not anyway:
            raise type(error)(f"{error}; --anyway converts it as it is") from error
        progress.warn(str(error))
        deviations.append(str(error))


def _counts(raw: RawGraph, edges: Sequence[SortedEdges]) -> dict[str, dict[str, int]]:
    """What came out, by the names of the registry's expectations and by type."""
    counts: dict[str, dict[str, int]] = {
        "nodes": {kind: table.num_nodes for kind, table in raw.nodes.items()},
        "edges": {table.type.key: table.counts.edges for table in edges},
    }
    for kind, table in raw.nodes.items():
        if table.x is not None:
            counts.setdefault("features", {})[kind] = int(table.x.shape[1])
        if table.y is not None:
            classes = int(table.y.max()) + 1 if table.y.ndim == 1 else int(table.y.shape[1])
            counts.setdefault("classes", {})[kind] = classes
        for field in ("train", "val", "test"):
            mask = getattr(table, f"{field}_mask")
            if mask is not None:
                counts.setdefault(field, {})[kind] = int(mask[:, 0].sum())
    return counts
