"""A dataset's name, or a user's own files, become a finished store.

A store carries the key of all that determines its content (files by checksum, reader options, treatment, split), so a
second run finds it and does nothing, and a store of the same name from something else is never taken for it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphprep.core.types import RawGraph
from graphprep.core.validate import check_dtypes, check_nodes
from graphprep.errors import DatasetError
from graphprep.store.location import existing_kind, store_place, work_beside
from graphprep.store.sort import BYTES_PER_EDGE, SortedEdges, sort_table
from graphprep.store.store import STORE_FORMAT, STORE_KIND, GraphStore
from graphprep.store.write import write_store
from graphprep.system import home, progress
from graphprep.system.atomic import PARTIAL_PREFIX, locked, sweep
from graphprep.system.executor import Executor
from graphprep.system.output_path import kind_of
from graphprep.version import __version__
from pipelines.estimate import Expectation, GraphSize

if TYPE_CHECKING:
    from graphprep.datasets.entry import DatasetEntry, Expected
    from graphprep.datasets.importing.import_request import ImportRequest

TEXT_BYTES_AN_EDGE, PACKED_RATIO, PACKED = 12, 3, (".gz", ".zst")
BYTES_AN_EDGE = {".npy": 16, ".npz": 12, ".parquet": 6, ".pq": 6, ".pt": 16, ".pth": 16, ".graph": 14}
ANYWAY = "anyway"
"""the note of a store that says what was wrong and was converted all the same"""
BASE_BYTES = 300_000_000
"""of memory, whatever the graph; these are for what is announced, nothing else"""
EDGES_PER_SECOND = 8e6
"""Edges that are read, sorted and written in a second; for the time that is announced, nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutcome:
    """The store, and whether it was there already."""

    store: GraphStore
    reused: bool


def known_datasets() -> list[dict[str, Any]]:
    """One row a dataset of the registry: its name, title, counts, licence, and whether its store is here."""
    from graphprep.datasets.registry import load_registry

    return [
        {
            "name": name,
            "title": entry.title,
            "source": entry.source,
            "nodes": entry.expected.total("nodes"),
            "edges": entry.expected.total("edges"),
            "features": entry.expected.total("features"),
            "classes": entry.expected.total("classes"),
            "licence": entry.licence,
            "download_bytes": entry.num_bytes,
            "fetched": kind_of(home.store_path(name)) == STORE_KIND,
        }
        for name, entry in load_registry().items()
    ]


def fetch_dataset(
    name: str,
    *,
    mirror: str | None,
    out: Path | str | None = None,
    replace: bool = False,
    memory_limit: int | None = None,
    anyway: bool = False,
    executor: Executor | None = None,
) -> StoreOutcome:
    """Download, verify and convert a dataset of the registry.

    Args:
        name: of the dataset.
        mirror: a URL or folder that holds https://HOST/PATH as MIRROR/HOST/PATH.
        out: path or URL of the store; by default HOME/stores/NAME.zarr.
        replace: convert again even if the store is there, also where it was made from something else.
        memory_limit: bytes that the process may use; None for half of what is free.
        anyway: only warn about counts and values that are not what they should be.
        executor: of the edges that do not fit in memory, which are sorted and written by ranges; None for threads.

    Raises:
        UnknownDatasetError: the registry has no such name.
        DownloadError: a file could not be had, or is not what it should be.
        DatasetError: the files contradict each other or the registry's counts.
    """
    from graphprep.datasets import readers, registry
    from graphprep.datasets.download.download import download

    entry = registry.entry(name)
    target = store_place(out, entry.name)
    key = fetched_key(entry)
    with locked(work_beside(target, entry.name), f"the dataset {entry.name}"):
        found = None if replace else _fetched(target, entry, key)
        if found is not None:
            return StoreOutcome(store=found, reused=True)
        _announce_download(entry)
        folder = home.raw_folder(entry.name)
        files = download(readers.remote_files(entry), folder, mirror=mirror, title=entry.name) if entry.files else ()
        with progress.task(f"reading {entry.name}"):
            raw = readers.read(folder, entry, memory_limit=memory_limit)
        source = {
            "reader": entry.source,
            "options": dict(entry.options),
            "files": [
                {"name": file.name, "url": file.url, "bytes": file.bytes, "sha256": file.sha256} for file in files
            ],
            "licence": entry.licence,
            "citation": entry.citation,
            "homepage": entry.homepage,
        }
        store = graph_to_store(
            raw,
            target,
            name=entry.name,
            key=key,
            source=source,
            expected=entry.expected,
            memory_limit=memory_limit,
            anyway=anyway,
            executor=executor,
        )
    return StoreOutcome(store=store, reused=False)


