"""The ways in which a pipeline comes by a graph store, behind one interface: known before they are gone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphprep.errors import DatasetError
from graphprep.store.location import existing_kind, store_place, work_beside
from graphprep.store.store import GraphStore
from graphprep.system.executor import Executor
from pipelines.estimate import Expectation, GraphSize
from pipelines.generate import expected_of_generator, generate_graph, generated_key, generated_size
from pipelines.ingest import (
    expected_of_conversion,
    expected_of_import,
    fetch_dataset,
    fetched_key,
    fetched_size,
    import_files,
    imported_key,
    scratch_of,
)

if TYPE_CHECKING:
    from graphprep.datasets.entry import DatasetEntry
    from graphprep.datasets.importing.import_request import ImportRequest
    from pipelines.generate import Request


class Dataset(Protocol):
    """Where a store comes from."""

    @property
    def name(self) -> str: ...

    @property
    def verb(self) -> str:
        """What is done to make it."""

    @property
    def is_made(self) -> bool:
        """Whether it is made here; False for a store that is only opened."""

    @property
    def location(self) -> str:
        """Path or URL of the store."""

    @property
    def key(self) -> str:
        """The key that the store will have, or has."""

    @property
    def size(self) -> GraphSize | None:
        """What it will have, None where that is known only afterwards."""

    @property
    def expected(self) -> Expectation | None:
        """What making it takes."""

    def reason(self, *, replace: bool) -> str | None:
        """Why it has to be made, None if it is there as wanted.

        Raises:
            DatasetError: something else lies there, and `replace` does not say that it may go.
        """

    def make(self, *, replace: bool, memory_limit: int | None, executor: Executor | None) -> None:
        """Make it."""


def _standing(target: Path | str, key: str, name: str, *, replace: bool) -> str | None:
    """`Dataset.reason` of a store that only the user may replace."""
    standing = existing_kind(target)
    if standing == "nothing":
        begun = any(folder.exists() for folder in scratch_of(work_beside(target, name)))
        return "an earlier run was cut short" if begun else "it is not there"
    if standing == "other":
        raise DatasetError(f"{target} is no graph store; it is left as it is: remove it")
    try:
        if GraphStore(target).key == key:
            return None
    except DatasetError:
        if not replace:
            raise
    if not replace:
        raise DatasetError(f"{target} was made from other files or options; give --replace to replace it")
    return "it was made from other files or options, and is replaced"


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A dataset of the registry."""

    entry: DatasetEntry
    mirror: str | None
    anyway: bool
    out: str | None = None
    verb = "fetch"
    is_made = True

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def location(self) -> str:
        return str(store_place(self.out, self.name))

    @cached_property
    def key(self) -> str:
        return fetched_key(self.entry)

    @property
    def size(self) -> GraphSize | None:
        return fetched_size(self.entry)

    @property
    def expected(self) -> Expectation:
        return expected_of_conversion(self.entry)

    def reason(self, *, replace: bool) -> str | None:
        target = store_place(self.out, self.name)
        try:
            found = GraphStore(target) if existing_kind(target) == "store" else None
        except DatasetError as error:
            return f"{error}"
        if found is None or found.attributes["source"].get("reader") != self.entry.source:
            return _standing(target, self.key, self.name, replace=replace)
        return None if found.key == self.key else "it was made from an older description of the dataset"

    def make(self, *, replace: bool, memory_limit: int | None, executor: Executor | None) -> None:
        fetch_dataset(
            self.name,
            mirror=self.mirror,
            out=self.out,
            replace=replace,
            memory_limit=memory_limit,
            anyway=self.anyway,
            executor=executor,
        )


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A user's own files."""

    name: str
    request: ImportRequest
    anyway: bool
    out: str | None = None
    verb = "import"
    is_made = True

    @property
    def location(self) -> str:
        return str(store_place(self.out, self.name))

    @cached_property
    def key(self) -> str:
        """Reads the files, once."""
        from graphprep.datasets.importing.input_digests import InputDigests

        with InputDigests(self.request.files()) as digests:
            return imported_key(self.request, self.name, digests.result())

    @property
    def size(self) -> GraphSize | None:
        return None

    @property
    def expected(self) -> Expectation:
        return expected_of_import(self.request)

    def reason(self, *, replace: bool) -> str | None:
        return _standing(store_place(self.out, self.name), self.key, self.name, replace=replace)

    def make(self, *, replace: bool, memory_limit: int | None, executor: Executor | None) -> None:
        import_files(
            self.request,
            name=self.name,
            out=self.out,
            replace=replace,
            memory_limit=memory_limit,
            anyway=self.anyway,
            executor=executor,
        )


@dataclass(frozen=True, kw_only=True)
class Generated:
    """A seeded graph."""

    name: str
    request: Request
    out: str | None = None
    verb = "generate"
    is_made = True

    @property
    def location(self) -> str:
        return str(store_place(self.out, self.name))

    @property
    def key(self) -> str:
        return generated_key(self.request, self.name)

    @property
    def size(self) -> GraphSize:
        return generated_size(self.request)

    @property
    def expected(self) -> Expectation:
        return expected_of_generator(self.request)

    def reason(self, *, replace: bool) -> str | None:
        return _standing(store_place(self.out, self.name), self.key, self.name, replace=replace)

    def make(self, *, replace: bool, memory_limit: int | None, executor: Executor | None) -> None:
        generate_graph(
            self.request,
            name=self.name,
            out=self.out,
            replace=replace,
            memory_limit=memory_limit,
            executor=executor,
        )


@dataclass(frozen=True, kw_only=True)
class Existing:
    """A store that is there."""

    name: str
    location: str
    verb = "open"
    is_made = False

    @cached_property
    def key(self) -> str:
        return GraphStore(self.location).key

    @property
    def size(self) -> None:
        return None

    @property
    def expected(self) -> None:
        return None

    def reason(self, *, replace: bool) -> str | None:  # noqa: ARG002 - a store that is there is never replaced
        _ = self.key
        return None

    def make(self, *, replace: bool, memory_limit: int | None, executor: Executor | None) -> None:
        """Nothing; it is there."""
