"""A graph that is in memory already becomes a finished store."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

from graphprep.datasets.importing.options import ImportOptions
from graphprep.interop.in_memory import ArrayGraph
from graphprep.store.store import GraphStore
from graphprep.system import home, progress
from pipelines.ingest import say_read_as
from pipelines.store_step import StoreOptions, StoreOutcome, StoreStep

OPTIONS = ("undirected", "duplicates", "self_loops", "task", "splits", "seed")
"""Those of an import that mean something where there are no files."""


@dataclass(frozen=True, kw_only=True)
class MemoryStep(StoreStep):
    """Arrays are converted."""

    verb = "import"

    graph: ArrayGraph
    options: ImportOptions
    """of which those in OPTIONS are looked at"""

    @cached_property
    def determinants(self) -> dict[str, Any]:
        """Reads all arrays, once."""
        return {"name": self.name, "options": self._options, "arrays": self.graph.digest()}

    @property
    def _options(self) -> dict[str, Any]:
        return {name: getattr(self.options, name) for name in OPTIONS}

    def run(self, earlier: GraphStore | None) -> GraphStore:  # noqa: ARG002
        raw = self.graph.to_raw(self.options, memory_limit=self.memory_limit)
        for line in self.graph.remarks:
            progress.say(f"  {line}")
        say_read_as(raw.notes)
        return self.write(raw, {"reader": "memory", "options": self._options})


def import_arrays(
    graph: ArrayGraph, options: ImportOptions, *, name: str, replace: bool = False, **others: Unpack[StoreOptions]
) -> StoreOutcome:
    """Convert a graph in memory to a store, or find that it is there.

    Args:
        graph, options, others: as for `MemoryStep`.
        name: what to call the dataset.
        replace: convert again even if the store is there, also where it was made from something else.

    Raises:
        DatasetError: an array is not what it should be, or another store lies at the target.
    """
    home.checked_name(name, "--name")
    outcome = MemoryStep(name=name, graph=graph, options=options, **others).outcome(replace=replace)
    if outcome.reused:
        say_read_as(outcome.store.attributes.get("notes", {}))
    return outcome
