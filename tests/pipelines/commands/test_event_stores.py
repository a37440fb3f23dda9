"""Commands on event stores and caches: partition, inspect, verify, clean, and those that are not for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cli import main
from graphprep.temporal.cache import EventCache

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run a command in this process."""
    return lambda *arguments: CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def stream(run: Run) -> str:
    """The name of a generated event store."""
    generated = run("generate", "events", "--name", "stream", *("--nodes", 60, "--events", 3000, "--groups", 4, "-q"))
    assert generated.exit_code == 0, generated.output
    return "stream"


@pytest.mark.slow
def test_partition_inspect_and_verify(run: Run, stream: str, tmp_path: Path, graphprep_home: Path) -> None:
    """A cache is made once, read whole, and its page shows activity, ranks and snapshots."""
    options = ("--for", "snapshots", "--window", "5d", "--parts", 3)
    made = json.loads(run("partition", stream, *options, "--json").stdout)
    cache = EventCache(made["cache"])
    assert Path(made["cache"]) == graphprep_home / "caches/stream/snapshots-3"
    assert made["num_snapshots"] == len(cache.snapshot_group)  # type: ignore[arg-type]
    assert sum(made["quality"]["ranks"]["nodes"]) == 60
    assert made["quality"]["snapshots"]["imbalance"] < 1.3
    assert run("partition", stream, *options).stdout.startswith("up to date")
    refused = run("partition", stream, *options, "--split", "0.6,0.2,0.2")
    assert refused.exit_code == 6
    assert "split 0.7,0.15,0.15 there, 0.6,0.2,0.2 now" in refused.stderr
    for place, kind in ((stream, "event-store"), (f"{stream}/snapshots-3", "events"), (made["cache"], "events")):
        assert json.loads(run("verify", place, "--json").stdout)["kind"] == kind
        assert run("inspect", place).exit_code == 0
        summary = json.loads(run("inspect", place, "--json").stdout)
        assert sum(row["events"] for row in summary["activity"]) == 3000
        assert run("inspect", place, "--html", tmp_path / "page.html").exit_code == 0
        page = (tmp_path / "page.html").read_text()
        assert "Activity over time" in page
        assert page.count("<svg") == (3 if kind == "events" else 1)
    groups = summary["snapshots"]["groups"]
    assert [row["snapshots"] for row in groups] == np.bincount(cache.snapshot_group).tolist()  # type: ignore[arg-type]


def test_a_damaged_store_is_not_partitioned(run: Run, stream: str, graphprep_home: Path) -> None:
    """Guards against loops that follow a flipped bit of a node's number out of their arrays."""
    payload = graphprep_home / "stores/stream.zarr/events/destination/c/0"
    content = bytearray(payload.read_bytes())
    content[6] ^= 0x40
    payload.write_bytes(content)
    result = run("partition", stream, "--for", "snapshots", "--window", "1d", "--parts", 2, "-q")
    assert result.exit_code == 3
    assert "events/destination/c/0 has changed since it was written; import it again with --replace" in result.stderr
    assert not (graphprep_home / "caches/stream/snapshots-2").exists()