def fetched_key(entry: DatasetEntry) -> str:
    """The key of the store that a dataset of the registry becomes."""
    return store_key(entry.model_dump(mode="json", exclude={"title", "licence", "citation", "homepage", "aliases"}))


def imported_key(request: ImportRequest, name: str, inputs: Sequence[Mapping[str, object]]) -> str:
    """The key of the store that a user's own files become.

    Args:
        inputs: the checksums of all files, as `InputDigests` gives them.
    """
    return store_key({"name": name, "options": request.to_json(), "files": [entry["sha256"] for entry in inputs]})


def _fetched(target: Path | str, entry: DatasetEntry, key: str) -> GraphStore | None:
    """The store at `target` if it is this dataset's; None if it is absent, damaged, or of an older entry.

    Raises:
        DatasetError: it was made from the user's own files or by a generator.
    """
    standing = existing_kind(target)
    if standing == "other" and target != home.store_path(entry.name).absolute():
        raise DatasetError(f"{target} is no graph store; it is left as it is: remove it, or give another --out")
    if standing == "nothing":
        return None
    try:
        found = GraphStore(target)
    except DatasetError as error:
        progress.warn(f"{error}; it is made again")
        return None
    if found.key == key:
        _sweep(target, entry.name)
        say_up_to_date(found)
        return found
    if found.attributes["source"].get("reader") == entry.source:
        progress.say(f"{target} was made from an older description of {entry.name}; it is made again")
        return None
    raise DatasetError(f"{target} was not fetched but imported or generated; give --replace to fetch over it")


def import_files(
    request: ImportRequest,
    *,
    name: str,
    out: Path | str | None,
    replace: bool,
    memory_limit: int | None = None,
    anyway: bool = False,
    executor: Executor | None = None,
) -> StoreOutcome:
    """Convert a user's own files to a store.

    Args:
        request: the files and how to read them.
        name: what to call the dataset.
        out: path or URL of the store itself; by default HOME/stores/NAME.zarr.
        replace: convert again even if the store is there, also where it was made from something else.
        memory_limit: bytes that the process may use; None for half of what is free.
        anyway: only warn about values that are not what they should be.
        executor: of the edges that do not fit in memory, which are sorted and written by ranges; None for threads.

    Raises:
        DatasetError: a file is not what it should be, or another store lies at the target.
    """
    from graphprep.datasets.importing.input_digests import InputDigests
    from graphprep.datasets.importing.user_files import read_files

    home.checked_name(name, "--name")
    target = store_place(out, name)
    lock = work_beside(target, name)
    with locked(lock, f"the dataset {name}"), InputDigests(request.files()) as digests:
        if existing_kind(target) != "nothing":
            key = "" if replace else imported_key(request, name, digests.result())
            found = up_to_date(target, key, name=name, replace=replace)
            if found is not None:
                _say_read_as(found.attributes.get("notes", {}))
                return StoreOutcome(store=found, reused=True)
        _announce_import(request, name)
        raw = read_files(request, memory_limit=memory_limit, executor=executor)
        _say_read_as(raw.notes)
        inputs = digests.result()
        key = imported_key(request, name, inputs)
        source = {"reader": "user_files", "options": request.to_json(), "files": inputs}
        store = graph_to_store(
            raw,
            target,
            name=name,
            key=key,
            source=source,
            expected=None,
            memory_limit=memory_limit,
            anyway=anyway,
            executor=executor,
        )
    return StoreOutcome(store=store, reused=False)


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


def say_up_to_date(store: GraphStore) -> None:
    """Say that a store is what was asked for, and what it was converted in spite of."""
    progress.say(f"{store.location} is up to date")
    for sentence in store.attributes.get("notes", {}).get(ANYWAY, ()):
        progress.warn(f"it was converted with --anyway in spite of this: {sentence}")


def _counts(raw: RawGraph, edges: Sequence[SortedEdges]) -> dict[str, dict[str, int]]:
    """What came out, by the names of the registry's expectations and by type."""
    found: dict[str, dict[str, int]] = {
        "nodes": {kind: table.num_nodes for kind, table in raw.nodes.items()},
        "edges": {table.type.key: table.counts.edges for table in edges},
    }
    for kind, table in raw.nodes.items():
        if table.x is not None:
            found.setdefault("features", {})[kind] = int(table.x.shape[1])
        if table.y is not None:
            classes = int(table.y.max()) + 1 if table.y.ndim == 1 else int(table.y.shape[1])
            found.setdefault("classes", {})[kind] = classes
        for field in ("train", "val", "test"):
            mask = getattr(table, f"{field}_mask")
            if mask is not None:
                found.setdefault(field, {})[kind] = int(mask[:, 0].sum())
    return found


