"""Executors: the same results in the same order from threads and from Dask's workers, also when workers are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.cache import edge_buckets
from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.core.types import RawGraph
from graphprep.datasets.generators.requests import GridRequest, RmatRequest, SbmRequest
from graphprep.datasets.importing.edges import numpy_edges, parquet_edges
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.errors import DatasetError, UsageError
from graphprep.partition.out_of_core import driver, levels
from graphprep.partition.request import PartitionRequest
from graphprep.report.summary import edge_scan
from graphprep.report.summary.store_summary import store_summary
from graphprep.store import external_sort, sort
from graphprep.store.store import GraphStore
from graphprep.system.executor import Executor, Threads, open_executor
from graphprep.system.files.scratch import NoRoomError
from graphprep.topology import Topology
from graphprep.traffic import count_traffic, counts_by_ranges
from graphprep.traffic.counts_by_ranges import count_by_ranges
from pipelines.generate import generate_graph
from pipelines.ingest import import_files
from pipelines.partition import PartitionPlan, run_partition
from tests.end_to_end.test_cli import refused, run
from tests.forks import forked_workers
from tests.graphs import labelled_graph, typed_graph, with_edge_arrays
from tests.soak import soak_count
from tests.stores import make_store

dask = pytest.mark.xdist_group("dask")  # one cluster at a time on a small machine


@pytest.fixture(scope="module", autouse=True)
def fork_workers() -> Iterator[None]:
    """Workers that import nothing; those of commands that are processes start interpreters, as a user's do."""
    with forked_workers():
        yield


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Executor]:
    """Two Dask workers, processes of their own."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed: pip install 'graphprep[dask]'")
    with open_executor("local:2") as executor:
        yield executor


def squared(piece: int, more: int) -> int:
    time.sleep(0.01 * (piece % 3))
    return piece * piece + more


def failing(piece: int) -> int:
    if piece >= 3:
        raise DatasetError(f"piece {piece} is damaged")
    return piece


@pytest.fixture(params=["threads", pytest.param("dask", marks=[dask, pytest.mark.slow])])
def executor(request: pytest.FixtureRequest) -> Executor:
    """Each of them."""
    return Threads() if request.param == "threads" else request.getfixturevalue("two_workers")


@pytest.fixture
def executors(two_workers: Executor) -> tuple[Executor, ...]:
    """Both, for what takes long to make and is compared with one that is made by one thread."""
    return Threads(most=3), two_workers


@pytest.mark.parametrize("count", [0, 1, 20])
def test_results_come_in_the_order_of_the_pieces(executor: Executor, count: int) -> None:
    """Guards against results in the order in which workers finish."""
    assert list(executor.map(squared, range(count), 5, needed=1)) == [piece**2 + 5 for piece in range(count)]


def test_the_first_error_is_the_one_that_is_raised(executor: Executor) -> None:
    """Guards against an error that loses its class or sentence on its way from a worker, and against repeating it."""
    results = executor.map(failing, range(8), needed=1)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DatasetError, match="piece 3 is damaged") as caught:
        next(results)
    assert caught.value.exit_status == 3


def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many ranges in small graphs."""
    monkeypatch.setattr(edge_scan, "EDGES_AT_A_TIME", 40)
    monkeypatch.setattr(counts_by_ranges, "EDGES_AT_A_TIME", 60)


def stores() -> dict[str, GraphStore]:
    """Directed with weights, undirected, of several types."""
    rng = np.random.default_rng(11)
    return {
        "directed": make_store(labelled_graph(rng, num_nodes=300, num_edges=2000, weighted=True), "directed"),
        "undirected": make_store(labelled_graph(rng, num_nodes=200, num_edges=900, undirected=True), "undirected"),
        "typed": make_store(typed_graph(rng), "typed"),
    }


