"""From files to losses through the commands that people type; needs the real data sets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.cache.rebuild import rebuild_csr
from graphprep.cache.verify import verify_cache
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from graphprep.store.store import GraphStore
from graphprep.system import home
from tests.end_to_end.test_cli import CLI, run, run_as_process
from tests.trainer.rank_group import Task, among_ranks, train_once

pytestmark = pytest.mark.slow
EPOCHS = 10


def test_ego_twitter_comes_back_edge_for_edge(test_data: Path) -> None:
    """Guards against an edge or a node that is lost or doubled between the file and eight parts."""
    source = test_data / "edges" / "ego-twitter.txt.gz"
    done = run("import", source, "--name", "ego-twitter", "--undirected", "-q")
    assert done.returncode == 0, done.stderr
    done = run("partition", "ego-twitter", "--parts", "8", "--effort", "fast", "-q", "--json")
    assert done.returncode == 0, done.stderr
    cache = PartitionCache(json.loads(done.stdout)["cache"])
    verify_cache(cache)
    pairs = np.loadtxt(source, dtype=np.int64)
    assert pairs.shape == (1_342_310, 2)
    other = pairs[pairs[:, 0] != pairs[:, 1]]
    assert len(pairs) - len(other) == 14
    both = np.concatenate([pairs, other[:, ::-1]])
    both = both[np.lexsort((both[:, 0], both[:, 1]))]
    rebuilt = rebuild_csr(cache, HOMOGENEOUS_EDGE)
    assert rebuilt.num_rows == 81_306
    assert np.array_equal(rebuilt.indices, both[:, 0])
    assert np.array_equal(np.repeat(np.arange(81_306), np.diff(rebuilt.indptr)), both[:, 1])
    owners = np.concatenate([cache.node_array(part, HOMOGENEOUS_NODE, "global_ids") for part in range(8)])
    assert np.array_equal(np.sort(owners), np.arange(81_306))


class SlowMirror(SimpleHTTPRequestHandler):
    """Serves a folder slowly, so that a download can be killed in the middle."""

    def copyfile(self, source: object, outputfile: object) -> None:
        while piece := source.read(16_000):  # type: ignore[attr-defined]
            try:
                outputfile.write(piece)  # type: ignore[attr-defined]
            except ConnectionError:
                return  # the reader was killed, as the test wants
            time.sleep(0.02)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(test_data: Path) -> Iterator[str]:
    handler = partial(SlowMirror, directory=str(test_data / "mirror"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_killed_fetch_leaves_nothing_that_passes_for_whole(mirror: str, test_data: Path) -> None:
    """Guards against a cut download that is taken for the file: five kills, each a little further on."""
    originals = {path.name: path.read_bytes() for path in (test_data / "mirror").rglob("ind.cora.*")}
    folder = home.raw_folder("cora")

    def downloaded() -> int:
        total = 0
        for path in folder.glob("*"):
            with suppress(FileNotFoundError):  # renamed since
                total += path.stat().st_size
        return total

    kills = 0
    for _ in range(5):
        before = downloaded()
        child = subprocess.Popen([*CLI, "fetch", "cora", "--mirror", mirror, "-q"], stdout=subprocess.DEVNULL)
        while child.poll() is None:
            if downloaded() > before + 30_000:
                child.send_signal(signal.SIGKILL)
                break
            time.sleep(0.005)
        kills += child.wait() == -signal.SIGKILL
        for path in folder.glob("ind.cora.*"):
            assert path.read_bytes() == originals[path.name]
    assert kills >= 3
    done = run("fetch", "cora", "--mirror", mirror, "-q")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") == sorted(originals)
    GraphStore(home.store_path("cora")).check()


@pytest.fixture(scope="module")
def cora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with Cora and its caches for one to four parts."""
    folder = os.environ.get("GRAPHPREP_TEST_DATA")
    if not folder:
        pytest.skip("GRAPHPREP_TEST_DATA is not set: the real data sets are not here")
    where = tmp_path_factory.mktemp("cora")
    commands = [["fetch", "cora", "--mirror", str(Path(folder) / "mirror")]]
    commands += [["partition", "cora", "--parts", str(parts)] for parts in (1, 2, 3, 4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(where))
        for words in commands:
            done = run(*words, "-q")
            assert done.returncode == 0, done.stderr
    return where


def losses_by_command(cache: str) -> list[float]:
    """Of GCN, by `graphprep train` as a process, which starts an interpreter for each rank."""
    options = (
        "--hidden",
        "8",
        "--dropout",
        "0",
        "--epochs",
        str(EPOCHS),
        "--patience",
        "0",
        "--device",
        "cpu",
        "-q",
        "--json",
    )
    done = run_as_process("train", cache, *options)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert "test_accuracy" in lines[-1]
    return [line["loss"] for line in lines[:-1]]


def losses_among_forks(cache: str) -> list[list[float]]:
    """Of GCN and of GraphSAGE, among ranks that are forks."""
    folder = home.require_cache(cache)
    tasks: list[Task] = [
        partial(train_once, cache=str(folder), model=model, epochs=EPOCHS, device="cpu") for model in ("gcn", "sage")
    ]
    runs = among_ranks(PartitionCache(folder).num_parts, tasks)
    assert all("test_accuracy" in trained.result for trained in runs)
    return [trained.losses for trained in runs]


def test_the_loss_does_not_depend_on_the_number_of_ranks(cora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against training whose loss depends on the number of ranks, or on how they are started: Cora, 1 to 4
    parts."""
    monkeypatch.setenv("GRAPHPREP_HOME", str(cora))
    by_parts = [losses_among_forks(f"cora/flat-{parts}") for parts in (1, 2, 3, 4)]
    for one, *others in zip(*by_parts, strict=True):
        assert len(one) == EPOCHS
        assert one[-1] < one[0]
        np.testing.assert_allclose(others, [one] * 3, rtol=1e-4)
    np.testing.assert_allclose(losses_by_command("cora/flat-3"), by_parts[0][0], rtol=1e-4)


def test_a_wrong_number_of_ranks_is_said_at_once(cora: Path) -> None:
    """Guards against ranks that wait for each other although they cannot fit the cache."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trainer"]
    done = subprocess.run(
        [*command, str(cora / "caches" / "cora" / "flat-3")], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    sentences = [line for line in done.stderr.splitlines() if "3 parts" in line]
    assert len(sentences) == 1, done.stderr
