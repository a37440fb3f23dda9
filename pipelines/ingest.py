"""A dataset's name, or a user's own files, become a finished store.

A store carries the key of all that determines its content (files by checksum, reader options, treatment, split), so a
second run finds it and does nothing, and a store of the same name from something else is never taken for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphprep import __version__, home, progress
from graphprep.csr import from_edges
from graphprep.errors import DatasetError
from graphprep.graph import RawGraph
from graphprep.publish import locked
from graphprep.store import STORE_FORMAT, GraphStore, write_store

if TYPE_CHECKING:
    from graphprep.registry import DatasetEntry, Expected
    from graphprep.sources.edge_list import EdgeListOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutcome:
    """The store, and whether it was there already."""

    store: GraphStore
    reused: bool


def known_datasets() -> list[dict[str, Any]]:
    """One row a dataset of the registry: its name, title, counts, licence, and whether its store is here."""
    from graphprep.registry import load_registry

    return [
        {
            "name": name,
            "title": entry.title,
            "source": entry.source,
            "nodes": entry.expected.nodes,
            "edges": entry.expected.edges,
            "features": entry.expected.features,
            "classes": entry.expected.classes,
            "licence": entry.licence,
            "download_bytes": entry.num_bytes,
            "fetched": home.store_path(name).is_dir(),
        }
        for name, entry in load_registry().items()
    ]


def fetch_dataset(name: str, *, mirror: str | None) -> StoreOutcome:
    """Download, verify and convert a dataset of the registry.

    Args:
        name: of the dataset.
        mirror: a URL or folder that holds https://HOST/PATH as MIRROR/HOST/PATH.

    Raises:
        UnknownDatasetError: the registry has no such name.
        DownloadError: a file could not be had, or is not what it should be.
        DatasetError: the files contradict each other or the registry's counts.
    """
    from graphprep import registry, sources
    from graphprep.download import download

    entry = registry.entry(name)
    target = home.store_path(entry.name)
    definition = entry.model_dump(mode="json", exclude={"title", "licence", "citation", "homepage"})
    key = _key(definition)
    with locked(target, f"the dataset {entry.name}"):
        if target.exists() and GraphStore(target).key == key:
            progress.say(f"{target} is up to date")
            return StoreOutcome(store=GraphStore(target), reused=True)
        _announce_download(entry)
        folder = home.raw_folder(entry.name)
        files = download(sources.remote_files(entry), folder, mirror=mirror, title=entry.name) if entry.files else ()
        with progress.task(f"reading {entry.name}"):
            raw = sources.read(folder, entry)
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
        store = graph_to_store(raw, target, name=entry.name, key=key, source=source, expected=entry.expected)
    return StoreOutcome(store=store, reused=False)


def import_edge_list(options: EdgeListOptions, *, name: str, out: Path | None, replace: bool) -> StoreOutcome:
    """Convert a user's own edge list to a store.

    Args:
        options: the files and how to read them.
        name: what to call the dataset.
        out: the store itself; by default HOME/stores/NAME.zarr.
        replace: replace a store that was made from something else.

    Raises:
        DatasetError: a file is not what it should be, or another store lies at the target.
    """
    from graphprep.sources.edge_list import read_edge_list

    home.checked_name(name, "--name")
    target = (out or home.store_path(name)).absolute()
    with locked(target, f"the dataset {name}"):
        with progress.task("checking input files"):
            inputs = options.inputs()
        key = _key({"name": name, "options": options.to_json(), "files": [entry["sha256"] for entry in inputs]})
        if target.exists() and not replace:
            found = GraphStore(target)
            if found.key == key:
                progress.say(f"{target} is up to date")
                return StoreOutcome(store=found, reused=True)
            raise DatasetError(
                f"{target} was made from other files or options; give --replace to replace it or another --name"
            )
        raw = read_edge_list(options)
        source = {"reader": "edge_list", "options": options.to_json(), "files": inputs}
        store = graph_to_store(raw, target, name=name, key=key, source=source, expected=None)
    return StoreOutcome(store=store, reused=False)


def graph_to_store(
    raw: RawGraph,
    target: Path,
    *,
    name: str,
    key: str,
    source: Mapping[str, Any],
    expected: Expected | None,
) -> GraphStore:
    """Convert what a reader gave and write the store.

    Raises:
        DatasetError: ids out of range, or other counts than the registry expects.
    """
    edges = {}
    for table in raw.edges:
        with progress.task(f"sorting edges {table.type.key}"):
            edges[table.type] = from_edges(
                table.chunks(),
                num_rows=raw.nodes[table.type.destination].num_nodes,
                num_sources=raw.nodes[table.type.source].num_nodes,
                treatment=raw.treatment,
                name=table.type.key,
            )
    if expected is not None:
        num_edges = sum(matrix.num_edges for matrix, _ in edges.values())
        expected.check(_counts(raw, num_edges), dataset=name)
    return write_store(
        target,
        name=name,
        key=key,
        source=source,
        nodes=raw.nodes,
        edges=edges,
        treatment=raw.treatment,
        notes=raw.notes,
    )


def _counts(raw: RawGraph, num_edges: int) -> dict[str, int]:
    """The counts that a registry entry can expect, of a graph with one labelled node type."""
    counts = {"nodes": sum(table.num_nodes for table in raw.nodes.values()), "edges": num_edges}
    for table in raw.nodes.values():
        if table.x is not None:
            counts["features"] = int(table.x.shape[1])
        if table.y is not None:
            counts["classes"] = int(table.y.max()) + 1 if table.y.ndim == 1 else int(table.y.shape[1])
        for field in ("train", "val", "test"):
            mask = getattr(table, f"{field}_mask")
            if mask is not None:
                counts[field] = int(mask[:, 0].sum())
    return counts


def _key(definition: Mapping[str, Any]) -> str:
    whole = {"store format": STORE_FORMAT, "graphprep version": __version__, **definition}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _announce_download(entry: DatasetEntry) -> None:
    """Licence and expectations, said before anything starts."""
    size = entry.num_bytes
    what = (
        "no download"
        if not entry.files
        else f"{len(entry.files)} files, " + (progress.format_bytes(size) if size is not None else "size unknown")
    )
    counts = entry.expected
    memory = counts.nodes * counts.features * 8 + counts.edges * 48
    progress.say(
        f"{entry.name}: {entry.title}; {what}; expect about {progress.format_bytes(memory)} of memory and "
        f"{progress.format_bytes(counts.nodes * counts.features * 4 + counts.edges * 8)} of disk; "
        f"licence: {entry.licence}"
    )
