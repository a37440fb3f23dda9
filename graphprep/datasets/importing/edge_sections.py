"""Files of edges read by other processes, section by section: first to learn which ids occur, then for the edges.

A section does not know how many lines are before it, so an error with its line comes only from reading the file from
front to back. Here a fault means only that this has to be done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphprep.core.types import EdgeChunk, EdgeSections
from graphprep.datasets.formats.edge_weights import Rounded, as_float32, rounded_in
from graphprep.datasets.importing.edges.edge_file import EdgeFile, FileRange, SectionedFile
from graphprep.datasets.importing.ids import IdSet
from graphprep.datasets.importing.node_ids import NodeIds
from graphprep.system.executor import Executor
from graphprep.system.files.version import FileVersion, changed, require_version, version_of

BYTES_NEEDED = 600_000_000
"""of a section: its edges as they are read, and a flag for each id"""


class Place(NamedTuple):
    """Where a section lies."""

    file: int
    """which of the files"""
    range: FileRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSection:
    """What a section has."""

    edges: int
    sources: IdSet | None
    destinations: IdSet | None
    """None too where both ends are of one type"""
    rounded: Rounded
    """whole weights that float32 cannot hold"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSections:
    """All sections of some files, in their order."""

    files: Sequence[SectionedFile]
    places: Sequence[Place]
    versions: Sequence[FileVersion]
    """of the files, before anything is read"""

    @classmethod
    def of(cls, files: Sequence[EdgeFile]) -> FileSections | None:
        """The sections; None if some file can only be read from front to back."""
        sectioned = [file for file in files if isinstance(file, SectionedFile)]
        ranges = [file.sections() for file in sectioned]
        if len(sectioned) < len(files) or not all(ranges):
            return None
        places = [Place(number, section) for number, sections in enumerate(ranges) for section in sections]
        return cls(files=sectioned, places=places, versions=[version_of(file.path) for file in sectioned])

    def scan(self, executor: Executor, sources: NodeIds, destinations: NodeIds) -> Iterator[ScannedSection]:
        """What each section has.

        Args:
            executor: its workers reach the files under the same paths.
            sources, destinations: they are not changed; one and the same where both ends are of one type.

        Raises:
            DatasetError: a file is damaged or has something that is no edge, or a worker does not reach it.
        """
        empty = sources.empty()
        others = empty if destinations is sources else destinations.empty()
        yield from executor.map(_scan_section, self.places, self.files, empty, others, needed=BYTES_NEEDED)

    def stream(self, counts: Sequence[int], sources: NodeIds, destinations: NodeIds, *, turned: bool) -> EdgeSections:
        """The edges, with ids as rows.

        Args:
            counts: edges of each section.
            sources, destinations: closed.
            turned: whether sources and destinations change places.
        """
        shared = (self, sources, destinations, turned)
        return EdgeSections(counts=counts, read=_read, shared=shared, check=self.require_same)

    def require_same(self) -> None:
        """Look at the files again. Only the process that was started does: elsewhere they may be copies.

        Raises:
            DatasetError: one has changed.
        """
        for file, version in zip(self.files, self.versions, strict=True):
            require_version(file.path, version)


def _scan_section(
    place: Place, files: Sequence[SectionedFile], sources: NodeIds, destinations: NodeIds
) -> ScannedSection:
    # What is shared stays with a worker, which may scan several sections one after the other, or at once in threads.
    some = sources.empty()
    others = some if destinations is sources else destinations.empty()
    edges, rounded = 0, Rounded()
    for run in files[place.file].rows_of(place.range):
        some.codes(run.src)
        others.codes(run.dst)
        edges += run.num_edges
        rounded += rounded_in(run.weight)
    of_destinations = None if others is some else others.id_set()
    return ScannedSection(edges=edges, sources=some.id_set(), destinations=of_destinations, rounded=rounded)


def _read(
    number: int, sections: FileSections, sources: NodeIds, destinations: NodeIds, turned: bool
) -> Iterator[EdgeChunk]:
    place = sections.places[number]
    for run in sections.files[place.file].rows_of(place.range):
        source_ids, destination_ids = run.number_ids()
        try:
            src, dst = sources.rows(source_ids), destinations.rows(destination_ids)
        except IndexError as problem:  # an id that was not there before
            raise changed(sections.files[place.file].path) from problem
        weight = None if run.weight is None else as_float32(run.weight)
        yield EdgeChunk(dst, src, weight) if turned else EdgeChunk(src, dst, weight)
