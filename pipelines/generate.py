"""A generator's parameters become a finished store."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from graphprep.errors import UsageError
from graphprep.store.location import store_place, work_beside
from graphprep.system import home, progress
from graphprep.system.atomic import locked
from graphprep.system.executor import Executor
from pipelines.estimate import Expectation, GraphSize
from pipelines.ingest import StoreOutcome, graph_to_store, scratch_of, store_key, up_to_date

if TYPE_CHECKING:
    from graphprep.datasets.generators.requests import GridRequest, RmatRequest, SbmRequest

    Request = SbmRequest | RmatRequest | GridRequest


BYTES_SPILLED, BYTES_STORED = 16, 4
"""Of an edge, in each direction."""


def generate_graph(
    request: Request,
    *,
    name: str,
    out: Path | str | None,
    replace: bool,
    memory_limit: int | None,
    executor: Executor | None = None,
) -> StoreOutcome:
    """Generate a graph and convert it to a store.

    Args:
        request: the generator's parameters; their type says which generator.
        name: what to call the dataset.
        out: path or URL of the store itself; by default HOME/stores/NAME.zarr.
        replace: generate again even if the store is there, also where it was made from something else.
        memory_limit: bytes that the process may use; None for half of what is free.
        executor: of the edges that do not fit in memory, which are sorted and written by ranges; None for threads.

    Raises:
        DatasetError: another store lies at the target.
    """
    import importlib

    kind = _kind(request)
    generator = importlib.import_module(f"graphprep.datasets.generators.{kind}")
    home.checked_name(name, "--name")
    target = store_place(out, name)
    work = work_beside(target, name)
    key = generated_key(request, name)
    with locked(work, f"the dataset {name}"):
        found = up_to_date(target, key, name=name, replace=replace)
        if found is not None:
            return StoreOutcome(store=found, reused=True)
        announce(request, work)
        _, scratch = scratch_of(work)
        raw = generator.generate(request, folder=scratch)
        source = {"reader": f"generator {kind}", "options": asdict(request), "files": []}
        store = graph_to_store(
            raw,
            target,
            name=name,
            key=key,
            source=source,
            expected=None,
            memory_limit=memory_limit,
            executor=executor,
        )
        if scratch.exists():
            shutil.rmtree(scratch)
    return StoreOutcome(store=store, reused=False)


def generated_key(request: Request, name: str) -> str:
    """The key of the store that a generator makes."""
    return store_key({"name": name, "generator": _kind(request), **asdict(request)})


def _kind(request: Request) -> str:
    """The generator's name."""
    return type(request).__name__.removesuffix("Request").lower()


def generated_size(request: Request) -> GraphSize:
    """What comes out, but for repetitions among the edges that are drawn."""
    nodes, edges = request.size
    features = nodes * request.features * (2 if request.dtype == "float16" else 4)
    return GraphSize(nodes=nodes, edges=2 * edges, directed=False, node_bytes=features + nodes * 11)


def expected_of_generator(request: Request) -> Expectation:
    """Estimate a run; the memory is that beside the edges that fit."""
    nodes, edges = request.size
    features = generated_size(request).node_bytes - nodes * 11
    # Features pass through a file of their own, and edges through ranges on disk where memory is short.
    disk = 2 * features + nodes * 20 + edges * 2 * (BYTES_SPILLED + BYTES_STORED)
    return Expectation(memory_bytes=nodes * 40, disk_bytes=disk, seconds=2 + edges / 2e6)


def announce(request: Request, target: Path) -> None:
    """Say what the run will need before it starts.

    Raises:
        UsageError: the disk has not that much room.
    """
    nodes, edges = request.size
    needs = expected_of_generator(request)
    disk = needs.disk_bytes
    progress.say(
        f"generating {nodes:,} nodes and {edges:,} edges: expect up to {progress.format_bytes(disk)} of disk, "
        f"{progress.format_bytes(needs.memory_bytes)} of memory beside the edges that fit, and {needs.seconds:.0f} s"
    )
    folder = next(parent for parent in target.parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if disk > free:
        raise UsageError(
            f"a graph of this size may take {progress.format_bytes(disk)} of disk and {folder} has "
            f"{progress.format_bytes(free)} free; ask for a smaller one or set GRAPHPREP_HOME to a larger disk"
        )
