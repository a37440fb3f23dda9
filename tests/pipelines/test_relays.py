"""What commands make of a cache with relays: both figures are shown, and what drops the relays says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.report.pages import cache_page
from graphprep.report.summary.cache_summary import cache_summary, what_if
from graphprep.topology import Topology
from pipelines.export import export_cache
from pipelines.metis_reference import metis_reference
from tests.cache.test_relay_arrays import check_ways, relayed_cache
from tests.graphs import labelled_graph
from tests.stores import make_store
from tests.traffic.test_relay import THREE_STAGES, TWO_OF_THREE


@pytest.fixture
def cache(tmp_path: Path) -> PartitionCache:
    store = make_store(labelled_graph(np.random.default_rng(1), 200, 3000))
    return relayed_cache(store, THREE_STAGES, tmp_path / "cache")


def run(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*words, "--json", "-q"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_inspect_shows_both_figures(cache: PartitionCache) -> None:
    """Guards against a bottleneck without a word on what it would be without relays."""
    done = CliRunner().invoke(main, ["inspect", str(cache.folder)])
    assert done.exit_code == 0, done.output
    assert "bottleneck without relays" in done.stdout
    assert f"{cache.quality['relay']['slowest_link_direct_rows']:,}" in done.stdout
    assert "bottleneck without relays" in cache_page(cache_summary(cache))


def test_other_machines_are_assessed_with_the_same_relays(cache: PartitionCache) -> None:
    """Guards against figures for direct sends where the trainer would use the relays that the cache has."""
    found = what_if(cache, Topology.flat(8), None)
    assert found["relay"]["rows_passed_on"] == cache.quality["relay"]["rows_passed_on"]
    assert found["bottleneck_seconds"] > found["relay"]["direct_bottleneck_seconds"]


@pytest.mark.slow
def test_metis_is_compared_with_relays_too(cache: PartitionCache) -> None:
    """Guards against a comparison of our relays with METIS's direct sends."""
    found = metis_reference(cache)
    store = make_store(labelled_graph(np.random.default_rng(1), 200, 3000), name="again")
    direct = relayed_cache(store, THREE_STAGES, cache.folder.with_name("direct"), relay="off")
    assert found["bottleneck_seconds"] < metis_reference(direct)["bottleneck_seconds"]


@pytest.mark.slow
def test_the_plan_has_both_figures(cache: PartitionCache) -> None:
    """Guards against a plan of direct sends, and of gradients that are kept and passed on."""
    plan = run("plan", str(cache.folder), "--gpu", "L4", "--hidden", "256", "--layers", "3")
    assert plan["communication_seconds"] < plan["communication_seconds_without_relays"]
    done = CliRunner().invoke(main, ["plan", str(cache.folder), "--gpu", "L4"])
    assert "relays are used; without them communication would take" in done.stdout


@pytest.mark.slow
def test_an_export_says_that_relays_are_left_out(
    cache: PartitionCache, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a reader of the export who expects them."""
    export_cache(str(cache.folder), tmp_path / "out", format_name="npz")
    assert "relays of the cache are not exported" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cache_of_other_parts_gets_relays_of_its_own(cache: PartitionCache, tmp_path: Path) -> None:
    """Guards against relays of the old parts, and against an option that does nothing."""
    topology = tmp_path / "topology.yaml"
    topology.write_text(
        Topology.build(
            name="four",
            ranks=TWO_OF_THREE.ranks[:2] + TWO_OF_THREE.ranks[3:5],
            switches=TWO_OF_THREE.switches,
            links=tuple(link for link in TWO_OF_THREE.links if not {"m0.gpu2", "m1.gpu2"} & set(link.ends)),
        ).to_yaml()
    )
    for relay in ("auto", "off"):
        out = tmp_path / relay
        run("cache", "merge", str(cache.folder), "--topology", str(topology), "--relay", relay, "--out", str(out))
        other = PartitionCache(out)
        verify_cache(other)
        assert other.num_parts == 4
        assert other.has_relays == (relay == "auto")
    check_ways(PartitionCache(tmp_path / "auto"))
