"""A generator's parameters become a finished store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphprep import home
from graphprep.publish import locked
from pipelines.ingest import StoreOutcome, graph_to_store, store_key, up_to_date

if TYPE_CHECKING:
    from graphprep.generators.grid import GridRequest
    from graphprep.generators.rmat import RmatRequest
    from graphprep.generators.sbm import SbmRequest

    Request = SbmRequest | RmatRequest | GridRequest


def generate_graph(
    request: Request, *, name: str, out: Path | None, replace: bool, memory_limit: int | None
) -> StoreOutcome:
    """Generate a graph and convert it to a store.

    Args:
        request: the generator's parameters; their type says which generator.
        name: what to call the dataset.
        out: the store itself; by default HOME/stores/NAME.zarr.
        replace: replace a store that was made from something else.
        memory_limit: bytes that the process may use; None for half of what is free.

    Raises:
        DatasetError: another store lies at the target.
    """
    import importlib

    kind = type(request).__name__.removesuffix("Request").lower()
    generator = importlib.import_module(f"graphprep.generators.{kind}")
    target = (out or home.store_path(home.checked_name(name, "--name"))).absolute()
    key = store_key({"name": name, "generator": kind, **asdict(request)})
    with locked(target, f"the dataset {name}"):
        found = up_to_date(target, key, replace=replace)
        if found is not None:
            return StoreOutcome(store=found, reused=True)
        raw = generator.generate(request, folder=home.raw_folder(name))
        source = {"reader": f"generator {kind}", "options": asdict(request), "files": []}
        store = graph_to_store(raw, target, name=name, key=key, source=source, expected=None, memory_limit=memory_limit)
        for table in raw.nodes.values():
            # The features have been copied into the store; their file is scratch.
            if isinstance(table.x, np.memmap):
                Path(str(table.x.filename)).unlink()
    return StoreOutcome(store=store, reused=False)
