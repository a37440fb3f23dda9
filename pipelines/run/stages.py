"""The stages of a whole run: steps, each with those that it needs.

    fetch | import | generate | open    a store
    partition                           a cache from a store
    verify                              every byte of a cache, read
    report                              an HTML page of a store or a cache
    export                              a cache in another tool's files

A stage is up to date when its result is there and was made from the same input: stores, caches and exports carry the
key of what they were made from, pages and verifications have a record (`stage_records`). Pages and exports go by the
content of what they show, not by its key. `--replace` makes every result again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from graphprep.cache.format import MANIFEST_SUM, ZARR_JSON
from graphprep.errors import UsageError
from graphprep.interop.export.formats import export_format
from graphprep.partition.search import require_enough_nodes
from graphprep.store.location import read_file
from graphprep.store.store import GraphStore
from graphprep.system import home
from graphprep.system.executor import Executor
from graphprep.system.files.output_path import checked_file
from graphprep.version import __version__
from pipelines.estimate import GraphSize
from pipelines.export import ExportStep, export_cache
from pipelines.look import summarise, verify, write_report
from pipelines.partition import PartitionStep, check_source, graph_size
from pipelines.run import stage_records
from pipelines.run.config import Cell, Pipeline
from pipelines.step import ABSENT, Existing, State, Step, existing_result, run_step
from pipelines.store_step import OpenStep, StoreStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A step of a whole run."""

    name: str
    """what it is called, for people"""
    step: Step[Any]
    replace: bool
    """whether a result that was made from something else may be replaced"""
    needs: tuple[str, ...] = ()
    """the names of the stages that come before it"""
    foresees: bool = False
    """whether `reason` is right before the stages that it needs have run"""

    def reason(self) -> str | None:
        """Why there is something to do, None if the result is up to date.

        Raises:
            GraphprepError: it cannot be done, or only the user may say that it may.
        """
        existing = existing_result(self.step)
        reason = existing.reason_to_run(replace=self.replace)
        if reason is None:
            existing.say_notes()
        return reason

    def run(self) -> None:
        """Do it, or go on with what an earlier run has begun."""
        run_step(self.step, replace=self.replace)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportStage(Stage):
    """An export, for which a cache that is replaced meanwhile is read again."""

    step: ExportStep

    def run(self) -> None:
        step = self.step
        export_cache(str(step.folder), step.out, format_name=step.format.name, replace=self.replace)


