"""A cache beside METIS: figures of the start that was made, sentences that follow, and caches without them."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.partition.request import PartitionRequest
from graphprep.partition.result import Candidate, PartitionResult
from graphprep.report.pages import cache_page
from graphprep.report.summary.cache_summary import cache_summary, quality_of
from graphprep.report.summary.verdict import FIGURES, beside_metis, compared_verdict
from graphprep.store.store import GraphStore
from graphprep.topology import Topology, resolve
from pipelines.look import summarise
from pipelines.metis_reference import metis_reference
from pipelines.partition import PartitionPlan, run_partition
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store


@pytest.fixture
def store() -> GraphStore:
    return make_store(labelled_graph(np.random.default_rng(1), 400, 1500, undirected=True))


def made(store: GraphStore, target: Path, topology: str = "2x2", **options: Any) -> PartitionCache:
    request = PartitionRequest(**options)
    return run_partition(PartitionPlan(store=store, topology=resolve(topology), request=request, target=target)).cache


def changed(cache: PartitionCache, **figures: float) -> dict[str, Any]:
    """The cache's verdict if METIS' figures were these times the cache's own."""
    quality = quality_of(cache)
    this = beside_metis(cache, quality)["this"]
    cache.attributes["reference"] = {
        "method": "metis",
        "is_mapped": True,
        "broken_limits": [],
        **{name: this[name] * figures.get(name, 1.0) for name in FIGURES},
    }
    return beside_metis(cache, quality)


@pytest.mark.slow
def test_the_reference_is_the_start_of_metis(store: GraphStore, tmp_path: Path) -> None:
    """Guards against figures of parts that were refined, and against a METIS that is run once more."""
    cache = made(store, tmp_path / "cache", effort="default")
    reference = cache.attributes["reference"]
    starts = {row["method"]: row for row in cache.attributes["options"]["tried"]}
    assert reference == {**starts[reference["method"]], "is_mapped": True}
    assert reference["method"] in ("metis", "metis-balanced")
    plain = made(store, tmp_path / "plain", effort="none", method="metis")
    again = metis_reference(plain)
    for name in FIGURES:
        assert (
            plain.attributes["reference"][name] == again[name] == beside_metis(plain, quality_of(plain))["this"][name]
        )
    assert not plain.attributes["reference"]["is_mapped"]
    assert beside_metis(plain, quality_of(plain))["verdict"][0] == (
        "These are the parts of METIS k-way, parts in its own order."
    )


def test_metis_k_way_stands_for_metis_where_it_was_made() -> None:
    """Guards against a comparison with whichever start comes first, and with refined or failed ones."""
    rows = [
        {"method": "metis-hierarchical", "step_seconds": 1.0},
        {"method": "metis, refined", "step_seconds": 0.5},
        {"method": "metis-balanced", "step_seconds": 2.0},
        Candidate(method="metis", seconds=0.0, failure="no memory").summary(None),
    ]
    blank: Any = None

    def reference(tried: list[dict[str, Any]]) -> dict[str, Any] | None:
        result = PartitionResult(assignment=blank, traffic=blank, quality=blank, tried=tuple(tried))
        return result.reference(is_mapped=True)

    assert reference(rows) == {**rows[2], "is_mapped": True}
    assert reference([*rows, {"method": "metis", "step_seconds": 3.0}]) == {
        "method": "metis",
        "step_seconds": 3.0,
        "is_mapped": True,
    }
    assert reference([rows[1], rows[3], {"method": "multilevel", "step_seconds": 1.0}]) is None


def test_ratios_and_the_verdict_are_of_the_same_figures(store: GraphStore, tmp_path: Path) -> None:
    """Guards against a verdict that praises a longer step."""
    cache = made(store, tmp_path / "cache", effort="fast")
    better = changed(cache, step_seconds=1.25, bottleneck_seconds=2.0, halo_rows=0.5)
    assert better["ratio"]["step_seconds"] == pytest.approx(0.8)
    assert better["verdict"][0].startswith("The predicted step is 20 % shorter than with the parts of METIS k-way")
    assert "takes 0.50 of its time there, for 2.00 of the halo rows." in better["verdict"][0]
    assert not any("METIS" in sentence for sentence in better["advice"])
    worse = changed(cache, step_seconds=0.8)
    assert worse["verdict"][0].startswith("The predicted step is 25 % longer than")
    assert any("--effort best" in sentence for sentence in worse["advice"])
    cache.attributes["reference"]["broken_limits"] = ["in-edges"]
    broken = beside_metis(cache, quality_of(cache))
    assert "METIS does not keep the limits on in-edges." in broken["verdict"][0]
    assert any("--imbalance" in sentence for sentence in broken["advice"])
    assert changed(cache, step_seconds=1.001)["verdict"][0].startswith("The predicted step is as long as with")


def test_advice_on_links_is_what_the_model_says(store: GraphStore, tmp_path: Path) -> None:
    """Guards against advice that the figures contradict: half the bytes where latency is what takes the time."""
    cache = made(
        store, tmp_path / "cache", method="random", effort="none", topology="2x2-10gbe", row_bytes=65536, relay="off"
    )
    by_bytes = " ".join(beside_metis(cache, quality_of(cache))["advice"])
    [share] = re.findall(r"--wire fp16 sends half of fp32's bytes: a step (\d+) % shorter", by_bytes)
    assert 40 <= int(share) <= 50
    assert "fewer machines with more ranks each that do not exchange over links of type network" in by_bytes
    assert "messages" not in by_bytes
    cache = made(store, tmp_path / "narrow", method="random", effort="none", topology="2x2-10gbe", row_bytes=1)
    by_latency = " ".join(beside_metis(cache, quality_of(cache))["advice"])
    assert "--wire" not in by_latency
    assert re.search(r"to start 4 messages: fewer ranks help more than fewer bytes", by_latency)
    assert "one rank alone would take" in by_latency


