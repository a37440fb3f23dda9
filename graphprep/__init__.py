"""Graphs too big for one GPU, prepared for the machine they will be trained on.

    import graphprep as gp

    store = gp.fetch("digits")
    cache = gp.partition(store, topology="2x2")
    run = gp.train(cache, model="sage")

Everything is imported when it is first used, so that `import graphprep` takes no time.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graphprep.version import __version__

__all__ = [
    "BatchLoader",
    "EventCache",
    "EventStore",
    "GraphStore",
    "PartitionCache",
    "Topology",
    "TrainingRun",
    "__version__",
    "compare",
    "export",
    "fetch",
    "from_arrays",
    "from_dgl",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "import_events",
    "import_graph",
    "import_tables",
    "infer",
    "link_loader",
    "loader",
    "open_cache",
    "open_event_cache",
    "open_events",
    "open_run",
    "open_store",
    "partition",
    "partition_events",
    "plan",
    "plan_best",
    "plan_events",
    "quiet",
    "report",
    "to_float32",
    "train",
]

if TYPE_CHECKING:
    from graphprep.api import (
        BatchLoader,
        EventCache,
        EventStore,
        GraphStore,
        PartitionCache,
        Topology,
        TrainingRun,
        compare,
        export,
        fetch,
        from_arrays,
        from_dgl,
        from_networkx,
        from_pyg,
        from_scipy,
        import_events,
        import_graph,
        import_tables,
        infer,
        link_loader,
        loader,
        open_cache,
        open_event_cache,
        open_events,
        open_run,
        open_store,
        partition,
        partition_events,
        plan,
        plan_best,
        plan_events,
        quiet,
        report,
        to_float32,
        train,
    )


class _Package(ModuleType):
    """`graphprep.partition`, `plan` and `report` are functions, though there are folders of these names.

    As it imports such a folder, Python makes it an attribute of this module; that is not done here, so that
    `__getattr__` gives the function. What lies in the folder are the function's attributes.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'graphprep' has no attribute {name!r}")
    from graphprep import api

    member = getattr(api, name)
    folder = sys.modules.get(f"{__name__}.{name}")
    if folder is not None and member.__dict__ is not folder.__dict__:
        folder.__dict__.update(member.__dict__)
        member.__dict__ = folder.__dict__
    return member


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
