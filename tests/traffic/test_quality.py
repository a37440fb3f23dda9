"""The whole judgement: consistent with its parts, plain JSON, and by the names that the format fixes."""

from __future__ import annotations

import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.core.types import HOMOGENEOUS_EDGE
from graphprep.errors import PartitionError
from graphprep.topology import Topology
from graphprep.traffic import EDGE_COST, NODE_COST, assess, count_traffic
from tests.topology.forms import LONG
from tests.traffic.slow import Case, cases, csr_of, slow_rows_and_edges, slow_seconds


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from(["rows", "edges"]), st.integers(1, 2048))
def test_quality_equals_a_slow_count_and_is_json(case: Case, balance: str, row_bytes: int) -> None:
    """Guards against totals that do not match their tables, numpy values, NaN and infinity."""
    topology = Topology.flat(case.num_parts)
    quality = assess(case.csrs, case.assignments, topology, row_bytes=row_bytes, balance=balance)  # type: ignore[arg-type]
    rows, edges = slow_rows_and_edges(case)
    cross = [[0 if p == q else count for q, count in enumerate(line)] for p, line in enumerate(edges)]
    seconds = list(slow_seconds(rows if balance == "rows" else cross, topology, row_bytes).values())
    assert quality.cut_edges == sum(chain(*cross))
    assert quality.halo_rows == sum(chain(*rows)) == sum(rank.halo_rows for rank in quality.ranks)
    assert quality.bottleneck_seconds == pytest.approx(max(seconds))
    assert quality.sum_seconds == pytest.approx(sum(seconds))
    assert [row.seconds for row in quality.links] == pytest.approx(seconds)
    assert sum(rank.nodes for rank in quality.ranks) == sum(map(len, case.assignments.values()))
    for p, rank in enumerate(quality.ranks):
        assert rank.edges == sum(line[p] for line in edges)
        assert rank.work == pytest.approx(EDGE_COST * rank.edges + NODE_COST * rank.nodes)
    assert all(limit.met == (limit.value <= limit.limit * (1 + 1e-12)) for limit in quality.limits)
    plain = quality.to_json()
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert json.dumps(again) == json.dumps(plain)


def test_names_that_other_tools_rely_on() -> None:
    """Guards against a renamed key in caches and in `inspect --json`."""
    csr = csr_of([(0, 1), (1, 2), (2, 0)], 3, 3)
    part_N = np.array([0, 1, 2], np.int32)
    mask_N = np.array([True, False, True])
    plain = assess(
        {HOMOGENEOUS_EDGE: csr}, {"node": part_N}, Topology.from_text(LONG), training_masks={"node": mask_N}
    ).to_json()
    assert list(plain) == [
        "bottleneck_seconds",
        "sum_seconds",
        "step_seconds",
        "cut_edges",
        "halo_rows",
        "links",
        "link_types",
        "ranks",
        "limits",
        "relay",
        "batches",
    ]
    assert plain["relay"] is None
    assert plain["links"][0] == {
        "name": "gpu0->gpu1",
        "type": "nvlink",
        "gbytes_per_s": 25.0,
        "rows": 1,
        "edges": 1,
        "bytes": 1024,
        "messages": 1,
        "seconds": pytest.approx(1024 / 25e9 + 2e-6),
    }
    assert [row["name"] for row in plain["links"][8:]] == ["pcie0->pcie1", "pcie1->pcie0"]
    assert list(plain["link_types"][0]) == ["type", "seconds_max", "seconds_mean", "imbalance", "rows", "edges"]
    assert plain["ranks"][2] == {
        "rank": 2,
        "name": "gpu2",
        "nodes": 1,
        "edges": 1,
        "training_nodes": 1,
        "halo_rows": 1,
        "work": 11.0,
        "work_share": 1.0,
        "memory_bytes": 16 + 1024 * (4 + 2),
        "sent_rows": 1,
        "node_seconds": pytest.approx(2 * 256 * 256 / 13e12),
        "packing_seconds": pytest.approx(2048 / 1e12),
        "local_seconds": 0.0,
        "unpacking_seconds": pytest.approx(2048 / 1e12),
        "halo_seconds": pytest.approx(1032 / 1e12),
    }
    assert [limit["what"] for limit in plain["limits"]] == ["nodes", "in-edges", "work", "training nodes", "memory"]
    assert plain["limits"][0] == {"what": "nodes", "limit": pytest.approx(2.05), "value": 1.0, "met": True}


def test_work_is_divided_by_speed() -> None:
    """Guards against a fast rank that is said to be the slowest."""
    csr = csr_of([(0, 1), (1, 2), (2, 0), (3, 0)], 4, 4)
    topology = Topology.from_text(LONG.replace("speed: 1.0", "speed: 2.0"))
    quality = assess({HOMOGENEOUS_EDGE: csr}, {"node": np.array([0, 1, 2, 0], np.int32)}, topology)
    assert [rank.work for rank in quality.ranks] == [(2 + 20) / 2, 11, 11]
    assert [rank.work_share for rank in quality.ranks] == [1.0, 1.0, 1.0]


def test_traffic_at_hand_is_used() -> None:
    """Guards against a graph of a billion edges that is counted twice."""
    csr = csr_of([(0, 1)], 2, 2)
    assignments = {"node": np.array([0, 1], np.int32)}
    topology = Topology.flat(2)
    traffic = count_traffic({HOMOGENEOUS_EDGE: csr}, assignments, 2)
    given_traffic = assess({HOMOGENEOUS_EDGE: csr}, assignments, topology, traffic=traffic)
    assert given_traffic == assess({HOMOGENEOUS_EDGE: csr}, assignments, topology)
    with pytest.raises(PartitionError, match="2 parts cannot be placed on a topology of 3 ranks"):
        assess({HOMOGENEOUS_EDGE: csr}, assignments, Topology.flat(3), traffic=traffic)


@pytest.mark.parametrize(
    "masks", [{"node": np.ones(3, np.bool_)}, {"node": np.ones((2, 1), np.bool_)}, {"x": np.ones(2)}]
)
def test_masks_that_do_not_fit_are_refused(masks: dict[str, np.ndarray]) -> None:
    """Guards against training nodes counted for other nodes."""
    with pytest.raises(PartitionError, match="training mask"):
        assess(
            {HOMOGENEOUS_EDGE: csr_of([], 2, 2)},
            {"node": np.array([0, 1], np.int32)},
            Topology.flat(2),
            training_masks=masks,
        )
