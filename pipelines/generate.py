"""A generator's parameters become a finished store."""

from __future__ import annotations

import importlib
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Unpack

from graphprep.errors import UsageError
from graphprep.store.convert import scratch_of
from graphprep.store.store import GraphStore
from graphprep.system import home, progress
from pipelines.estimate import Estimate, GraphSize
from pipelines.store_step import StoreOptions, StoreOutcome, StoreStep

if TYPE_CHECKING:
    from graphprep.datasets.generators.requests import GridRequest, RmatRequest, SbmRequest

    Request = SbmRequest | RmatRequest | GridRequest


BYTES_SPILLED, BYTES_STORED = 16, 4
"""Of an edge, in each direction."""


@dataclass(frozen=True, kw_only=True)
class GenerateStep(StoreStep):
    """A seeded graph is generated."""

    verb = "generate"

    request: Request
    """the generator's parameters; their type says which generator"""

    @property
    def determinants(self) -> dict[str, Any]:
        return {"name": self.name, "generator": self._generator, **asdict(self.request)}

    @property
    def _generator(self) -> str:
        return type(self.request).__name__.removesuffix("Request").lower()

    @property
    def size(self) -> GraphSize:
        """What comes out, but for repetitions among the generated edges."""
        nodes, edges = self.request.size
        return GraphSize(nodes=nodes, edges=2 * edges, directed=False, node_bytes=self._feature_bytes + nodes * 11)

    @property
    def _feature_bytes(self) -> int:
        nodes, _ = self.request.size
        return nodes * self.request.features * (2 if self.request.dtype == "float16" else 4)

    @property
    def estimate(self) -> Estimate:
        """The memory is that beside the edges that fit."""
        nodes, edges = self.request.size
        # Features pass through a file of their own, and edges through ranges on disk where memory is short.
        disk = 2 * self._feature_bytes + nodes * 20 + edges * 2 * (BYTES_SPILLED + BYTES_STORED)
        return Estimate(memory_bytes=nodes * 40, disk_bytes=disk, seconds=2 + edges / 2e6)

    def run(self, earlier: GraphStore | None) -> GraphStore:  # noqa: ARG002
        self._announce()
        generator = importlib.import_module(f"graphprep.datasets.generators.{self._generator}")
        _, scratch = scratch_of(self.work)
        raw = generator.generate(self.request, folder=scratch)
        source = {"reader": f"generator {self._generator}", "options": asdict(self.request), "files": []}
        store = self.write(raw, source)
        if scratch.exists():
            shutil.rmtree(scratch)
        return store

    def _announce(self) -> None:
        """Say what the run will need before it starts.

        Raises:
            UsageError: the disk has not that much room.
        """
        nodes, edges = self.request.size
        needs = self.estimate
        disk, memory = progress.format_bytes(needs.disk_bytes), progress.format_bytes(needs.memory_bytes)
        progress.say(
            f"generating {nodes:,} nodes and {edges:,} edges: expect up to {disk} of disk, "
            f"{memory} of memory beside the edges that fit, and {needs.seconds:.0f} s"
        )
        folder = next(parent for parent in self.work.parents if parent.exists())
        free = shutil.disk_usage(folder).free
        if needs.disk_bytes > free:
            raise UsageError(
                f"a graph of this size may take {disk} of disk and {folder} has {progress.format_bytes(free)} free; "
                "ask for a smaller one or set GRAPHPREP_HOME to a larger disk"
            )


def generate_graph(
    request: Request, *, name: str, replace: bool = False, **options: Unpack[StoreOptions]
) -> StoreOutcome:
    """Generate a graph and convert it to a store.

    Args:
        request, options: as for `GenerateStep`.
        name: what to call the dataset.
        replace: generate again even if the store is there, also where it was made from something else.

    Raises:
        DatasetError: another store lies at the target.
    """
    home.checked_name(name, "--name")
    return GenerateStep(name=name, request=request, **options).outcome(replace=replace)
