"""An assignment kept beside an unfinished cache, so that a run that was killed does not partition again."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphprep.core.fallback import Fallback
from graphprep.partition.engine import Engine, Parts
from graphprep.partition.result import PartitionResult
from graphprep.system import progress
from graphprep.system.files.atomic import published_file

ASSIGNMENT_FILE = "assignment.npz"


def partition_once(engine: Engine, work: Path, num_parts: int) -> Parts:
    """The assignment that an earlier run kept in `work`, else one that is made now and kept."""
    saved = work / ASSIGNMENT_FILE
    if saved.exists():
        parts = _load(saved, engine, num_parts)
        if parts is not None:
            progress.say("going on with the assignment that an earlier run had finished")
            return parts
        progress.warn(f"{saved} is damaged; the graph is partitioned again")
        saved.unlink(missing_ok=True)
    result, nodes_P = engine.partition(work)
    if result.fallback is None or result.fallback.memory_bytes is not None:  # else a run that goes on tries again
        _save(saved, result, np.concatenate(nodes_P))
    return result, nodes_P


def _save(saved: Path, result: PartitionResult, nodes_N: np.typing.NDArray[np.int64]) -> None:
    fallback = None if result.fallback is None else result.fallback.to_json()
    facts = json.dumps({"method": result.method, "tried": result.tried, "fallback": fallback})
    with published_file(saved) as file:
        np.savez(file, assignment=result.assignment, nodes=nodes_N, facts=np.array(facts))


def _load(saved: Path, engine: Engine, num_parts: int) -> Parts | None:
    """What an earlier run kept, None if it is damaged."""
    num_nodes = engine.graph.matrix.num_rows
    try:
        with np.load(saved, allow_pickle=False) as arrays:
            assignment_N, nodes_N = arrays["assignment"], arrays["nodes"]
            facts = json.loads(str(arrays["facts"]))
        method, tried, fallback = facts["method"], tuple(facts["tried"]), Fallback.from_json(facts.get("fallback"))
        is_whole = assignment_N.shape == (num_nodes,) and assignment_N.dtype == np.int32
        is_whole = is_whole and nodes_N.dtype == np.int64 and np.array_equal(np.sort(nodes_N), np.arange(num_nodes))
        in_range = is_whole and assignment_N.min(initial=0) >= 0 and assignment_N.max(initial=0) < num_parts
        if not in_range or (np.diff(assignment_N[nodes_N]) < 0).any():
            return None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None
    ends = np.cumsum(np.bincount(assignment_N, minlength=num_parts))
    result = replace(engine.evaluate(assignment_N), method=method, tried=tried, fallback=fallback)
    return result, np.split(nodes_N, ends[:-1])
