"""What a cache's key covers: all that changes its content, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.errors import CacheError
from graphprep.partition.request import PartitionRequest
from graphprep.system import memory
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, run_partition
from tests.graphs import labelled_graph
from tests.stores import make_store


def planned(target: Path, limit: int | None) -> PartitionPlan:
    """For two parts, of a graph that takes more memory the more edges it has."""
    store = make_store(labelled_graph(np.random.default_rng(1), num_nodes=400, num_edges=4000))
    request = PartitionRequest(method="multilevel", effort="fast")
    return PartitionPlan(store=store, topology=Topology.flat(2), request=request, target=target, memory_limit=limit)


def test_memory_is_in_the_key_where_it_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a cache of few levels that passes for one of many, and against keys that change for nothing."""
    plenty = planned(tmp_path / "c", 8 * 10**9)
    assert not plenty.is_out_of_core
    in_memory = plenty.key
    assert in_memory == planned(tmp_path / "c", 4 * 10**9).key == planned(tmp_path / "c", None).key
    monkeypatch.setattr(memory, "full_budget", lambda limit: 1000)
    one, other = planned(tmp_path / "c", 2 * 10**9), planned(tmp_path / "c", 3 * 10**9)
    assert one.is_out_of_core
    assert len({one.key, other.key, in_memory}) == 3
    assert planned(tmp_path / "c", None).key == in_memory


def test_the_error_names_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a refusal that does not say which option differs."""
    run_partition(planned(tmp_path / "c", 8 * 10**9))
    plan = planned(tmp_path / "c", 2 * 10**9)
    monkeypatch.setattr(PartitionPlan, "is_out_of_core", property(lambda _: True))
    with pytest.raises(CacheError, match="memory None there, 2000000000 now"):
        run_partition(plan)