def test_more_ranks_where_links_cost_nothing(store: GraphStore, tmp_path: Path) -> None:
    """Guards against advice on links that hide behind the local product."""
    cache = made(store, tmp_path / "cache", method="random", effort="none", topology="workstation-2")
    quality = copy.deepcopy(dict(quality_of(cache)))
    for rank in quality["ranks"]:
        rank["local_seconds"] = 1000 * quality["bottleneck_seconds"]
    assert beside_metis(cache, quality)["advice"] == [
        "links cost less than a twentieth of the step: more ranks would shorten it, faster links would not"
    ]


@pytest.mark.slow
def test_caches_without_metis_say_so(store: GraphStore, tmp_path: Path) -> None:
    """Guards against a comparison with nothing, and a comparison that --compare-metis does not fill in."""
    cache = made(store, tmp_path / "cache", method="ldg", effort="none")
    assert cache.attributes["reference"] is None
    beside = cache_summary(cache)["beside_metis"]
    assert (beside["metis"], beside["ratio"]) == (None, None)
    assert "no start of METIS was made, as the method is ldg; inspect --compare-metis" in beside["verdict"][0]
    _, summary = summarise(str(cache.folder), compare_metis=True)
    assert summary["beside_metis"]["metis"] == summary["metis"]
    assert "METIS k-way, parts in its own order" in summary["beside_metis"]["verdict"][0]
    one = make_cache(store, Topology.flat(1), tmp_path / "one")
    assert cache_summary(one)["beside_metis"]["verdict"] == [
        "There is one part, so there is nothing to compare with METIS.",
        beside_metis(one, quality_of(one))["verdict"][1],
    ]


@pytest.mark.slow
def test_a_cache_of_an_earlier_version_has_a_step(store: GraphStore, tmp_path: Path) -> None:
    """Guards against old caches that cannot be inspected, and against a step that is not what a new one would say."""
    cache = made(store, tmp_path / "cache", effort="fast")
    expected = quality_of(cache)
    old = copy.deepcopy(cache.attributes["quality"])
    del old["step_seconds"]
    for rank in old["ranks"]:
        for name in [name for name in rank if name.endswith("_seconds") or name == "sent_rows"]:
            del rank[name]
    cache.attributes["quality"] = old
    del cache.attributes["reference"]
    assert quality_of(cache)["step_seconds"] == expected["step_seconds"]
    assert quality_of(cache)["ranks"] == [{**row} for row in expected["ranks"]]
    summary = cache_summary(cache)
    assert "an earlier version made the cache" in summary["beside_metis"]["verdict"][0]
    assert cache_page(summary).index("an earlier version made the cache") < cache_page(summary).index("<h2>")


@pytest.mark.slow
def test_released_caches_have_a_step() -> None:
    """Guards against caches of a released version that inspect, and the page, no longer open."""
    folders = sorted((Path(__file__).parents[2] / "archives").glob("*/*/cache"))
    assert len(folders) >= 2
    for folder in folders:
        summary = cache_summary(PartitionCache(folder))
        assert summary["quality"]["step_seconds"] >= summary["quality"]["bottleneck_seconds"] > 0
        assert summary["beside_metis"]["verdict"][0] in cache_page(summary)


@pytest.mark.slow
def test_results_begin_with_the_comparison(store: GraphStore, graphprep_home: Path) -> None:
    """Guards against a verdict that comes after forty lines, or only where it is asked for."""
    command = ["partition", "graph", "--topology", "2x2", "--effort", "fast"]
    first = CliRunner().invoke(main, command)
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith("beside METIS k-way balanced by nodes and in-edges, mapped to the ranks\n")
    assert first.stdout.splitlines()[-1].startswith("wrote: ")
    document = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    inspected = json.loads(CliRunner().invoke(main, ["inspect", "graph/2x2", "--json"]).stdout)
    assert document["beside_metis"] == inspected["beside_metis"]
    assert document["beside_metis"]["this"]["step_seconds"] == document["quality"]["step_seconds"]
    assert CliRunner().invoke(main, ["inspect", "graph/2x2"]).stdout.startswith("beside METIS k-way balanced")


def test_the_shortest_step_of_several() -> None:
    """Guards against a verdict on caches of different machines or rows."""
    one = {"cache": "a", "topology": "t", "row_bytes": 4, "step_seconds": 1.0, "halo_rows": 30}
    two = one | {"cache": "b", "step_seconds": 0.5, "halo_rows": 10}
    assert compared_verdict([one, two]) == [
        "b has the shortest predicted step, 50 % shorter than that of a, for 0.33 of its halo rows."
    ]
    assert compared_verdict([one, one | {"cache": "c"}]) == [
        "a and c have the shortest predicted steps, which are equal."
    ]
    assert compared_verdict([one, two | {"row_bytes": 8}]) == []