@dataclass(frozen=True, kw_only=True)
class CellStep(PartitionStep):
    """The store of a dataset, which need not be there yet, becomes a cache."""

    source: StoreStep

    @property
    def graph_key(self) -> str:
        return self.source.key

    @cached_property
    def size(self) -> GraphSize | None:
        """Of the store if it is there as wanted, else as far as it is known."""
        if existing_result(self.source).state is State.SAME:
            return graph_size(self.open(), self.features)
        return self.source.size

    def open(self) -> GraphStore:
        store = GraphStore(self.source.target)
        check_source(store, self.features)
        require_enough_nodes(self.topology.num_ranks, sum(store.num_nodes.values()))
        return store


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """A step whose result cannot say what it was made from; `stage_records` says it."""

    target: Path
    estimate: ClassVar[None] = None
    locks: ClassVar[tuple[()]] = ()

    def sweep(self) -> None:
        """Nothing lies beside the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyStep(RecordedStep):
    """A cache is read and compared with its manifest."""

    def find(self) -> Existing[Path]:
        if not self.target.exists():
            return Existing(State.MISSING, reason="its cache is not there yet")
        return Existing(State.OTHER, result=self.target)

    def compare(self, result: Path) -> Existing[Path]:
        if stage_records.is_noted("verify", result, key=__version__, state=stage_records.folder_state(result)):
            return Existing(State.SAME, result=result)
        reason = "it has not been verified since it was written or touched"
        return Existing(State.OUTDATED, reason=reason)

    def run(self, earlier: Path | None) -> Path:  # noqa: ARG002
        state = stage_records.folder_state(self.target)
        verify(str(self.target))
        stage_records.note("verify", self.target, key=__version__, state=state)
        return self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStep(RecordedStep):
    """A store or a cache becomes an HTML page."""

    location: str
    root: str
    """the file of the store or cache whose content stands for all of it"""
    executor: Executor | None

    def find(self) -> Existing[Path]:
        if not self.target.exists():
            return Existing(State.MISSING, reason=ABSENT)
        if self.target.is_dir():
            refusal = UsageError(f"{self.target} is a folder; move it, or give another folder for reports")
            return Existing(State.FOREIGN, refusal=refusal)
        return Existing(State.OTHER, result=self.target)

    def compare(self, result: Path) -> Existing[Path]:
        if stage_records.is_noted("report", result, key=self._key(), state=stage_records.file_state(result)):
            return Existing(State.SAME, result=result)
        reason = "it shows something older"
        if stage_records.has_note("report", result):
            return Existing(State.OUTDATED, reason=reason)
        refusal = UsageError(f"{result} was not written by this pipeline; give --replace to replace it")
        return Existing(State.OTHER, reason=reason, refusal=refusal)

    def _key(self) -> str:
        """Of what is shown, by its content: another run need not give the same for the same options."""
        try:
            content = read_file(self.location, self.root)
        except OSError:
            content = b""
        return f"{__version__} {hashlib.sha256(content).hexdigest()}"

    def run(self, earlier: Path | None) -> Path:  # noqa: ARG002
        self.target.parent.mkdir(parents=True, exist_ok=True)
        kind, summary = summarise(self.location, executor=self.executor)
        write_report(kind, summary, checked_file(self.target, called="--html"))
        stage_records.note("report", self.target, key=self._key(), state=stage_records.file_state(self.target))
        return self.target


def stages_of(
    pipeline: Pipeline, *, replace_other: bool, memory_limit: int | None, executor: Executor | None = None
) -> Iterator[Stage]:
    """All stages, each after those that it needs.

    Args:
        replace_other: whether results that were made from something else may be replaced.
        memory_limit: bytes that the process may hold.
        executor: of the work over ranges of rows and parts; None for threads.
    """

    def report(what: str, location: str, root: str, needs: Stage) -> Iterator[Stage]:
        if pipeline.reports is not None:
            page = pipeline.reports / f"{what}.html"
            step = ReportStep(location=location, target=page, root=root, executor=executor)
            yield Stage(name=f"report {what}", step=step, replace=replace_other, needs=(needs.name,))

    def of_cell(cell: Cell, source: StoreStep, needs: Stage) -> Iterator[Stage]:
        what = f"{cell.dataset}/{cell.label}"
        partition = CellStep(
            source=source,
            topology=cell.topology,
            request=cell.request,
            widths=cell.widths,
            features=cell.features,
            target=home.cache_path(cell.dataset, cell.label).absolute(),
            memory_limit=memory_limit,
            executor=executor,
        )
        cache = Stage(
            name=f"partition {what}", step=partition, replace=replace_other, needs=(needs.name,), foresees=True
        )
        yield cache
        if pipeline.verify:
            step = VerifyStep(target=partition.target)
            yield Stage(name=f"verify {what}", step=step, replace=False, needs=(cache.name,))
        yield from report(what, str(partition.target), MANIFEST_SUM, cache)
        for name, folder in pipeline.exports.items():
            export = ExportStep(
                folder=partition.target, format=export_format(name), out=folder / cell.dataset / cell.label
            )
            yield ExportStage(name=f"export {what} as {name}", step=export, replace=replace_other, needs=(cache.name,))

    for name, dataset in pipeline.datasets.items():
        source = replace(dataset, memory_limit=memory_limit, executor=executor)
        is_made = not isinstance(source, OpenStep)
        store = Stage(
            name=f"{source.verb} {source.name}", step=source, replace=replace_other and is_made, foresees=True
        )
        yield store
        yield from report(name, str(source.target), ZARR_JSON, store)
        for cell in pipeline.cells:
            if cell.dataset == name:
                yield from of_cell(cell, source, store)