def test_dry_run_writes_nothing(run: Run, stream: str, graphprep_home: Path) -> None:
    """It says what a run would take."""
    said = run("partition", stream, "--for", "events", "--parts", 2, "--dry-run")
    assert "partitioning stream (60 nodes, 3,000 events) for events on 2 ranks" in said.stderr
    document = json.loads(run("partition", stream, "--for", "events", "--parts", 2, "--dry-run", "--json").stdout)
    assert document["events"] == 3000
    assert not (graphprep_home / "caches").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--parts", "2"], 3, "is an event store"),
        (["--for", "events"], 2, "needs the number of ranks"),
        (["--for", "events", "--parts", "0"], 2, "--parts 0 must be from 1"),
        (["--for", "events", "--parts", "61"], 5, "61 parts are more than the 60 nodes"),
        (["--for", "snapshots", "--parts", "2"], 2, "needs the length of a snapshot"),
        (["--for", "snapshots", "--parts", "2", "--window", "soon"], 2, "--window soon is not a positive number"),
        (["--for", "snapshots", "--parts", "4", "--window", "50d"], 5, "cannot be divided into 4 groups"),
        (["--for", "events", "--parts", "2", "--half-life", "1"], 2, "--half-life 1 is not a positive number"),
        (["--for", "events", "--parts", "2", "--split", "1,2"], 2, "is not three positive shares"),
        (["--for", "events", "--parts", "2", "--split", "a"], 2, "is not numbers with commas between"),
        (["--for", "events", "--parts", "2", "--snapshot-cost", "1,1"], 2, "is not three numbers from 0 on"),
        (["--for", "events", "--parts", "2", "--method", "metis"], 2, "--method metis is for graphs"),
        (["--for", "events", "--topology", "2x2"], 2, "--topology is not for --for events"),
        (["--for", "events", "--parts", "2", "--row-bytes", "8"], 2, "--row-bytes is not for --for events"),
        (["--for", "events", "--parts", "2", "--dask", "local:1"], 2, "--dask is not for --for events"),
        (["--for", "events", "--parts", "2", "--out", "s3://a/b"], 2, "is a URL"),
        (["--for", "event", "--parts", "2"], 2, "--for 'event' is unknown (did you mean 'events'?)"),
        (["--for", "events", "--parts", "2", "--fanouts", "5"], 2, "--fanouts is not for --for events"),
        (["--parts", "2", "--window", "1d"], 2, "--window is for event stores"),
        (["--for", "events", "--parts", "2", "--ranks-per-group", "2"], 2, "--ranks-per-group does nothing with --for"),
        (
            ["--for", "snapshots", "--window", "1d", "--parts", "3", "--ranks-per-group", "2"],
            2,
            "does not divide --part",
        ),
    ],
)
def test_wrong_options_are_one_sentence(
    run: Run, stream: str, arguments: list[str], status: int, sentence: str
) -> None:
    """Nothing is ignored, and nothing is written."""
    result = run("partition", stream, *arguments, "-q")
    assert (result.exit_code, sentence in result.stderr) == (status, True), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_heavy_snapshot_is_said(run: Run, stream: str) -> None:
    """Where one snapshot alone is more than a rank's mean."""
    result = run("partition", stream, "--for", "snapshots", "--window", "45d", "--parts", 3, "-q")
    assert result.exit_code == 0, result.stderr
    assert "so that groups cannot be balanced" in result.stderr
    assert "cannot be balanced" in run("inspect", f"{stream}/snapshots-3").stdout