@pytest.mark.slow
@dask
def test_statistics_are_the_same(executors: tuple[Executor, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against figures that depend on who looks at the edges."""
    small_ranges(monkeypatch)
    for name, store in stores().items():
        expected = store_summary(store, executor=Threads(most=1))
        for executor in executors:
            assert store_summary(store, executor=executor) == expected, name


@pytest.mark.parametrize("num_parts", [3, 70])
def test_traffic_is_the_same(executor: Executor, num_parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against rows that are counted once a range instead of once."""
    small_ranges(monkeypatch)
    rng = np.random.default_rng(4)
    for store in stores().values():
        parts = {name: rng.integers(0, num_parts, count).astype(np.int32) for name, count in store.num_nodes.items()}
        expected = count_traffic({kind: store.csr(kind) for kind in store.num_edges}, parts, num_parts)
        found = count_by_ranges(store, parts, num_parts, executor)
        assert np.array_equal(found.rows_PP, expected.rows_PP)
        assert np.array_equal(found.edges_PP, expected.edges_PP)
        assert np.array_equal(found.local_edges_P, expected.local_edges_P)


def partitioned(store: GraphStore, target: Path, executor: Executor | None, method: str = "random") -> PartitionCache:
    """A cache of five parts."""
    request = PartitionRequest(method=method, effort="none")
    plan = PartitionPlan(store=store, topology=Topology.flat(5), request=request, target=target)
    return run_partition(plan, executor=executor).cache


def sums(cache: PartitionCache) -> dict[str, str]:
    """Of all files but the root's attributes, which hold how long the methods took."""
    files = cache.check_sizes().files
    return {path: entry.sha256 for path, entry in files.items() if path != "zarr.json"}


@pytest.mark.slow
@dask
def test_caches_are_the_same(executors: tuple[Executor, ...], tmp_path: Path) -> None:
    """Guards against a part that a worker writes from other regions, or into another folder."""
    for name, store in stores().items():
        expected = sums(partitioned(store, tmp_path / name / "expected", Threads(most=1)))
        for executor in executors:
            found = partitioned(store, tmp_path / name / type(executor).__name__, executor)
            verify_cache(found)
            assert sums(found) == expected, name


def everything_in(store: GraphStore) -> dict[str, bytes]:
    """What lies in the store's folder, by path."""
    folder = Path(store.location)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def noted_work(kind: type[Executor], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that executors of a kind are given from now on."""
    made: list[str] = []
    map_ = kind.map

    def noted(self: Executor, function: Any, *arguments: Any, **needed: Any) -> Any:
        made.append(function.__name__)
        return map_(self, function, *arguments, **needed)

    monkeypatch.setattr(kind, "map", noted)
    return made


def many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of small graphs have many files, and edges on their way to them lie in many."""
    monkeypatch.setattr("graphprep.store.write.CHUNK_BYTES", 640)
    monkeypatch.setattr(external_sort, "LEAST_RANGE_BITS", 2)
    monkeypatch.setattr(external_sort, "MOST_RANGES", 40)


def graphs() -> dict[str, RawGraph]:
    """Of several types with edge features, undirected, with weights."""
    rng = np.random.default_rng(12)
    return {
        "typed": with_edge_arrays(rng, typed_graph(rng)),
        "undirected": labelled_graph(rng, num_nodes=200, num_edges=900, undirected=True),
        "weighted": labelled_graph(rng, num_nodes=300, num_edges=2000, weighted=True),
    }


@pytest.mark.slow
@dask
def test_stores_are_the_same(executors: tuple[Executor, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against edges that depend on who sorts and writes them, and on whether they fit in memory."""
    many_files(monkeypatch)
    made = {type(executor): noted_work(type(executor), monkeypatch) for executor in executors}
    expected: dict[str, dict[str, bytes]] = {}

    def compare(executor: Executor, folder: Path) -> None:
        for name, raw in graphs().items():
            found = make_store(raw, target=folder / name, executor=executor)
            found.check()
            assert everything_in(found) == expected.setdefault(name, everything_in(found))
        assert len(list(folder.iterdir())) == 3  # and nothing beside them

    for executor in (Threads(most=1), executors[1]):
        compare(executor, tmp_path / f"fits-{type(executor).__name__}")
        assert "_sorted" not in made[type(executor)]
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    for executor in executors:
        compare(executor, tmp_path / type(executor).__name__)
        assert "_sorted" in made[type(executor)]


@pytest.mark.slow
@dask
def test_files_are_read_the_same(
    executors: tuple[Executor, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against ids and edges that depend on who reads a user's files, and on whether they fit in memory."""
    many_files(monkeypatch)
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 300, (2, 20_000)) * 7
    text, array, table = tmp_path / "e.txt", tmp_path / "e.npy", tmp_path / "e.parquet"
    np.savetxt(text, np.stack([src, dst], axis=1)[:6000], fmt="%d")
    np.save(array, np.stack([src, dst], axis=1)[6000:11_000])
    pq.write_table(pa.table({"source": src[11_000:], "target": dst[11_000:]}), table, 3000)
    for module in (numpy_edges, parquet_edges):
        monkeypatch.setattr(module, "ROWS_A_SECTION", 2000)
    monkeypatch.setattr("graphprep.datasets.importing.edges.edge_text.BYTES_A_SECTION", 20_000)
    request = ImportRequest.of_one_type((text, array, table), undirected=True)
    options: dict[str, Any] = {"name": "mine", "replace": False}
    made = {type(executor): noted_work(type(executor), monkeypatch) for executor in executors}
    expected = everything_in(import_files(request, **options, out=tmp_path / "one", executor=Threads(most=1)).store)

    def compare(executor: Executor, name: str, *, fits: bool) -> None:
        made[type(executor)].clear()
        found = import_files(request, **options, out=tmp_path / name, executor=executor).store
        assert everything_in(found) == expected
        assert ("_scan_section" in made[type(executor)]) == executor.is_elsewhere
        assert ("write_section" in made[type(executor)]) == (executor.is_elsewhere and not fits)

    compare(executors[1], "fits", fits=True)
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    for executor in executors:
        compare(executor, type(executor).__name__, fits=False)


@pytest.mark.slow
@dask
def test_generated_stores_are_the_same(
    executors: tuple[Executor, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against edges that depend on who draws them."""
    many_files(monkeypatch)
    monkeypatch.setattr("graphprep.datasets.generators.chunks.EDGES_AT_A_TIME", 500)
    monkeypatch.setattr("graphprep.datasets.generators.grid.EDGES_AT_A_TIME", 500)
    requests = {
        "sbm": SbmRequest(nodes=900, edges=5000),
        "rmat": RmatRequest(scale=9, edges=5000),
        "grid": GridRequest(sides=(17, 11, 5)),
    }
    options: dict[str, Any] = {"name": "mine", "replace": False, "memory_limit": None}
    expected = {name: generate_graph(made, **options, out=tmp_path / name).store for name, made in requests.items()}
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    for executor in executors:
        made = noted_work(type(executor), monkeypatch)
        for name, request in requests.items():
            target = tmp_path / f"{name}-{type(executor).__name__}"
            found = generate_graph(request, **options, out=target, executor=executor).store
            assert everything_in(found) == everything_in(expected[name])
        assert "write_section" in made


def many_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs are partitioned by passes, through several levels of several ranges, and sorted through files."""
    small_ranges(monkeypatch)
    monkeypatch.setattr("pipelines.partition.needs_out_of_core", lambda *_, **__: True)
    settings = levels.Settings(coarsest_nodes=250, edges_a_range=4000, rows_a_range=250)
    monkeypatch.setattr(driver, "Settings", lambda: settings)
    monkeypatch.setattr(levels, "LEAST_NODES", 10)
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)


def by_passes(store: GraphStore, target: Path, executor: Executor | None, balance: str = "rows") -> PartitionCache:
    """A cache of three parts."""
    request = PartitionRequest(method="multilevel", effort="fast", balance=balance)
    plan = PartitionPlan(store=store, topology=Topology.flat(3), request=request, target=target)
    return run_partition(plan, executor=executor).cache


@pytest.mark.slow
@dask
@pytest.mark.parametrize("balance", ["rows", "edges"])
def test_passes_over_files_are_the_same(
    executors: tuple[Executor, ...],
    balance: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guards against labels, levels, proposals or counts that depend on who makes the passes."""
    many_passes(monkeypatch)
    made = {type(executor): noted_work(type(executor), monkeypatch) for executor in executors}
    store = make_store(labelled_graph(np.random.default_rng(8), num_nodes=400, num_edges=3000))
    expected = sums(by_passes(store, tmp_path / "one", Threads(most=1), balance))
    rounds = {
        "write_section",
        "_visited",
        "_sorted",
        "_num_kept",
        "_kept",
        "_weights_counted",
        "_proposed_by_weight",
        "_ordered",
    }
    rounds |= {"_rows_counted", "_proposed_by_rows"} if balance == "rows" else set()
    for executor in executors:
        made[type(executor)].clear()
        capsys.readouterr()
        cache = by_passes(store, tmp_path / type(executor).__name__, executor, balance)
        assert rounds <= set(made[type(executor)])
        said = capsys.readouterr().err
        assert "level 1: refining" in said
        assert ("counting traffic" in said) == executor.is_elsewhere
        # Workers elsewhere write those edges themselves.
        assert ("_crossing" in made[type(executor)]) != executor.is_elsewhere
        assert sums(cache) == expected
    assert {path.name for path in tmp_path.iterdir()} == {"one", "Threads", "DaskExecutor"}


@pytest.fixture(scope="module")
def mortal_workers() -> Iterator[Executor]:
    """Two Dask workers to be killed, each of which is soon replaced."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    with open_executor("local:2") as executor:
        yield executor


@pytest.mark.slow
@dask
@pytest.mark.soak
def test_killed_workers_change_nothing(
    mortal_workers: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against work that is lost, or counted twice, with the worker that did it."""
    small_ranges(monkeypatch)
    monkeypatch.setattr(edge_buckets, "row_ranges", lambda indptr, edges: _many(indptr))
    store = make_store(labelled_graph(np.random.default_rng(2), num_nodes=400, num_edges=3000, weighted=True))
    assignment = {"node": np.random.default_rng(3).integers(0, 5, 400).astype(np.int32)}
    summary = store_summary(store)
    traffic = count_traffic({kind: store.csr(kind) for kind in store.num_edges}, assignment, 5)
    expected = sums(partitioned(store, tmp_path / "expected", None))
    trials, kills = soak_count(20), 0
    random_ = random.Random(20261128)
    for trial in range(trials):
        with killing(mortal_workers, random_) as killed:
            assert store_summary(store, executor=mortal_workers) == summary
            found = count_by_ranges(store, assignment, 5, mortal_workers)
            assert np.array_equal(found.rows_PP, traffic.rows_PP)
            assert np.array_equal(found.edges_PP, traffic.edges_PP)
            cache = partitioned(store, tmp_path / f"trial-{trial}", mortal_workers)
        verify_cache(cache)
        assert sums(cache) == expected
        kills += len(killed)
    assert kills >= trials // 2


def _many(indptr: Any) -> list[tuple[int, int]]:
    from graphprep.core.row_ranges import row_ranges

    return row_ranges(indptr, 50)


@contextmanager
def killing(executor: Any, random_: random.Random, *, within: float = 1.0) -> Iterator[list[int]]:
    """Kill a worker after a random time in the block, of so many seconds at most, and another one after that."""
    killed: list[int] = []
    over = threading.Event()
    pids = executor.client.run(os.getpid)

    def kill() -> None:
        for pid in random_.sample(sorted(pids.values()), len(pids)):
            if over.wait(random_.uniform(0, within)):
                return
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
        executor.client.wait_for_workers(len(pids), timeout=120)


@pytest.mark.slow
@dask
@pytest.mark.soak
def test_killed_workers_change_no_store(
    mortal_workers: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against half a range that is taken for whole, and half a file that is left in a store."""
    many_files(monkeypatch)
    raw = labelled_graph(np.random.default_rng(6), num_nodes=600, num_edges=5000, weighted=True)
    monkeypatch.setattr("graphprep.datasets.importing.edges.edge_text.BYTES_A_SECTION", 5000)
    rng = np.random.default_rng(7)
    np.savetxt(tmp_path / "e.txt", rng.integers(0, 600, (5000, 2)) * 7, fmt="%d")
    request = ImportRequest.of_one_type((tmp_path / "e.txt",))

    def stores(name: str, executor: Executor | None) -> list[dict[str, bytes]]:
        own = import_files(request, name="mine", out=tmp_path / f"own-{name}", replace=False, executor=executor).store
        return [everything_in(make_store(raw, target=tmp_path / name, executor=executor)), everything_in(own)]

    expected = stores("expected", None)
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    trials, kills = soak_count(20), 0
    random_ = random.Random(20261130)
    started = time.monotonic()
    assert stores("whole", mortal_workers) == expected
    seconds = time.monotonic() - started
    for trial in range(trials):
        with killing(mortal_workers, random_, within=seconds / 2) as killed:
            found = stores(f"trial-{trial}", mortal_workers)
        assert found == expected, trial
        kills += len(killed)
    assert kills >= trials // 2


@pytest.mark.slow
@dask
@pytest.mark.soak
def test_killed_workers_change_no_part(
    mortal_workers: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a pass that takes what a dead worker had begun, or what an earlier round has left."""
    many_passes(monkeypatch)
    store = make_store(labelled_graph(np.random.default_rng(5), num_nodes=400, num_edges=3000))
    expected = sums(by_passes(store, tmp_path / "expected", None))
    trials, kills = soak_count(20), 0
    random_ = random.Random(20261129)
    started = time.monotonic()
    assert sums(by_passes(store, tmp_path / "whole", mortal_workers)) == expected
    seconds = time.monotonic() - started
    for trial in range(trials):
        with killing(mortal_workers, random_, within=seconds / 2) as killed:
            cache = by_passes(store, tmp_path / f"trial-{trial}", mortal_workers)
        assert sums(cache) == expected, trial
        kills += len(killed)
    assert kills >= trials // 2


@pytest.mark.slow
@dask
def test_passes_by_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against parts that depend on how many make the passes over files: one here, two above."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    many_passes(monkeypatch)
    store = make_store(labelled_graph(np.random.default_rng(9), num_nodes=400, num_edges=3000, undirected=True))
    one = by_passes(store, tmp_path / "one", None)
    with open_executor("local:1") as workers:
        other = by_passes(store, tmp_path / "other", workers)
    assert np.array_equal(one.assignment("node"), other.assignment("node"))
    assert len(np.unique(one.assignment("node"))) == 3
    assert sums(one) == sums(other)


@pytest.mark.slow
@dask
def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    """Guards against an assignment that depends on how many work on it, from the command line."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    assert run("generate", "sbm", "--name", "blocks", "--nodes", "3000", "--edges", "20000").returncode == 0
    command = ("partition", "blocks", "--parts", "3", "--method", "multilevel", "--seed", "3", "-q")
    assert run(*command, "--out", tmp_path / "threads").returncode == 0
    done = run(*command, "--out", tmp_path / "dask", "--dask", "local:2")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert sums(PartitionCache(tmp_path / "dask")) == sums(PartitionCache(tmp_path / "threads"))


@pytest.mark.slow
@dask
def test_a_scheduler_elsewhere(two_workers: Any) -> None:
    """Guards against --dask ADDRESS that only works with workers that are started here."""
    make_store(labelled_graph(np.random.default_rng(1), num_nodes=100, num_edges=400), "graph")
    address = two_workers.client.scheduler.address
    done = run("inspect", "graph", "--json", "--dask", address)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run("inspect", "graph", "--json").stdout


@pytest.mark.slow
@dask
def test_workers_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a cluster that gives workers up which take their time, until it has none."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    import dask.config

    from graphprep.system import dask_executor

    monkeypatch.setattr(dask_executor, "SECONDS_WITHOUT_WORKERS", 60.0)
    hasty = dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"})
    with hasty, dask_executor.open_dask("local:1") as executor:
        for _ in range(2):
            [pid] = executor.client.run(os.getpid).values()
            deadline = time.monotonic() + 60
            # Dask gives a worker up for good that ends while its nanny still starts it.
            while {nanny.status.name for nanny in executor.client.cluster.workers.values()} != {"running"}:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            os.kill(pid, signal.SIGKILL)
            assert list(executor.map(squared, [3], 1, needed=1)) == [10]


@pytest.mark.slow
@dask
def test_interrupts_are_not_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against Ctrl-C, which a terminal sends to workers too, and of which each of them writes a traceback."""
    monkeypatch.setattr("graphprep.system.dask_executor.SECONDS_WITHOUT_WORKERS", 10.0)
    as_for_users = pytest.importorskip("dask.config").set({"distributed.worker.multiprocessing-method": "spawn"})
    with as_for_users, open_executor("local:1") as executor:
        [pid] = executor.client.run(os.getpid).values()
        os.kill(pid, signal.SIGINT)
        assert list(executor.map(abs, [-1, 2], needed=1)) == [1, 2]
        assert list(executor.client.run(os.getpid).values()) == [pid]


@pytest.mark.slow
@dask
def test_a_cluster_without_workers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a batch job that waits for ever after the last worker has gone for good."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    from graphprep.system import dask_executor

    monkeypatch.setattr(dask_executor, "SECONDS_BETWEEN_LOOKS", 0.2)
    monkeypatch.setattr(dask_executor, "SECONDS_WITHOUT_WORKERS", 1.0)
    with dask_executor.open_dask("local:1") as executor:
        assert list(executor.map(abs, [-1, 2], needed=1)) == [1, 2]
        executor.client.cluster.scale(0)
        with pytest.raises(dask_executor.WorkersLostError, match="no workers"):
            list(executor.map(abs, [-1], needed=1))


@pytest.mark.parametrize("where", ["local", "local:0", "local:x", "nowhere", ""])
def test_what_is_no_cluster(where: str) -> None:
    """Guards against a traceback for a slip of the pen."""
    with pytest.raises(UsageError, match="neither a scheduler's address"), open_executor(where):
        pass


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a command that hangs where no scheduler is."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")
    monkeypatch.setattr("graphprep.system.dask_executor.SECONDS_TO_CONNECT", 1)
    with pytest.raises(UsageError, match="no scheduler answers there"), open_executor("tcp://127.0.0.1:9"):
        pass


@pytest.mark.slow
def test_workers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback, or a sentence about the operating system, on a machine that is too busy."""
    distributed = pytest.importorskip("distributed", reason="dask[distributed] is not installed")

    def late(*_: Any, **__: Any) -> None:
        raise TimeoutError("Only 0/1 workers arrived")

    monkeypatch.setattr(distributed.Client, "wait_for_workers", late)
    with pytest.raises(UsageError, match="the workers did not start within"), open_executor("local:1"):
        pass


class Unpacked:
    """What finds no room on its way."""

    def __reduce__(self) -> str:
        raise NoRoomError("the disk is full")


@pytest.mark.slow
@dask
def test_a_full_disk_on_the_way_to_workers(two_workers: Executor) -> None:
    """Guards against Dask's error about pickling in place of the sentence."""
    with pytest.raises(NoRoomError, match="the disk is full"):
        list(two_workers.map(squared, [1], Unpacked(), needed=1))


@pytest.mark.slow
def test_dask_is_imported_only_when_asked_for() -> None:
    """Guards against a dependency that everybody would need: without Dask all works but --dask, which says so."""
    script = """
import sys
sys.modules["dask"] = sys.modules["dask.config"] = sys.modules["distributed"] = None
import pipelines.partition, pipelines.look
from graphprep.system.executor import open_executor
with open_executor(None):
    pass
try:
    with open_executor("local:2"):
        pass
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert "pip install 'graphprep[dask]'" in done.stdout


def test_a_cache_has_no_edges_to_look_at(tmp_path: Path) -> None:
    """Guards against options that do nothing."""
    partitioned(make_store(labelled_graph(np.random.default_rng(1), num_nodes=20, num_edges=40)), tmp_path / "c", None)
    for words in (("--dask", "local:2"), ("--memory", "2GB")):
        assert f"{words[0]} is about the edges of a store" in refused(2, "inspect", tmp_path / "c", *words)


@pytest.mark.slow
def test_one_sentence_on_the_command_line() -> None:
    """Guards against a wrong word that is found out after the work."""
    make_store(labelled_graph(np.random.default_rng(1), num_nodes=10, num_edges=40), "graph")
    assert "--dask 'here'" in refused(2, "inspect", "graph", "--dask", "here")
    for words in (
        ("fetch", "karate"),
        ("generate", "grid", "--name", "g", "--sides", "9"),
        ("import", "e.txt", "--name", "e"),
    ):
        assert "--dask 'here'" in refused(2, *words, "--dask", "here")


@pytest.mark.slow
@dask
def test_commands_make_stores_on_workers(two_workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an option that does not reach the conversion."""
    made = noted_work(type(two_workers), monkeypatch)
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    (tmp_path / "e.txt").write_text("0 1\n1 2\n")
    read = {
        ("fetch", "karate"): [],
        ("generate", "grid", "--name", "g", "--sides", "9x3"): ["write_section"],
        ("import", tmp_path / "e.txt", "--name", "e"): ["_scan_section", "write_section"],
    }
    for words, before in read.items():
        made.clear()
        done = CliRunner().invoke(main, [*map(str, words), "--dask", two_workers.client.scheduler.address])
        assert done.exit_code == 0, done.output
        assert made == [*before, "_sorted", "_written"], words
