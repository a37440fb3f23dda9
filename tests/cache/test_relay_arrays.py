"""The arrays of relayed exchange in a cache: what each part says fits the others, and damage is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from graphprep.cache import relay_arrays, write
from graphprep.cache.manifest import FileEntry, Manifest, file_sha256
from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.errors import CacheError
from graphprep.partition.request import PartitionRequest
from graphprep.report.summary.cache_summary import traffic_of
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from graphprep.traffic import link_seconds
from pipelines.partition import PartitionPlan, run_partition
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_store
from tests.traffic.test_relay import THREE_STAGES, TWO_OF_THREE


def relayed_cache(store: GraphStore, topology: Topology, target: Path, *, relay: str = "auto") -> PartitionCache:
    request = PartitionRequest(method="random", effort="none", row_bytes=65_536, relay=relay)
    return run_partition(PartitionPlan(store=store, topology=topology, request=request, target=target)).cache


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    return make_store(
        labelled_graph(np.random.default_rng(1), 200, 3000), target=tmp_path_factory.mktemp("store") / "g.zarr"
    )


@pytest.fixture(scope="module")
def whole(store: GraphStore, tmp_path_factory: pytest.TempPathFactory) -> PartitionCache:
    return relayed_cache(store, TWO_OF_THREE, tmp_path_factory.mktemp("relayed") / "cache")


def halo_of(cache: PartitionCache, part: int) -> list[tuple[str, int, int]]:
    """Type, owner and global id of each row of a part's halo, in the order that the format's page states."""
    return [
        (node_type, owner, node)
        for owner in range(cache.num_parts)
        if owner != part
        for node_type in cache.node_types
        for node in cache.node_array(part, node_type, f"recv_{owner}").tolist()
    ]


def check_ways(cache: PartitionCache) -> None:
    """Follow every halo row back to its owner, and compare what the ranks on the way say that they send."""
    halos = [halo_of(cache, part) for part in range(cache.num_parts)]
    via, stage = (
        [cache.array(f"parts/{part}/relay/{name}").tolist() for part in range(cache.num_parts)]
        for name in ("via", "stage")
    )
    passed_on = [set[tuple[int, int, int]]() for _ in halos]
    for part in range(cache.num_parts):
        forward = cache.array(f"parts/{part}/relay/forward").tolist()
        counts = cache.array(f"parts/{part}/relay/forward_counts")
        for number, count in enumerate(counts.ravel().tolist()):
            rows, forward = forward[:count], forward[count:]
            assert rows == sorted(rows)
            passed_on[part] |= {(2 + number // cache.num_parts, number % cache.num_parts, row) for row in rows}
        assert not forward
        sent = [(owner, node_type, node) for owner, node_type, node in sent_by(cache, part)]
        direct = cache.array(f"parts/{part}/relay/direct").tolist()
        for (target, node_type, node), is_direct in zip(sent, direct, strict=True):
            place = halos[target].index((node_type, part, node))
            assert is_direct == (stage[target][place] == 1) == (via[target][place] == part)
    expected = [set[tuple[int, int, int]]() for _ in halos]
    for part, halo in enumerate(halos):
        for place, row in enumerate(halo):
            if stage[part][place] > 1:
                relay = via[part][place]
                before = halos[relay].index(row)
                assert stage[relay][before] == stage[part][place] - 1
                expected[relay].add((stage[part][place], part, before))
    assert passed_on == expected


def sent_by(cache: PartitionCache, part: int) -> list[tuple[int, str, int]]:
    return [
        (peer, node_type, int(cache.node_array(part, node_type, "global_ids")[row]))
        for peer in range(cache.num_parts)
        if peer != part
        for node_type in cache.node_types
        for row in cache.node_array(part, node_type, f"send_{peer}").tolist()
    ]


def test_the_arrays_of_all_parts_are_one_plan(whole: PartitionCache) -> None:
    """Guards against halo rows counted in another order by the rank that passes them on."""
    assert whole.has_relays
    check_ways(whole)
    verify_cache(whole)


@pytest.mark.slow
@pytest.mark.parametrize("topology", [TWO_OF_THREE, THREE_STAGES], ids=["2 of 3", "three stages"])
def test_several_types_share_one_plan(tmp_path: Path, topology: Topology) -> None:
    """Guards against rows of a second type that are counted as those of the first."""
    store = make_store(typed_graph(np.random.default_rng(2)), target=tmp_path / "g.zarr")
    cache = relayed_cache(store, topology, tmp_path / "cache")
    assert cache.has_relays
    check_ways(cache)
    verify_cache(cache)


def test_the_quality_has_both_figures(whole: PartitionCache) -> None:
    """Guards against link seconds of an exchange that the trainer does not make."""
    quality, traffic = whole.quality, traffic_of(whole)
    loads = link_seconds(traffic, TWO_OF_THREE, 65_536)
    direct = link_seconds(traffic.without_relays(), TWO_OF_THREE, 65_536)
    assert quality["bottleneck_seconds"] == pytest.approx(loads.bottleneck_seconds)
    assert [row["rows"] for row in quality["links"]] == loads.rows_D.tolist()
    assert quality["relay"]["direct_bottleneck_seconds"] == pytest.approx(direct.bottleneck_seconds)
    assert quality["bottleneck_seconds"] < direct.bottleneck_seconds
    assert quality["relay"]["slowest_link_rows"] < quality["relay"]["slowest_link_direct_rows"]
    assert quality["halo_rows"] == traffic.rows_PP.sum()


def test_relay_off_is_another_cache_without_them(store: GraphStore, whole: PartitionCache, tmp_path: Path) -> None:
    """Guards against an option that is not in the key, and against arrays that are written all the same."""
    cache = relayed_cache(store, TWO_OF_THREE, tmp_path / "cache", relay="off")
    assert cache.key != whole.key
    assert not cache.has_relays
    assert cache.quality["relay"] is None
    assert not any("relay" in path for path in cache.manifest.files)
    assert np.array_equal(cache.array("assignment"), whole.array("assignment"))


def test_a_run_that_goes_on_keeps_the_relays(
    store: GraphStore, whole: PartitionCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against relays that a second run chooses anew, or leaves out of the manifest or the figures."""

    def killed(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(write.CacheWriter, "root", killed)
        with pytest.raises(OSError, match="no space"):
            relayed_cache(store, TWO_OF_THREE, tmp_path / "cache")
    monkeypatch.setattr(relay_arrays, "choose_relays", killed)
    cache = relayed_cache(store, TWO_OF_THREE, tmp_path / "cache")
    verify_cache(cache)
    assert cache.quality["relay"] == whole.quality["relay"]


DAMAGES = {
    "parts/3/relay/via": "arrives in stage 1 from another part|does not have it|counted",
    "parts/3/relay/stage": "arrives in stage 1 from another part|does not have it|counted|out of range",
    "parts/0/relay/direct": "relay/direct of part 0 is not what the other parts expect",
    "parts/4/relay/forward": "relay/forward of part 4 is not what the other parts expect",
    "parts/4/relay/forward_counts": "relay/forward_counts of part 4 is not what the other parts expect",
    "relay_rows": "rows of relayed exchange are not those",
    "relay_messages": "messages of relayed exchange are not those",
}


@pytest.mark.parametrize("path", DAMAGES)
def test_verify_finds_arrays_that_do_not_fit(whole: PartitionCache, tmp_path: Path, path: str) -> None:
    """Guards against a cache that is whole by its checksums, and whose ranks would wait for each other."""
    folder = Path(shutil.copytree(whole.folder, tmp_path / "cache"))
    shape = json.loads((folder / path / "zarr.json").read_text())["shape"]
    payload = f"{path}/c/" + "/".join("0" * len(shape))
    values = np.array(whole.array(path))
    values.flat[0] = not values.flat[0] if values.dtype == bool else values.flat[0] + 1
    (folder / payload).write_bytes(values.tobytes())
    files = dict(Manifest.read(folder).files)
    files[payload] = FileEntry(size=values.nbytes, sha256=file_sha256(folder / payload))
    Manifest(key=whole.key, files=files).write(folder)
    with pytest.raises(CacheError, match=DAMAGES[path]):
        verify_cache(PartitionCache(folder))
