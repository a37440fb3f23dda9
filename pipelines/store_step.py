"""A dataset becomes a store: what fetch, import and generate have in common.

A store carries the key of all that determines its content (files by checksum, reader options, treatment, split), so a
second run finds it and does nothing, and a store of the same name from something else is never taken for it.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from graphprep.core.types import RawGraph
from graphprep.errors import DatasetError
from graphprep.store.convert import ANYWAY, graph_to_store, scratch_of
from graphprep.store.location import existing_kind, store_place, work_beside
from graphprep.store.store import STORE_FORMAT, GraphStore
from graphprep.system import home
from graphprep.system.executor import Executor
from graphprep.system.files.atomic import sweep
from graphprep.system.files.output_path import kind_of
from graphprep.version import __version__
from pipelines.estimate import Estimate, GraphSize
from pipelines.step import ABSENT, Existing, State, key_of, run_step

if TYPE_CHECKING:
    from graphprep.datasets.entry import Expected

EDGES_PER_SECOND = 8e6
"""Edges that are read, sorted and written in a second; for the time that is announced, nothing else."""
OTHER_INPUT = "it was made from other files or options, and is replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutcome:
    """The store, and whether it was there already."""

    store: GraphStore
    reused: bool


class StoreOptions(TypedDict, total=False):
    """The fields of `StoreStep` that every way to a store takes."""

    out: Path | str | None
    memory_limit: int | None
    anyway: bool
    executor: Executor | None


@dataclass(frozen=True, kw_only=True)
class StoreStep(ABC):
    """A dataset becomes a store: what all ways to a store have in common."""

    verb: ClassVar[str]
    """what is done, for people"""
    remakes_damaged: ClassVar[bool] = False
    """whether a damaged store is made again without --replace, at HOME/stores/NAME.zarr also one without attributes"""

    name: str
    out: Path | str | None = None
    """path or URL of the store; None for HOME/stores/NAME.zarr"""
    memory_limit: int | None = None
    """bytes that the process may use; None for half of what is free"""
    anyway: bool = False
    """only warn about counts and values that are not what they should be"""
    executor: Executor | None = None
    """of the edges that do not fit in memory, which are sorted and written by ranges; None for threads"""

    @cached_property
    def target(self) -> Path | str:
        return store_place(self.out, self.name)

    @property
    def work(self) -> Path:
        """The local path beside which the work lies."""
        return work_beside(self.target, self.name)

    @property
    def locks(self) -> Sequence[tuple[Path, str]]:
        return ((self.work, f"the dataset {self.name}"),)

    @property
    @abstractmethod
    def determinants(self) -> dict[str, Any]:
        """All that determines the content of the store, beside the versions of this program and its format."""

    @cached_property
    def key(self) -> str:
        """The key that the store will have."""
        return key_of_store(self.determinants)

    @property
    def size(self) -> GraphSize | None:
        """What the store will have; None where that is known only afterwards."""
        return None

    @property
    def estimate(self) -> Estimate | None:
        return None

    def find(self) -> Existing[GraphStore]:
        kind = existing_kind(self.target)
        if kind == "nothing":
            if any(folder.exists() for folder in scratch_of(self.work)):
                return Existing(State.PARTIAL, reason="an earlier run was cut short")
            return Existing(State.MISSING, reason=ABSENT)
        is_own = self.remakes_damaged and self.target == home.store_path(self.name).absolute()
        if isinstance(self.target, Path) and kind_of(self.target) == "event-store":
            refusal = f"{self.target} is an event store; it is left as it is: remove it, or give another --out"
            return Existing(State.FOREIGN, refusal=DatasetError(refusal))
        if kind == "other" and not is_own:
            refusal = f"{self.target} is no graph store; it is left as it is: remove it, or give another --out"
            return Existing(State.FOREIGN, refusal=DatasetError(refusal))
        try:
            return Existing(State.OTHER, result=GraphStore(self.target))
        except DatasetError as error:
            if self.remakes_damaged:
                warnings = (f"{error}; it is made again",)
                return Existing(State.OUTDATED, reason=str(error), warnings=warnings)
            return Existing(State.OTHER, reason=OTHER_INPUT, refusal=error)

    def compare(self, result: GraphStore) -> Existing[GraphStore]:
        if result.key == self.key:
            in_spite_of = result.attributes.get("notes", {}).get(ANYWAY, ())
            warnings = tuple(f"it was converted with --anyway in spite of this: {sentence}" for sentence in in_spite_of)
            return Existing(State.SAME, result=result, warnings=warnings)
        return Existing(State.OTHER, reason=OTHER_INPUT, refusal=DatasetError(self.refusal))

    @property
    def refusal(self) -> str:
        """What is said of a store that was made from something else."""
        return f"{self.target} was made from other files or options; give --replace to replace it or another --name"

    def sweep(self) -> None:
        for folder in scratch_of(self.work):
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(self.target, Path):
            sweep(self.target)

    def outcome(self, *, replace: bool) -> StoreOutcome:
        """Run the step."""
        store, reused = run_step(self, replace=replace)
        return StoreOutcome(store=store, reused=reused)

    @abstractmethod
    def run(self, earlier: GraphStore | None) -> GraphStore:
        """Make the store."""

    def write(
        self, raw: RawGraph, source: Mapping[str, Any], *, key: str | None = None, expected: Expected | None = None
    ) -> GraphStore:
        """Convert what was read; arguments as for `graph_to_store`. The key is that of the determinants by default."""
        if "classes" in raw.notes:  # a cache keeps the source of its store, and so the names for tables of predictions
            source = {**source, "classes": raw.notes["classes"]}
        return graph_to_store(
            raw,
            self.target,
            name=self.name,
            key=self.key if key is None else key,
            source=source,
            expected=expected,
            memory_limit=self.memory_limit,
            anyway=self.anyway,
            executor=self.executor,
        )


@dataclass(frozen=True, kw_only=True)
class OpenStep(StoreStep):
    """A store that is there is opened, and never replaced."""

    verb = "open"
    out: Path | str

    @property
    def target(self) -> Path | str:
        return self.out

    @cached_property
    def key(self) -> str:
        return GraphStore(self.target).key

    @property
    def determinants(self) -> dict[str, Any]:
        return {"key": self.key}

    def find(self) -> Existing[GraphStore]:
        return Existing(State.SAME, result=GraphStore(self.target))

    def run(self, earlier: GraphStore | None) -> GraphStore:  # noqa: ARG002
        return GraphStore(self.target)


def key_of_store(determinants: Mapping[str, Any]) -> str:
    """The key of a store, over all that determines its content."""
    return key_of({"store format": STORE_FORMAT, "graphprep version": __version__, **determinants})