def test_ranks_share_groups_of_snapshots(run: Run, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More ranks than snapshots; the nodes of a group are divided by the method with the fewest halo rows."""
    options = ("--for", "snapshots", "--window", "45d", "--parts", 8, "--ranks-per-group", 4)
    partitioned = run("partition", stream, *options, "--json")
    made = json.loads(partitioned.stdout)
    cache, members = EventCache(made["cache"]), made["quality"]["members"]
    assert (cache.ranks_per_group, set(cache.snapshot_group.tolist())) == (4, {0, 1})  # type: ignore[union-attr]
    assert members["imbalance"] <= 1.2
    said = re.findall(r"(stream|metis) gives ([\d,]+) halo rows", partitioned.stderr)
    counted = {method: int(rows.replace(",", "")) for method, rows in said}
    assert set(counted) == {"stream", "metis"}
    assert counted[members["method"]] == members["halo_rows"] == min(counted.values())
    assert run("verify", made["cache"]).exit_code == 0
    shown = run("inspect", made["cache"]).stdout
    assert "4 ranks share each group: nodes by " in shown
    assert "memory of a rank in training, estimate for --hidden 64 --layers 2" in shown
    monkeypatch.setattr("pipelines.events.snapshot_members.BYTES_OF_AN_EVENT", 10**12)
    without = run("partition", stream, *options, "--seed", 1, "--replace", "--json")
    assert "METIS is not tried: it may need" in without.stderr
    assert json.loads(without.stdout)["quality"]["members"]["method"] == "stream"


def test_commands_for_graphs_say_what_it_is(run: Run, stream: str, tmp_path: Path) -> None:
    """One sentence each for an event store and an event cache."""
    run("partition", stream, "--for", "events", "--parts", 2, "--method", "random", "-q")
    cache = f"{stream}/events-2"
    for command, what in (
        (["export", cache, tmp_path / "out", "--format", "pyg"], "is an event cache"),
        (["compare", cache, cache], "is an event cache"),
        (["plan", stream, "--parts", 2], "is an event store"),
        (["inspect", cache, "--node", 3], "has events"),
        (["inspect", stream, "--memory", "1GB"], "is an event store"),
        (["partition", cache, "--for", "events", "--parts", 2], "is not a folder"),
    ):
        result = run(*command, "-q") if command[0] != "compare" else run(*command)
        assert result.exit_code != 0
        assert what in result.stderr, result.stderr


def test_clean_removes_stores_and_caches(run: Run, stream: str, graphprep_home: Path) -> None:
    """They are listed, removed when named, and what a run that was cut short left is a leftover."""
    run("partition", stream, "--for", "events", "--parts", 2, "-q")
    (graphprep_home / "stores/.partial-stream.zarr-edges").mkdir()
    items = json.loads(run("clean", "--dry-run", "--json").stdout)["items"]
    kinds = {item["name"]: item["kind"] for item in items}
    assert kinds["stream"] == "store"
    assert kinds["stream/events-2"] == "cache"
    assert "leftover" in kinds.values()
    run("clean", "--caches", "stream/events-2", "--stores", "stream")
    assert not (graphprep_home / "stores/stream.zarr").exists()
    assert not (graphprep_home / "caches/stream/events-2").exists()


def test_cut_short_runs_start_again(run: Run, stream: str, graphprep_home: Path) -> None:
    """What lies beside the cache is replaced, and swept."""
    plan = json.loads(run("partition", stream, "--for", "events", "--parts", 2, "--dry-run", "--json").stdout)
    work = graphprep_home / f"caches/stream/.partial-{plan['key']}"
    (work / "events").mkdir(parents=True)
    (work / "events/zarr.json").write_text("half")
    assert run("partition", stream, "--for", "events", "--parts", 2).exit_code == 0
    assert not work.exists()
    assert json.loads(run("verify", f"{stream}/events-2", "--json").stdout)["whole"]


def test_a_damaged_cache_is_found_and_replaced(run: Run, stream: str, graphprep_home: Path) -> None:
    """An index of other events than there are passes no check, even with a manifest of its own."""
    from graphprep.cache.array_writer import FolderWriter
    from graphprep.cache.manifest import Manifest

    run("partition", stream, "--for", "events", "--parts", 2, "--method", "random", "-q")
    folder = graphprep_home / "caches/stream/events-2"
    manifest = Manifest.read(folder)
    neighbours = np.fromfile(folder / "index/neighbour/c/0", np.int64)
    neighbours[[0, 1]] = (neighbours[[0, 1]] + 1) % 60
    writer = FolderWriter(folder)
    writer.array("index/neighbour", neighbours)
    Manifest(key=manifest.key, files={**manifest.files, **writer.files}).write(folder)
    result = run("verify", f"{stream}/events-2", "-q")
    assert result.exit_code == 6
    assert "its time index is not that of its events" in result.stderr
    (folder / "index/neighbour/c/0").unlink()
    refused = run("partition", stream, "--for", "events", "--parts", 2, "--method", "random", "-q")
    assert refused.exit_code == 6
    replaced = run("partition", stream, "--for", "events", "--parts", 2, "--method", "random", "-q", "--replace")
    assert replaced.exit_code == 0
