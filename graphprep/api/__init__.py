"""The front door for Python: what `import graphprep as gp` offers, the same functions that the command line calls.

Every function takes what a notebook has: a store, cache or topology that is open, its name, or its path. Errors are
those of `graphprep.errors`, one sentence each.
"""

from __future__ import annotations

from graphprep.api.batches import link_loader, loader
from graphprep.api.caches import compare, export, infer, partition, plan, plan_best, report, train
from graphprep.api.events import import_events, open_event_cache, open_events, partition_events, plan_events
from graphprep.api.graphs import fetch, from_arrays, from_dgl, from_networkx, from_pyg, from_scipy, import_graph
from graphprep.api.tables import import_tables
from graphprep.cache.read import PartitionCache, open_cache
from graphprep.core.bfloat16 import to_float32
from graphprep.interop.batch_loader import BatchLoader
from graphprep.interop.training_run import TrainingRun
from graphprep.store.store import GraphStore, open_store
from graphprep.system.progress import configure
from graphprep.temporal.cache import EventCache
from graphprep.temporal.store import EventStore
from graphprep.topology import Topology

__all__ = [
    "BatchLoader",
    "EventCache",
    "EventStore",
    "GraphStore",
    "PartitionCache",
    "Topology",
    "TrainingRun",
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

open_run = TrainingRun


def quiet(silent: bool = True) -> None:
    """Print no progress from now on, or print it again; warnings are printed all the same."""
    configure(quiet=silent)
