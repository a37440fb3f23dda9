"""Stores on an S3-compatible server that runs here: written, found again, read, partitioned, and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.datasets.generators.requests import SbmRequest
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.errors import DatasetError, UsageError
from graphprep.partition.request import PartitionRequest
from graphprep.report.summary.store_summary import store_summary
from graphprep.store.location import existing_kind, store_place
from graphprep.store.store import GraphStore
from graphprep.system import home
from graphprep.system.executor import open_executor
from pipelines.generate import generate_graph
from pipelines.ingest import fetch_dataset, import_files
from pipelines.partition import plan_partition, run_partition
from pipelines.run.run import run_pipeline
from tests.end_to_end.test_cli import refused, run
from tests.forks import forked_workers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("s3")]
BUCKET = "s3://graphs"
REQUEST = SbmRequest(nodes=200, edges=900, classes=4, branching=2, features=3)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """moto's server on a free port of this machine."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    moto = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[s3]' flask flask-cors")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    _, port = running.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    running.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket, and the settings by which s3fs finds it, in this process and those that it starts."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("graphs")
    yield files
    files.rm("graphs", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def test_from_a_generator_to_a_cache(bucket: Any, tmp_path: Path) -> None:
    """Guards against a step that takes a URL for a path, and so makes another cache or none."""
    url = f"{BUCKET}/deep/blocks.zarr"
    made = generate_graph(REQUEST, name="blocks", out=url, replace=False, memory_limit=None)
    local = generate_graph(REQUEST, name="blocks", out=tmp_path / "local.zarr", replace=False, memory_limit=None)
    assert generate_graph(REQUEST, name="blocks", out=url, replace=False, memory_limit=None).reused
    made.store.check()
    assert made.store.key == local.store.key
    assert store_summary(GraphStore(url)) == store_summary(local.store) | {"location": url}
    caches = []
    for store, out in ((url, "a"), (str(tmp_path / "local.zarr"), "b")):
        request = PartitionRequest(method="random", effort="fast")
        plan = plan_partition(store, parts=3, topology=None, request=request, out=tmp_path / out)
        caches.append(run_partition(plan).cache)
        verify_cache(caches[-1])
    one, other = (cache.check_sizes().files for cache in caches)
    assert {path: entry.sha256 for path, entry in one.items() if path != "zarr.json"} == {
        path: entry.sha256 for path, entry in other.items() if path != "zarr.json"
    }
    assert not (tmp_path / "s3:").exists()
    assert not Path("s3:").exists()


def test_fetched_and_imported(bucket: Any, tmp_path: Path) -> None:
    """Guards against the other two ways to a store ending on the local disk."""
    assert not fetch_dataset("digits", mirror=None, out=f"{BUCKET}/digits").reused
    assert fetch_dataset("digits", mirror=None, out=f"{BUCKET}/digits").reused
    edges = tmp_path / "edges.csv"
    edges.write_text("0,1\n1,2\n")
    request = ImportRequest.of_one_type((edges,))
    assert not import_files(request, name="mine", out=f"{BUCKET}/mine", replace=False).reused
    assert import_files(request, name="mine", out=f"{BUCKET}/mine", replace=False).reused
    edges.write_text("0,1\n1,3\n")
    with pytest.raises(DatasetError, match="made from other files or options"):
        import_files(request, name="mine", out=f"{BUCKET}/mine", replace=False)
    assert not import_files(request, name="mine", out=f"{BUCKET}/mine", replace=True).reused
    assert sum(GraphStore(f"{BUCKET}/mine").num_edges.values()) == 2
    assert not (home.home() / "stores").exists() or not list((home.home() / "stores").iterdir())


def test_nothing_of_somebody_elses_is_removed(bucket: Any) -> None:
    """Guards against a store that empties a prefix, or a whole bucket, to make room for itself."""
    bucket.pipe("graphs/data/precious", b"mine")
    bucket.pipe("graphs/zarr/zarr.json", json.dumps({"attributes": {"whose": "mine"}}).encode())
    for place in ("data", "zarr"):
        for replace in (False, True):
            with pytest.raises(DatasetError, match="is no graph store; it is left as it is"):
                generate_graph(REQUEST, name="blocks", out=f"{BUCKET}/{place}", replace=replace, memory_limit=None)
        with pytest.raises(DatasetError, match="is no graph store"):
            fetch_dataset("digits", mirror=None, out=f"{BUCKET}/{place}", replace=False)
    for whole in (BUCKET, f"{BUCKET}/"):
        with pytest.raises(UsageError, match="is a whole bucket"):
            generate_graph(REQUEST, name="blocks", out=whole, replace=True, memory_limit=None)
    assert bucket.cat("graphs/data/precious") == b"mine"
    assert bucket.exists("graphs/zarr/zarr.json")


def test_half_a_store_is_none(bucket: Any) -> None:
    """Guards against an upload that was cut short passing for a store, and against one that can never be repeated."""
    url = f"{BUCKET}/blocks"
    generate_graph(REQUEST, name="blocks", out=url, replace=False, memory_limit=None)
    root = json.loads(bucket.cat("graphs/blocks/zarr.json"))
    bucket.pipe("graphs/blocks/zarr.json", json.dumps(root | {"attributes": {}}).encode())
    assert existing_kind(url) == "nothing"
    with pytest.raises(DatasetError, match="not a finished graph store"):
        GraphStore(url)
    assert not generate_graph(REQUEST, name="blocks", out=url, replace=False, memory_limit=None).reused
    GraphStore(url).check()


def test_the_command_line(bucket: Any, tmp_path: Path) -> None:
    """Guards against a URL that click or pathlib turns into a path."""
    url = f"{BUCKET}/blocks"
    words = ("generate", "sbm", "--name", "blocks", "--nodes", "300", "--edges", "900", "--out", url, "--json")
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["location"] == url
    document = json.loads(run("inspect", url, "--json").stdout)
    assert document["nodes"]["node"]["count"] == 300
    done = run("partition", url, "--parts", "2", "--method", "random", "--json")
    assert json.loads(done.stdout)["cache"] == str(home.cache_path("blocks", "flat-2"))
    assert "a cache is mapped into memory" in refused(2, "partition", url, "--parts", "2", "--out", f"{BUCKET}/cache")


def test_a_pipeline(bucket: Any, tmp_path: Path) -> None:
    """Guards against pipelines that know local stores only."""
    path = tmp_path / "p.yaml"
    path.write_text(
        f"datasets:\n  digits: {{out: {BUCKET}/d}}\n  again: {{store: {BUCKET}/d}}\n"
        "topologies: [2]\npartition: {method: random, effort: none}\nreports: pages\n"
    )
    report = run_pipeline(path)
    assert report.exit_status == 0, report.failure()
    assert np.array_equal(
        PartitionCache(home.cache_path("digits", "flat-2")).array("assignment"),
        PartitionCache(home.cache_path("again", "flat-2")).array("assignment"),
    )
    assert {step.state for step in run_pipeline(path, dry=True).stages} == {"up to date"}


@pytest.mark.xdist_group("dask")
def test_workers_open_the_store_by_its_url(bucket: Any) -> None:
    """Guards against workers that are sent a store that only this process can read."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    store = generate_graph(REQUEST, name="blocks", out=f"{BUCKET}/blocks", replace=False, memory_limit=None).store
    with forked_workers(), open_executor("local:1") as executor:
        assert store_summary(store, executor=executor) == store_summary(store)


@pytest.mark.xdist_group("dask")
def test_workers_write_a_store_at_its_url(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against workers that write where only they find it, and against listings older than their files."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    monkeypatch.setattr("graphprep.store.write.CHUNK_BYTES", 800)
    monkeypatch.setattr("graphprep.store.sort.BYTES_PER_EDGE", 1 << 60)
    options: dict[str, Any] = {"name": "blocks", "replace": False, "memory_limit": None}
    with forked_workers(), open_executor("local:1") as executor:
        found = generate_graph(REQUEST, out=f"{BUCKET}/blocks", executor=executor, **options).store
    found.check()
    assert len(bucket.find(f"{BUCKET}/blocks/edges/node__to__node/indices/c")) > 1
    there = generate_graph(REQUEST, out=tmp_path / "blocks", **options).store
    assert found.attributes == there.attributes


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback of the storage's own library."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert "cannot be" in refused(3, "inspect", f"{BUCKET}/blocks")
    assert "cannot be reached" in refused(3, "fetch", "digits", "--out", f"{BUCKET}/digits")


def test_a_protocol_that_nobody_knows() -> None:
    """Guards against a URL that is found out after the work."""
    with pytest.raises(UsageError, match="nonsense://a/b cannot be used"):
        store_place("nonsense://a/b", "x")
