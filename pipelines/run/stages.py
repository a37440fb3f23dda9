"""The stages of a whole run, each of which can say beforehand whether and why it has something to do.

    fetch | import | generate | open    a store
    partition                           a cache from a store
    verify                              every byte of a cache, read
    report                              an HTML page of a store or a cache
    export                              a cache in another tool's files

A stage is up to date when its result is there and was made from the same input: stores, caches and exports carry the
key of what they were made from, pages and verifications have a note (`notes`). Pages and exports go by the content of
what they show, not by its key. `--replace` makes every result again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from graphprep.cache.format import MANIFEST_SUM, ZARR_JSON
from graphprep.cache.read import PartitionCache
from graphprep.errors import CacheError, UsageError
from graphprep.interop.export.formats import export_format
from graphprep.interop.export.marker import marker_of
from graphprep.partition.search import require_enough_nodes
from graphprep.store.location import read_file
from graphprep.store.store import GraphStore
from graphprep.system import home
from graphprep.system.executor import Executor
from graphprep.version import __version__
from pipelines.estimate import Expectation, GraphSize
from pipelines.export import expected_bytes, export_cache, export_target, must_write
from pipelines.look import report_target, summarise, verify, write_report
from pipelines.partition import (
    PartitionPlan,
    PartitionSpec,
    check_source,
    is_tried_again,
    key_of,
    must_replace,
    partial_folder,
    run_partition,
    say_up_to_date,
)
from pipelines.run import stage_records
from pipelines.run.config import Cell, Pipeline
from pipelines.run.datasets import Dataset

ABSENT = "it is not there"
REPLACED = "--replace makes it again"


class Stage(Protocol):
    """One piece of a whole run."""

    @property
    def name(self) -> str:
        """What it is called, for people."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the stages that come before it."""

    @property
    def output(self) -> str:
        """Path or URL of the result."""

    @property
    def expected(self) -> Expectation | None:
        """What it takes, None where that is not known yet."""

    @property
    def foresees(self) -> bool:
        """Whether `reason` is right before the stages that it needs have run."""

    def reason(self) -> str | None:
        """Why there is something to do, None if the result is up to date.

        Raises:
            GraphprepError: it cannot be done, or only the user may say that it may.
        """

    def run(self) -> None:
        """Do it, or go on with what an earlier run has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStage:
    """A dataset becomes a store."""

    dataset: Dataset
    replace: bool
    memory_limit: int | None
    executor: Executor | None
    needs: tuple[str, ...] = ()
    foresees: bool = True

    @property
    def name(self) -> str:
        return f"{self.dataset.verb} {self.dataset.name}"

    @property
    def output(self) -> str:
        return self.dataset.location

    @property
    def expected(self) -> Expectation | None:
        return self.dataset.expected

    def reason(self) -> str | None:
        reason = self.dataset.reason(replace=self.replace)
        return REPLACED if reason is None and self.replace and self.dataset.is_made else reason

    def run(self) -> None:
        self.dataset.make(replace=self.replace, memory_limit=self.memory_limit, executor=self.executor)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStage:
    """A store becomes a cache."""

    dataset: Dataset
    cell: Cell
    replace: bool
    memory_limit: int | None
    executor: Executor | None
    needs: tuple[str, ...]
    foresees: bool = True

    @property
    def name(self) -> str:
        return f"partition {self.cell.dataset}/{self.cell.label}"

    @property
    def output(self) -> str:
        return str(self.target)

    @property
    def target(self) -> Path:
        """The cache's folder."""
        return home.cache_path(self.cell.dataset, self.cell.label).absolute()

    @property
    def wish(self) -> PartitionSpec:
        """What is asked for."""
        return PartitionSpec(
            topology=self.cell.topology,
            request=self.cell.request,
            features=self.cell.features,
            memory_limit=self.memory_limit,
        )

    @property
    def expected(self) -> Expectation | None:
        size = self._size()
        if size is None:
            return None
        needs = self.wish.expectations(size)
        return Expectation(memory_bytes=needs["memory_bytes"], disk_bytes=needs["disk_bytes"], seconds=needs["seconds"])

    def _size(self) -> GraphSize | None:
        """Of the store if it is there as wanted, else as far as it is known."""
        if self.dataset.reason(replace=True) is None:
            return self._plan().size
        return self.dataset.size

    def _plan(self) -> PartitionPlan:
        store = GraphStore(self.dataset.location)
        check_source(store, self.cell.features)
        require_enough_nodes(self.cell.topology.num_ranks, sum(store.num_nodes.values()))
        return PartitionPlan(
            store=store,
            topology=self.cell.topology,
            request=self.cell.request,
            target=self.target,
            memory_limit=self.memory_limit,
            features=self.cell.features,
        )

    def _determinants(self) -> dict[str, Any]:
        size = self._size()
        by_passes = size is not None and self.wish.is_past_memory(size)
        return self.wish.determinants(self.dataset.key, by_passes=by_passes)

    def reason(self) -> str | None:
        wanted = self._determinants()
        if not self.target.exists():
            begun = partial_folder(self.target, key_of(wanted)).exists()
            return "an earlier run was cut short; what it has finished is kept" if begun else ABSENT
        try:
            if must_replace(self.target, wanted, replace_other=False):
                return "it is damaged"
        except CacheError:
            if not self.replace:
                raise
            must_replace(self.target, wanted, replace_other=True)
            return "it was made with other options or is damaged, and is replaced"
        if self.replace:
            return REPLACED
        there = PartitionCache(self.target)
        if is_tried_again(there, self.memory_limit):
            return "a fallback made it, and what was asked for is tried again"
        say_up_to_date(there)
        return None

    def run(self) -> None:
        run_partition(self._plan(), replace_other=self.replace, executor=self.executor)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyStage:
    """A cache is read and compared with its manifest."""

    what: str
    folder: Path
    needs: tuple[str, ...]
    expected: None = None
    foresees: bool = False

    @property
    def name(self) -> str:
        return f"verify {self.what}"

    @property
    def output(self) -> str:
        return str(self.folder)

    def reason(self) -> str | None:
        if not self.folder.exists():
            return "its cache is not there yet"
        is_known = stage_records.is_noted(
            "verify", self.folder, key=__version__, state=stage_records.folder_state(self.folder)
        )
        return None if is_known else "it has not been verified since it was written or touched"

    def run(self) -> None:
        state = stage_records.folder_state(self.folder)
        verify(str(self.folder))
        stage_records.note("verify", self.folder, key=__version__, state=state)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStage:
    """A store or a cache becomes an HTML page."""

    what: str
    location: str
    page: Path
    root: str
    """the file of the store or cache whose content stands for all of it"""
    replace: bool
    executor: Executor | None
    needs: tuple[str, ...]
    expected: None = None
    foresees: bool = False

    @property
    def name(self) -> str:
        return f"report {self.what}"

    @property
    def output(self) -> str:
        return str(self.page)

    def reason(self) -> str | None:
        if not self.page.exists():
            return ABSENT
        if self.page.is_dir():
            raise UsageError(f"{self.page} is a folder; move it, or give another folder for reports")
        if stage_records.is_noted("report", self.page, key=self._key(), state=stage_records.file_state(self.page)):
            return REPLACED if self.replace else None
        if not self.replace and not stage_records.has_note("report", self.page):
            raise UsageError(f"{self.page} was not written by this pipeline; give --replace to replace it")
        return "it shows something older"

    def _key(self) -> str:
        """Of what is shown, by its content: another run need not give the same for the same options."""
        try:
            content = read_file(self.location, self.root)
        except OSError:
            content = b""
        return f"{__version__} {hashlib.sha256(content).hexdigest()}"

    def run(self) -> None:
        self.page.parent.mkdir(parents=True, exist_ok=True)
        kind, summary = summarise(self.location, executor=self.executor)
        write_report(kind, summary, report_target(self.page))
        stage_records.note("report", self.page, key=self._key(), state=stage_records.file_state(self.page))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportStage:
    """A cache becomes another tool's files."""

    what: str
    cache: Path
    format: str
    folder: Path
    replace: bool
    needs: tuple[str, ...]
    foresees: bool = False

    @property
    def name(self) -> str:
        return f"export {self.what} as {self.format}"

    @property
    def output(self) -> str:
        return str(self.folder)

    @property
    def expected(self) -> Expectation | None:
        if not self.cache.exists():
            return None
        disk = expected_bytes(PartitionCache(self.cache), export_format(self.format))
        return Expectation(memory_bytes=0, disk_bytes=disk, seconds=0.0)

    def reason(self) -> str | None:
        target = export_target(self.folder)
        if not self.cache.exists() or not target.exists():
            return ABSENT
        must = must_write(target, marker_of(PartitionCache(self.cache), self.format), self.replace)
        return "it is replaced" if must else None

    def run(self) -> None:
        export_cache(str(self.cache), self.folder, format_name=self.format, replace=self.replace)


