"""What copies a cache compares it with its checksums; what walks it goes nowhere out of bounds; nothing dies of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.errors import CacheError
from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.soak import soak_count
from tests.stores import make_cache, make_store

INDICES = "parts/0/edges/node__to__node/local/indices/c/0"
COPIES = {
    "merge": ["cache", "merge", "CACHE", "--parts", "2", "--out", "OUT"],
    "split": ["cache", "split", "CACHE", "--parts", "8", "--out", "OUT"],
    "npz": ["export", "CACHE", "OUT", "--format", "npz"],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    store = make_store(labelled_graph(np.random.default_rng(1), 80, 900), target=folder / "g.zarr")
    return make_cache(store, Topology.flat(4), folder / "cache").folder


@pytest.fixture
def cache(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "cache"))


def run(words: list[str], cache: Path, out: Path) -> Result:
    places = {"CACHE": str(cache), "OUT": str(out)}
    return CliRunner().invoke(main, [places.get(word, word) for word in words])


def overwrite(cache: Path, name: str, place: int, value: int) -> None:
    path = cache / name
    values = np.frombuffer(path.read_bytes(), np.int32 if "ind" in name or "send" in name else np.int64).copy()
    values[place] = value
    path.write_bytes(values.tobytes())


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", [INDICES, "parts/1/nodes/node/x/c/0/0"])
def test_a_flip_in_range_is_not_copied(way: str, name: str, cache: Path, tmp_path: Path) -> None:
    """Guards against a flipped bit that merge, split and export carry into what verify calls whole."""
    content = bytearray((cache / name).read_bytes())
    content[0] ^= 1
    (cache / name).write_bytes(content)
    done = run(COPIES[way], cache, tmp_path / "out")
    assert done.exit_code == 6, done.output
    assert f"{name} has changed since it was written" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (INDICES, 2**30, "columns are out of range"),
        (INDICES, -1, "columns are out of range"),
        ("parts/0/edges/node__to__node/from_1/indptr/c/0", 2**30, "row offsets"),
        ("parts/1/nodes/node/send_0/c/0", 2**30, "names a node that is out of range"),
    ],
)
def test_inspect_follows_nothing_out_of_range(name: str, value: int, words: str, cache: Path, tmp_path: Path) -> None:
    """Guards against SIGSEGV: one flipped bit in indices was followed by a kernel."""
    overwrite(cache, name, 3, value)
    done = run(["inspect", "CACHE"], cache, tmp_path)
    assert done.exit_code == 6, done.output
    assert words in done.stderr


@pytest.mark.parametrize("name", ["global_ids", "recv_1"])
def test_python_gets_no_nodes_that_are_not_there(name: str, cache: Path) -> None:
    """Guards against numbers of nodes that index arrays of the whole graph, where negative ones wrap around."""
    overwrite(cache, f"parts/0/nodes/node/{name}/c/0", 0, -3)
    with pytest.raises(CacheError, match=r"out of range 0 \.\. 79"):
        PartitionCache(cache).node_array(0, "node", name)
    with pytest.raises(CacheError, match="has changed"):
        PartitionCache(cache).loaded(0)
    with pytest.raises(CacheError, match="has changed"):
        PartitionCache(cache).loaded()


@pytest.mark.slow
@pytest.mark.soak
def test_no_command_dies_of_a_damaged_cache(whole: Path, tmp_path: Path) -> None:
    """Guards against signals, internal errors and wrong copies: bytes of any file are changed, and each command ends
    with the right result, or with one sentence and the status of a damaged cache."""
    rng = np.random.default_rng(9)
    looks = [
        ["inspect", "CACHE", "--json"],
        ["inspect", "CACHE", "--node", "7"],
        ["compare", "CACHE", "CACHE", "--json"],
        ["verify", "CACHE"],
    ]
    commands = [*looks, *COPIES.values()]
    expected = {" ".join(words): run(words, whole, tmp_path / f"right-{n}").output for n, words in enumerate(looks)}
    for number in range(soak_count(400)):
        cache, out = tmp_path / f"c{number}", tmp_path / f"o{number}"
        shutil.copytree(whole, cache)
        files = sorted(path for path in cache.rglob("*") if path.is_file() and path.stat().st_size)
        victim = files[rng.integers(len(files))]
        content = bytearray(victim.read_bytes())
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        victim.write_bytes(content)
        words = commands[rng.integers(len(commands))]
        done = run(words, cache, out)
        how = f"{words} after {victim.relative_to(cache)}: {done.exit_code} {done.stderr}"
        is_same = done.output == expected.get(" ".join(words), "").replace(str(whole), str(cache))
        assert done.exit_code in (3, 6) or (done.exit_code == 0 and words[0] in ("inspect", "compare") and is_same), how
        assert "internal error" not in done.stderr, how
        assert not out.exists(), how
        shutil.rmtree(cache)
