"""A store and a user's files of new nodes and edges become a new store; the old one stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from graphprep.core.types import RawGraph
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.errors import UsageError
from graphprep.store.extension import EXTENDS, extended, origin_of
from graphprep.store.store import GraphStore, open_store
from graphprep.system import home, progress
from pipelines.ingest import ImportStep, say_read_as
from pipelines.store_step import StoreOptions, StoreOutcome


@dataclass(frozen=True, kw_only=True)
class ExtendStep(ImportStep):
    """A user's own files are added to a store that is there."""

    base: GraphStore

    def _determinants(self, inputs: Sequence[Mapping[str, object]]) -> dict[str, Any]:
        return {**super()._determinants(inputs), EXTENDS: self.base.key}

    @property
    def source(self) -> dict[str, Any]:
        return {**super().source, EXTENDS: origin_of(self.base)}

    def read(self) -> RawGraph:
        return extended(self.base, self.request, memory_limit=self.memory_limit, executor=self.executor)

    def _announce(self) -> None:
        nodes, edges = sum(self.base.num_nodes.values()), sum(self.base.num_edges.values())
        progress.say(f"{self.name} has the {nodes:,} nodes and {edges:,} edges of {self.base.name}, and new ones:")
        super()._announce()

    @property
    def _num_edges(self) -> float:
        return super()._num_edges + sum(self.base.num_edges.values())

    @property
    def _node_bytes(self) -> int:
        arrays = [
            self.base.node_array(node_type, name)
            for node_type in self.base.num_nodes
            for name in self.base.node_arrays(node_type)
        ]
        return super()._node_bytes + sum(array.nbytes for array in arrays if array is not None)


def extend_store(
    base: str | Path | GraphStore,
    request: ImportRequest,
    *,
    name: str,
    replace: bool = False,
    **options: Unpack[StoreOptions],
) -> StoreOutcome:
    """Write a store that has the nodes and edges of another, and new ones.

    Args:
        base: what there is: a dataset's name, a store, its path or URL.
        request, name, replace, options: as for `import_files`; see `graphprep.store.extension`.

    Raises:
        DatasetError: there is no such store, a file is not what it should be or does not fit the store, or another
            store lies at the target.
        UsageError: the target is the store itself, or options do not go together.
    """
    home.checked_name(name, "--name")
    store = open_store(base)
    step = ExtendStep(name=name, request=request, base=store, **options)
    own = store.location if home.is_url(store.location) else Path(store.location).resolve()
    if own == (step.target.resolve() if isinstance(step.target, Path) else step.target):
        raise UsageError(f"--extend {store.location} would be replaced by the result; give another --name or --out")
    outcome = step.outcome(replace=replace)
    if outcome.reused:
        say_read_as(outcome.store.attributes.get("notes", {}))
    return outcome