def _sweep(target: Path | str, name: str) -> None:
    """Remove what is left of the work that led to a store."""
    for folder in scratch_of(work_beside(target, name)):
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(target, Path):
        sweep(target)


def up_to_date(target: Path | str, key: str, *, name: str, replace: bool) -> GraphStore | None:
    """The store at `target` if it has this key; None if there is none or it is to be replaced.

    Raises:
        DatasetError: there is a store that was made from something else, and `replace` does not say that it may go.
    """
    standing = existing_kind(target)
    if standing == "other":
        raise DatasetError(f"{target} is no graph store; it is left as it is: remove it, or give another --out")
    if replace or standing == "nothing":
        return None
    found = GraphStore(target)
    if found.key == key:
        _sweep(target, name)
        say_up_to_date(found)
        return found
    raise DatasetError(f"{target} was made from other files or options; give --replace to replace it or another --name")


def store_key(definition: Mapping[str, Any]) -> str:
    """64 hex digits over all that determines a store's content."""
    whole = {"store format": STORE_FORMAT, "graphprep version": __version__, **definition}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def expected_of_import(request: ImportRequest) -> Expectation:
    """Estimate an import from the sizes of its files."""
    num_edges, node_bytes = _likely_count(request), _node_bytes(request)
    return Expectation(
        memory_bytes=int(BASE_BYTES + num_edges * BYTES_PER_EDGE),
        disk_bytes=int(node_bytes + num_edges * 8),
        seconds=2 + num_edges / EDGES_PER_SECOND,
    )


def _say_read_as(notes: Mapping[str, Any]) -> None:
    """What was taken as what."""
    for line in notes.get("read_as", ()):
        progress.say(f"  {line}")


def _announce_import(request: ImportRequest, name: str) -> None:
    """Expectations from the sizes of the files, said before anything is read."""
    edge_bytes = sum(path.stat().st_size for part in request.edges for path in part.paths)
    needs = expected_of_import(request)
    progress.say(
        f"{name}: {progress.format_bytes(edge_bytes)} of edges, some {float(f'{_likely_count(request):.1g}'):,.0f} of "
        f"them, and {progress.format_bytes(_node_bytes(request))} of the nodes'; expect about "
        f"{progress.format_bytes(needs.memory_bytes)} of memory (--memory takes less), "
        f"{progress.format_bytes(needs.disk_bytes)} of disk and {needs.seconds:.0f} s"
    )


def _likely_count(request: ImportRequest) -> float:
    """Of the edges in all files."""
    return sum(_likely_edges(path) for part in request.edges for path in part.paths)


def _node_bytes(request: ImportRequest) -> int:
    """Of the nodes' files."""
    of_edges = {path for part in request.edges for path in part.paths}
    return sum(path.stat().st_size for _, path in request.files() if path not in of_edges)


def _likely_edges(path: Path) -> float:
    """How many edges a file of this kind and size has, within a factor of two or so."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in PACKED]
    packed = PACKED_RATIO if path.suffix in PACKED else 1
    return path.stat().st_size * packed / BYTES_AN_EDGE.get(suffixes[-1] if suffixes else "", TEXT_BYTES_AN_EDGE)


def _announce_download(entry: DatasetEntry) -> None:
    """Licence and expectations, said before anything starts."""
    size = entry.num_bytes
    what = (
        "no download"
        if not entry.files
        else f"{len(entry.files)} files, " + (progress.format_bytes(size) if size is not None else "size unknown")
    )
    needs = expected_of_conversion(entry)
    progress.say(
        f"{entry.name}: {entry.title}; {what}; expect about {progress.format_bytes(needs.memory_bytes)} of memory "
        f"(--memory takes less), {progress.format_bytes(needs.disk_bytes)} of disk and {needs.seconds:.0f} s to "
        f"convert; licence: {entry.licence}"
    )


def expected_of_conversion(entry: DatasetEntry) -> Expectation:
    """Estimate the conversion of a dataset of the registry, without its download."""
    values, num_edges = entry.expected.feature_values, entry.expected.total("edges") or 0
    return Expectation(
        memory_bytes=values * 8 + num_edges * BYTES_PER_EDGE,
        disk_bytes=values * 4 + num_edges * 8,
        seconds=2 + num_edges / EDGES_PER_SECOND,
    )


def fetched_size(entry: DatasetEntry) -> GraphSize | None:
    """What a dataset of the registry will have, None where the registry does not say it."""
    nodes, edges = entry.expected.total("nodes"), entry.expected.total("edges")
    if nodes is None or edges is None:
        return None
    return GraphSize(
        nodes=nodes,
        edges=edges,
        directed=not entry.treatment.undirected,
        node_bytes=entry.expected.feature_values * 4 + nodes * 11,
    )
