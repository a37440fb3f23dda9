"""Run a stage again and again, kill -9 at a chosen moment each time, and look at what is left.

`python -m tests.kill_driver SEED TRIALS FOLDER` reads the names of stages, a line each, and answers each with a line of
its exit status, after what is wrong. An audit hook counts every file that is opened for writing, every rename, every
new folder and every removal, and kills the process just before the n-th of them; half of the trials kill from outside
after a random time instead, which also hits the middle of a write. Each trial is a fork of this process, which has
imported everything and started no thread, so that a hundred of them take minutes.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import zarr  # noqa: F401 - imported before the forks
from markupsafe import Markup
from numba.extending import is_jitted
from sklearn.datasets import load_digits

from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.core.csr import from_edges
from graphprep.core.types import HOMOGENEOUS_EDGE
from graphprep.datasets import generators
from graphprep.datasets.generators.requests import SbmRequest
from graphprep.datasets.generators.sbm import generate
from graphprep.datasets.importing.import_request import request_of
from graphprep.datasets.importing.options import ImportOptions
from graphprep.datasets.readers import digits
from graphprep.partition.request import PartitionRequest
from graphprep.report import pages
from graphprep.store import external_sort, sort
from graphprep.store.store import GraphStore
from graphprep.system import home, progress
from pipelines.extend import extend_store
from pipelines.generate import generate_graph
from pipelines.ingest import fetch_dataset
from pipelines.partition import plan_partition, run_partition
from pipelines.repartition.extend_parts import plan_extended
from pipelines.run.run import run_pipeline

LABEL = "flat-3"
SECONDS_A_STAGE = 1200
"""after which the whole process ends"""
BLOCKS = SbmRequest(nodes=300, edges=3000)
WRITING = os.O_WRONLY | os.O_RDWR
CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir")


def convert() -> None:
    fetch_dataset("digits", mirror=None)


def by_sections() -> None:
    """By way of the disk, the edges in several sections and ranges; patches stay in the child."""
    sort.BYTES_PER_EDGE = 1 << 60
    external_sort.MOST_RANGES, external_sort.LEAST_RANGE_BITS = 4, 2
    generators.EDGES_AT_A_TIME = 200
    generate_graph(BLOCKS, name="blocks", out=None, replace=False, memory_limit=None)


def blocks_are_whole_or_absent() -> None:
    path = home.store_path("blocks")
    if path.exists():
        GraphStore(path).check()


def blocks_are_as_in_memory() -> None:
    store = GraphStore(home.store_path("blocks"))
    store.check()
    nothing_is_left_over(home.home() / "stores")
    generators.EDGES_AT_A_TIME = 200
    raw = generate(BLOCKS, folder=home.home())
    expected, _ = from_edges(
        raw.edges[0].chunks(), num_rows=BLOCKS.nodes, num_sources=BLOCKS.nodes, treatment=raw.treatment, name="blocks"
    )
    found = store.csr(HOMOGENEOUS_EDGE)
    assert np.array_equal(found.indptr, expected.indptr)
    assert np.array_equal(found.indices, expected.indices)


def partition(seed: int = 0, *, replace: bool = False) -> None:
    plan = plan_partition(
        "digits", parts=3, topology=None, request=PartitionRequest(method="metis", seed=seed), out=None
    )
    run_partition(plan, replace_other=replace)


def partition_anew() -> None:
    partition(seed=1, replace=True)


def store_is_whole_or_absent() -> None:
    path = home.store_path("digits")
    if path.exists():
        GraphStore(path).check()


def cache_is_whole_or_absent() -> None:
    store_is_whole_or_absent()
    path = home.cache_path("digits", LABEL)
    if path.exists():
        verify_cache(PartitionCache(path))


def store_is_whole() -> None:
    GraphStore(home.store_path("digits")).check()
    nothing_is_left_over(home.home() / "stores")


def cache_is_whole() -> None:
    verify_cache(PartitionCache(home.cache_path("digits", LABEL)))
    nothing_is_left_over(home.cache_path("digits", LABEL).parent)


def write_new_nodes() -> None:
    """The store of digits, its cache, and files of three new nodes."""
    convert()
    partition()
    rng = np.random.default_rng(1)
    np.save(home.home() / "x.npy", rng.random((3, 64)).astype(np.float32))
    lines = [f"{1797 + row},{other}" for row in range(3) for other in (row, 1797)]
    (home.home() / "new.csv").write_text("\n".join(lines) + "\n")


def extend() -> None:
    options = ImportOptions(edges=(home.home() / "new.csv",), features=home.home() / "x.npy")
    extend_store("digits", request_of(options), name="more")


def extended_store_is_whole_or_absent() -> None:
    cache_is_whole_or_absent()
    path = home.store_path("more")
    if path.exists():
        GraphStore(path).check()


def extended_store_is_whole() -> None:
    store = GraphStore(home.store_path("more"))
    store.check()
    assert store.num_nodes == {"node": 1800}
    nothing_is_left_over(home.home() / "stores")


def extend_parts() -> None:
    run_partition(plan_extended("more", home.cache_path("digits", LABEL), options={}))


def extended_cache_is_whole_or_absent() -> None:
    path = home.cache_path("more", LABEL)
    if path.exists():
        verify_cache(PartitionCache(path))


def extended_cache_is_whole() -> None:
    cache = PartitionCache(home.cache_path("more", LABEL))
    verify_cache(cache)
    before = PartitionCache(home.cache_path("digits", LABEL)).assignment("node")
    assert np.array_equal(cache.assignment("node")[: len(before)], before)
    nothing_is_left_over(home.cache_path("more", LABEL).parent)


PIPELINE = """\
datasets: {digits: }
topologies: [3]
partition: {method: metis}
verify: true
reports: pages
exports: {npz: arrays}
"""


def write_pipeline() -> None:
    home.home().mkdir(parents=True, exist_ok=True)
    (home.home() / "p.yaml").write_text(PIPELINE)


def run_all() -> None:
    report = run_pipeline(home.home() / "p.yaml")
    assert report.exit_status == 0, report.failure()


def all_is_up_to_date() -> None:
    cache_is_whole()
    report = run_pipeline(home.home() / "p.yaml", dry=True)
    assert {step.state for step in report.stages} == {"up to date"}, report.to_json()
    for folder in ("pages", "pages/digits", "arrays/digits"):
        nothing_is_left_over(home.home() / folder)


def nothing_is_left_over(folder: Path) -> None:
    stray = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert not stray, stray


Stage = tuple[Callable[[], None], Callable[[], None], Callable[[], None], Callable[[], None]]
STAGES: dict[str, Stage] = {
    "sections": (lambda: None, by_sections, blocks_are_whole_or_absent, blocks_are_as_in_memory),
    "convert": (lambda: None, convert, store_is_whole_or_absent, store_is_whole),
    "cache": (convert, partition, cache_is_whole_or_absent, cache_is_whole),
    "extend": (write_new_nodes, extend, extended_store_is_whole_or_absent, extended_store_is_whole),
    "extend-parts": (
        lambda: (write_new_nodes(), extend())[0],
        extend_parts,
        extended_cache_is_whole_or_absent,
        extended_cache_is_whole,
    ),
    "run": (write_pipeline, run_all, cache_is_whole_or_absent, all_is_up_to_date),
    "replace": (lambda: (convert(), partition())[0], partition_anew, cache_is_whole_or_absent, cache_is_whole),
}


Compiled = dict[str, list[Any]]
"""Signatures of compiled kernels by module and name."""

Loaded = tuple[list[str], Compiled]
"""Names of imported modules, and compiled kernels."""


def kernels() -> dict[str, Any]:
    """All kernels of the project but those with loops in parallel, whose threads must not be there before a fork."""
    return {
        f"{module.__name__}.{name}": kernel
        for module in list(sys.modules.values())
        if module.__name__.startswith("graphprep.")
        for name, kernel in vars(module).items()
        if is_jitted(kernel) and not kernel.targetoptions.get("parallel")
    }


def noting_loaded(action: Callable[[], None], path: Path) -> Callable[[], None]:
    """`action`, which then writes down the modules that it imported and the kernels that it called."""

    def run() -> None:
        action()
        compiled = {name: list(kernel.signatures) for name, kernel in kernels().items()}
        path.write_bytes(pickle.dumps((list(sys.modules), compiled)))

    return run


def load(loaded: Loaded) -> None:
    """Import the modules and read the kernels from numba's cache once, and not in each of the forks."""
    modules, compiled = loaded
    for name in modules:
        with suppress(ImportError):  # of names that are no modules of their own
            importlib.import_module(name)
    for name, kernel in kernels().items():
        for signature in compiled.get(name, []):
            kernel.compile(signature)


