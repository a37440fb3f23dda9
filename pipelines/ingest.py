"""A dataset's name, or a user's own files, become a finished store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from graphprep.store.sort import BYTES_PER_EDGE
from graphprep.store.store import STORE_KIND, GraphStore
from graphprep.system import home, progress
from graphprep.system.files.output_path import kind_of
from pipelines.estimate import Estimate, GraphSize
from pipelines.step import Existing, State
from pipelines.store_step import EDGES_PER_SECOND, StoreOptions, StoreOutcome, StoreStep, key_of_store

if TYPE_CHECKING:
    from graphprep.core.types import RawGraph
    from graphprep.datasets.entry import DatasetEntry
    from graphprep.datasets.importing.import_request import ImportRequest

TEXT_BYTES_AN_EDGE, PACKED_RATIO, PACKED = 12, 3, (".gz", ".zst")
BYTES_AN_EDGE = {".npy": 16, ".npz": 12, ".parquet": 6, ".pq": 6, ".pt": 16, ".pth": 16, ".graph": 14}
BASE_BYTES = 300_000_000
"""of memory, whatever the graph; these are for what is announced, nothing else"""


def known_datasets() -> list[dict[str, Any]]:
    """One row a dataset of the registry: its name, title, counts, licence, and whether its store is here."""
    from graphprep.datasets.registry import load_registry

    return [
        {
            "name": name,
            "title": entry.title,
            "source": entry.source,
            **{what: entry.expected.total(what) for what in ("nodes", "edges", "features", "classes")},
            "licence": entry.licence,
            "download_bytes": entry.num_bytes,
            "fetched": kind_of(home.store_path(name)) == STORE_KIND,
        }
        for name, entry in load_registry().items()
    ]


@dataclass(frozen=True, kw_only=True)
class FetchStep(StoreStep):
    """A dataset of the registry is downloaded, verified and converted."""

    verb = "fetch"
    remakes_damaged = True

    entry: DatasetEntry
    mirror: str | None = None
    """a URL or folder that holds https://HOST/PATH as MIRROR/HOST/PATH"""

    @property
    def determinants(self) -> dict[str, Any]:
        return self.entry.model_dump(mode="json", exclude={"title", "licence", "citation", "homepage", "aliases"})

    @property
    def size(self) -> GraphSize | None:
        nodes, edges = self.entry.expected.total("nodes"), self.entry.expected.total("edges")
        if nodes is None or edges is None:
            return None
        return GraphSize(
            nodes=nodes,
            edges=edges,
            directed=not self.entry.treatment.undirected,
            node_bytes=self.entry.expected.feature_values * 4 + nodes * 11,
        )

    @property
    def estimate(self) -> Estimate:
        """Of the conversion, without the download."""
        values, num_edges = self.entry.expected.feature_values, self.entry.expected.total("edges") or 0
        return Estimate(
            memory_bytes=values * 8 + num_edges * BYTES_PER_EDGE,
            disk_bytes=values * 4 + num_edges * 8,
            seconds=2 + num_edges / EDGES_PER_SECOND,
        )

    def compare(self, result: GraphStore) -> Existing[GraphStore]:
        existing = super().compare(result)
        if existing.state is State.SAME or result.attributes["source"].get("reader") != self.entry.source:
            return existing
        return Existing(
            State.OUTDATED,
            reason="it was made from an older description of the dataset",
            notes=(f"{self.target} was made from an older description of {self.name}; it is made again",),
        )

    @property
    def refusal(self) -> str:
        return f"{self.target} was not fetched but imported or generated; give --replace to fetch over it"

    def run(self, earlier: GraphStore | None) -> GraphStore:  # noqa: ARG002
        from graphprep.datasets import readers
        from graphprep.datasets.download.download import download

        entry, folder = self.entry, home.raw_folder(self.name)
        self._announce()
        files = (
            download(readers.remote_files(entry), folder, mirror=self.mirror, title=self.name) if entry.files else ()
        )
        with progress.task(f"reading {self.name}"):
            raw = readers.read(folder, entry, memory_limit=self.memory_limit)
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
        return self.write(raw, source, expected=entry.expected)

    def _announce(self) -> None:
        """Say the licence and the estimate before anything starts."""
        entry, needs = self.entry, self.estimate
        size = "size unknown" if entry.num_bytes is None else progress.format_bytes(entry.num_bytes)
        what = f"{len(entry.files)} files, {size}" if entry.files else "no download"
        progress.say(
            f"{entry.name}: {entry.title}; {what}; expect about {progress.format_bytes(needs.memory_bytes)} of memory "
            f"(--memory takes less), {progress.format_bytes(needs.disk_bytes)} of disk and {needs.seconds:.0f} s to "
            f"convert; licence: {entry.licence}"
        )


