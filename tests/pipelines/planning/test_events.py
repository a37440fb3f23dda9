"""The plan of an event cache: sums of its parts, what crosses borders, and one sentence for what is not for it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.errors import UsageError
from graphprep.report.event_plan_tables import print_event_plan
from graphprep.temporal.cache import EventCache
from graphprep.temporal.write_cache import cache_of_arrays
from graphprep.topology import Topology
from graphprep.traffic import LinkModel
from pipelines.planning.events import plan_events

NODES, EVENTS = 30, 400


def make(folder: Path, *, window: float | None = None, parts: int = 2) -> Path:
    """A random stream, two events at a time."""
    rng = np.random.default_rng(0)
    source, destination = rng.integers(0, NODES, (2, EVENTS))
    return cache_of_arrays(
        folder, source, destination, np.arange(EVENTS) // 2, num_parts=parts, window_seconds=window, num_nodes=NODES + 1
    )


@pytest.mark.slow
def test_a_plan_of_a_stream_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    """Guards against seconds, bytes or memory that are counted twice, or left out."""
    options = {"parallel": "2,1,1", "batch_size": 20, "hidden": 8}
    plan = plan_events(make(tmp_path / "cache"), options)
    assert json.loads(json.dumps(plan, allow_nan=False)) == plan
    assert (plan["kind"], plan["parallel"], plan["batches"], plan["epochs_a_round"]) == ("events", [2, 1, 1], 14, 1)
    assert sum(plan["stages"].values()) == pytest.approx(plan["round_seconds"])
    assert plan["compute_seconds"] + plan["communication_seconds"] == pytest.approx(plan["epoch_seconds"])
    assert sum(row["bytes"] for row in plan["messages"]) == plan["row_bytes"] > 0
    [network] = plan["link_types"]
    assert network["bytes"] == sum(network["bytes_by_message"].values()) == pytest.approx(plan["row_bytes"])
    for row in plan["ranks"]:
        mapped = row["memory_by_purpose"]["events, mapped"]
        assert row["memory_bytes"] + mapped == sum(row["memory_by_purpose"].values())
    assert plan["weight_bytes"] == 2 * 4 * (plan["parameters"] + 1) * 14
    assert 0 < plan["crossing_share"] < 1
    printed = io.StringIO()
    print_event_plan(plan, printed)
    assert "--parallel 2,1,1 as requested" in printed.getvalue()
    assert "memory rows on links" in printed.getvalue()


def test_a_plan_of_snapshots_has_the_rows_at_borders(tmp_path: Path) -> None:
    """Guards against rows of nodes that have no state yet, and borders that no group has."""
    folder = make(tmp_path / "cache", window=10.0, parts=3)
    plan = plan_events(folder, {"hidden": 16})
    assert json.loads(json.dumps(plan, allow_nan=False)) == plan
    cache = EventCache(folder)
    offsets, group = cache.snapshot_offsets, cache.snapshot_group
    assert offsets is not None
    assert group is not None
    source, destination = cache.arrays["events/source"], cache.arrays["events/destination"]
    rows = [0]
    for rank in (1, 2):
        first = int(offsets[np.flatnonzero(group == rank)[0]])
        rows.append(len(np.unique(np.concatenate([source[:first], destination[:first]]))))
    assert [row["border_rows"] for row in plan["ranks"]] == rows
    assert sum(row["events"] for row in plan["ranks"]) == EVENTS
    assert np.mean([row["load"] for row in plan["ranks"]]) == pytest.approx(1)
    tgcn, gclstm, evolvegcn = plan["borders"]
    assert tgcn["bytes"] == 2 * sum(rows) * 16 * 4
    assert gclstm["bytes"] == 2 * tgcn["bytes"]
    assert evolvegcn["bytes"] == evolvegcn["seconds"] == 0
    rows_PP = np.array([[0, rows[1], 0], [rows[1], 0, rows[2]], [0, rows[2], 0]])
    assert tgcn["seconds"] == LinkModel.of(Topology.flat(3)).seconds(rows_PP, 64).max()
    with pytest.raises(UsageError, match="has 2 ranks and the cache 3 groups"):
        plan_events(folder, {}, parts=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--layers", "3"), "--layers is not for the plan of a cache of events"),
        (("--gpu", "L4"), "--gpu is not for the plan of a cache of events"),
        (("--best",), "--best is not for the plan of a cache of events"),
        (("--parts", "0"), "--parts 0 is not a number of ranks"),
    ],
)
def test_options_of_graphs_are_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Guards against options that are silently ignored."""
    result = CliRunner().invoke(main, ["plan", str(make(tmp_path / "cache")), *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_a_plan_of_snapshots_is_printed(tmp_path: Path) -> None:
    """Guards against a command that refuses event caches, and options of streams for snapshots."""
    folder = make(tmp_path / "cache", window=10.0)
    result = CliRunner().invoke(main, ["plan", str(folder)])
    assert result.exit_code == 0, result.output
    assert "20 snapshots in 2 groups" in result.output
    assert "gclstm" in result.output
    result = CliRunner().invoke(main, ["plan", str(folder), "--parallel", "1,1,2"])
    assert "--parallel is not for the plan of a cache of snapshots" in result.output