def in_child(action: Callable[[], None], folder: Path, kill_after: float | None = None) -> int:
    """Run `action` in a fork; returns its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        os.environ["GRAPHPREP_HOME"] = str(folder)
        progress.configure(quiet=True)
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - the parent must hear of everything
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(number: int, action: Callable[[], None], root: Path) -> Callable[[], None]:
    """`action`, killed just before its change number `number` below `root`; without a kill if there are fewer."""

    def run() -> None:
        seen = 0

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal seen
            changes = event in CHANGES or (event == "open" and arguments[2] & WRITING)
            if changes and str(root) in str(arguments[0]):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        action()
        (root / "changes").write_text(str(seen))

    return run


def without_long_sums() -> None:
    """Let forks leave out what takes most of their time and writes no file: who is near whom, and how a plot looks."""
    os.fsync = lambda _file: None  # a process that is killed leaves what it wrote to the kernel
    pairs = digits.neighbour_pairs(load_digits().data, 8)
    digits.neighbour_pairs = lambda *_: pairs
    pages.environment().globals["drawn"] = lambda name, alt, *_, **__: Markup(f"{name}: {alt}")
    for name in pages.environment().list_templates():
        pages.environment().get_template(name)


def trial_stage(stage: str, seed: int, trials: int, folder: Path) -> int:
    """Returns 0 if no trial left something half-done; prints what went wrong otherwise."""
    signal.alarm(SECONDS_A_STAGE)
    prepare, action, after_kill, after_again = STAGES[stage]
    random_ = random.Random(seed)
    prepared = folder / "prepared"
    prepared.mkdir(parents=True)
    assert in_child(prepare, prepared) == 0
    root = Path(shutil.copytree(prepared, folder / "whole"))
    threads = len(os.listdir("/proc/self/task"))
    for number, whole in enumerate((action, after_kill, after_again)):
        assert in_child(noting_loaded(whole, folder / f"kernels-{number}"), root) == 0
        load(pickle.loads((folder / f"kernels-{number}").read_bytes()))
    assert len(os.listdir("/proc/self/task")) == threads, "an import started a thread, which forks would lack"
    gc.collect()
    gc.freeze()  # so that collections in forks do not copy all pages
    root = Path(shutil.copytree(prepared, folder / "counted"))
    started = time.monotonic()
    assert in_child(killed_at(-1, action, root), root) == 0
    seconds = time.monotonic() - started
    changes = int((root / "changes").read_text())
    kills = 0
    for trial in range(trials):
        root = Path(shutil.copytree(prepared, folder / f"trial-{trial}"))
        if trial % 2:
            status = in_child(action, root, kill_after=random_.uniform(0, seconds))
        else:
            status = in_child(killed_at(random_.randint(1, changes), action, root), root)
        kills += status == -signal.SIGKILL
        for check in (after_kill, action, after_again):
            if in_child(check, root) != 0:
                print(f"stage {stage}, seed {seed}, trial {trial}: {check.__name__} failed in {root}")
                return 1
    print(f"{kills} kills in {trials} trials over {changes} changes")
    return 0 if kills >= trials // 3 else 1


if __name__ == "__main__":
    without_long_sums()
    for line in sys.stdin:
        wanted = line.strip()
        print(trial_stage(wanted, int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3], wanted)), flush=True)