def fetch_dataset(
    name: str, *, mirror: str | None = None, replace: bool = False, **options: Unpack[StoreOptions]
) -> StoreOutcome:
    """Download, verify and convert a dataset of the registry.

    Args:
        name: of the dataset.
        mirror, options: as for `FetchStep`.
        replace: convert again even if the store is there, also where it was made from something else.

    Raises:
        UnknownDatasetError: the registry has no such name.
        DownloadError: a file could not be had, or is not what it should be.
        DatasetError: the files contradict each other or the registry's counts, or something else lies at the target.
    """
    from graphprep.datasets.registry import entry

    dataset = entry(name)
    return FetchStep(name=dataset.name, entry=dataset, mirror=mirror, **options).outcome(replace=replace)


@dataclass(frozen=True, kw_only=True)
class ImportStep(StoreStep):
    """A user's own files are converted."""

    verb = "import"

    request: ImportRequest
    """the files and how to read them"""

    @cached_property
    def determinants(self) -> dict[str, Any]:
        """Reads all files, once."""
        from graphprep.datasets.importing.input_digests import InputDigests

        with InputDigests(self.request.files()) as digests:
            return self._determinants(digests.result())

    def _determinants(self, inputs: Sequence[Mapping[str, object]]) -> dict[str, Any]:
        """`inputs`: the checksums of all files, as `InputDigests` gives them."""
        files = [file["sha256"] for file in inputs]
        return {"name": self.name, "options": self.request.to_json(), "files": files}

    @property
    def estimate(self) -> Estimate:
        """From the sizes of the files."""
        return Estimate(
            memory_bytes=int(BASE_BYTES + self._num_edges * BYTES_PER_EDGE),
            disk_bytes=int(self._node_bytes + self._num_edges * 8),
            seconds=2 + self._num_edges / EDGES_PER_SECOND,
        )

    def run(self, earlier: GraphStore | None) -> GraphStore:  # noqa: ARG002
        """Read the files; their checksums are worked out meanwhile."""
        from graphprep.datasets.importing.input_digests import InputDigests

        with InputDigests(self.request.files()) as digests:
            self._announce()
            raw = self.read()
            say_read_as(raw.notes)
            inputs = digests.result()
        return self.write(raw, {**self.source, "files": inputs}, key=key_of_store(self._determinants(inputs)))

    @property
    def source(self) -> dict[str, Any]:
        """Where the data came from, without the files' checksums."""
        return {"reader": "user_files", "options": self.request.to_json()}

    def read(self) -> RawGraph:
        """The graph in the files."""
        from graphprep.datasets.importing.user_files import read_files

        return read_files(self.request, memory_limit=self.memory_limit, executor=self.executor)

    def _announce(self) -> None:
        """Say the estimate before anything is read."""
        edge_bytes = sum(path.stat().st_size for path in self._edge_files)
        needs = self.estimate
        progress.say(
            f"{self.name}: {progress.format_bytes(edge_bytes)} of edges, some "
            f"{float(f'{self._num_edges:.1g}'):,.0f} of them, and {progress.format_bytes(self._node_bytes)} of the "
            f"nodes'; expect about {progress.format_bytes(needs.memory_bytes)} of memory (--memory takes less), "
            f"{progress.format_bytes(needs.disk_bytes)} of disk and {needs.seconds:.0f} s"
        )

    @property
    def _edge_files(self) -> list[Path]:
        return [path for part in self.request.edges for path in part.paths]

    @property
    def _num_edges(self) -> float:
        """An estimate of the edges in all files."""
        return sum(map(_likely_edges, self._edge_files))

    @property
    def _node_bytes(self) -> int:
        """Of the nodes' files."""
        of_edges = set(self._edge_files)
        return sum(path.stat().st_size for _, path in self.request.files() if path not in of_edges)


def import_files(
    request: ImportRequest, *, name: str, replace: bool = False, **options: Unpack[StoreOptions]
) -> StoreOutcome:
    """Convert a user's own files to a store.

    Args:
        request, options: as for `ImportStep`.
        name: what to call the dataset.
        replace: convert again even if the store is there, also where it was made from something else.

    Raises:
        DatasetError: a file is not what it should be, or another store lies at the target.
    """
    home.checked_name(name, "--name")
    outcome = ImportStep(name=name, request=request, **options).outcome(replace=replace)
    if outcome.reused:
        say_read_as(outcome.store.attributes.get("notes", {}))
    return outcome


def say_read_as(notes: Mapping[str, Any]) -> None:
    """Say how each file was read."""
    for line in notes.get("read_as", ()):
        progress.say(f"  {line}")


def _likely_edges(path: Path) -> float:
    """How many edges a file of this kind and size has, within a factor of two or so."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in PACKED]
    packed = PACKED_RATIO if path.suffix in PACKED else 1
    return path.stat().st_size * packed / BYTES_AN_EDGE.get(suffixes[-1] if suffixes else "", TEXT_BYTES_AN_EDGE)