def stages_of(
    pipeline: Pipeline, *, replace: bool, memory_limit: int | None, executor: Executor | None = None
) -> Iterator[Stage]:
    """All stages, each after those that it needs.

    Args:
        replace: whether results that were made from something else may be replaced.
        memory_limit: bytes that the process may hold.
        executor: of the work over ranges of rows and parts; None for threads.
    """
    for name, dataset in pipeline.datasets.items():
        store = StoreStage(dataset=dataset, replace=replace, memory_limit=memory_limit, executor=executor)
        yield store
        if pipeline.reports is not None:
            yield ReportStage(
                what=name,
                location=dataset.location,
                page=pipeline.reports / f"{name}.html",
                root=ZARR_JSON,
                replace=replace,
                executor=executor,
                needs=(store.name,),
            )
        for cell in pipeline.cells:
            if cell.dataset == name:
                yield from _stages_of_cell(pipeline, store, cell, executor)


def _stages_of_cell(pipeline: Pipeline, store: StoreStage, cell: Cell, executor: Executor | None) -> Iterator[Stage]:
    replace, what = store.replace, f"{cell.dataset}/{cell.label}"
    cache = PartitionStage(
        dataset=store.dataset,
        cell=cell,
        replace=replace,
        memory_limit=store.memory_limit,
        executor=executor,
        needs=(store.name,),
    )
    yield cache
    if pipeline.verify:
        yield VerifyStage(what=what, folder=cache.target, needs=(cache.name,))
    if pipeline.reports is not None:
        yield ReportStage(
            what=what,
            location=str(cache.target),
            page=pipeline.reports / cell.dataset / f"{cell.label}.html",
            root=MANIFEST_SUM,
            replace=replace,
            executor=executor,
            needs=(cache.name,),
        )
    for name, folder in pipeline.exports.items():
        yield ExportStage(
            what=what,
            cache=cache.target,
            format=name,
            folder=folder / cell.dataset / cell.label,
            replace=replace,
            needs=(cache.name,),
        )
