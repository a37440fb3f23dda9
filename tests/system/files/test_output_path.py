"""Where stores and caches may be written, and what --replace may take away."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from graphprep.errors import UsageError
from graphprep.store.store import GraphStore
from graphprep.system import home
from graphprep.system.files.output_path import checked_target
from tests.end_to_end.test_cli import CLI, digits, prepared, refused, run  # noqa: F401 - fixtures


@pytest.mark.parametrize("name", ["", ".", "/", "afile", "afile/x", "alink", "cache/parts/new"])
def test_places_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Guards against work that ends in an error of the operating system, or that breaks another cache."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").write_text("x")
    (tmp_path / "alink").symlink_to(tmp_path / "nowhere")
    (tmp_path / "cache" / "parts").mkdir(parents=True)
    (tmp_path / "cache" / "zarr.json").write_text(json.dumps({"attributes": {"graphprep_kind": "cache"}}))
    with pytest.raises(UsageError, match="--out"):
        checked_target(Path(name) if name else Path())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["afile", "alink", "cache"]


@pytest.mark.parametrize("command", ["generate", "import"])
def test_replace_takes_no_other_folder_away(tmp_path: Path, command: str) -> None:
    """Guards against --replace --out that deletes somebody's files."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    (tmp_path / "e.txt").write_text("0 1\n")
    words = {"generate": ["generate", "grid", "--sides", "8"], "import": ["import", str(tmp_path / "e.txt")]}[command]
    sentence = refused(3, *words, "--name", "x", "--out", precious, "--replace")
    assert "left as it is" in sentence
    assert (precious / "thesis.tex").read_text() == "years of work"


@pytest.mark.slow
def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    """Guards against a folder that a script made beforehand."""
    (tmp_path / "empty").mkdir()
    done = run("generate", "grid", "--sides", "8", "--name", "g", "--out", tmp_path / "empty")
    assert done.returncode == 0, done.stderr
    GraphStore(tmp_path / "empty").check()


@pytest.mark.slow
def test_generators_side_by_side_do_not_meet(tmp_path: Path) -> None:
    """Guards against scratch files that two runs of one name share."""
    command = [*CLI, "generate", "sbm", "--nodes", "3000", "--edges", "9000", "--features", "8", "--name", "q", "-q"]
    running = [
        subprocess.Popen([*command, "--seed", str(seed), "--out", str(tmp_path / f"q{seed}")]) for seed in (1, 2, 3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    subprocess.run([*command, "--seed", "2", "--out", str(tmp_path / "alone")], check=True)
    tables = [GraphStore(tmp_path / name).node_table("node") for name in ("q2", "alone", "q3")]
    assert np.array_equal(tables[0].x, tables[1].x)  # type: ignore[arg-type]
    assert not np.array_equal(tables[0].x, tables[2].x)  # type: ignore[arg-type]


@pytest.mark.slow
def test_caches_of_one_key_side_by_side(digits: Path, tmp_path: Path) -> None:  # noqa: F811
    """Guards against runs of one key that share a work folder and destroy each other's."""
    command = [*CLI, "partition", "digits", "--parts", "2", "--method", "random", "--imbalance", "2", "-q", "--out"]
    running = [subprocess.Popen([*command, str(tmp_path / name)]) for name in ("a", "b", "c")]
    assert [process.wait() for process in running] == [0, 0, 0]
    for name in ("a", "b", "c"):
        assert run("verify", tmp_path / name).returncode == 0


@pytest.mark.slow
def test_replace_repairs_what_verify_finds(digits: Path) -> None:  # noqa: F811
    """Guards against advice that leads nowhere: a flipped bit, whose file has the right size, in cache and store."""
    payload = digits / "parts/0/nodes/node/x/c/0/0"
    flip(payload)
    assert "--replace" in refused(6, "verify", "digits/flat-2")
    assert run("partition", "digits", "--parts", "2", "--method", "metis", "--replace").returncode == 0
    assert run("verify", "digits/flat-2").returncode == 0
    flip(next(path for path in (home.store_path("digits") / "nodes/node/y/c").rglob("*") if path.is_file()))
    assert "--replace" in refused(3, "verify", "digits")
    assert run("fetch", "digits", "--replace").returncode == 0
    assert run("verify", "digits").returncode == 0


@pytest.mark.slow
def test_a_broken_store_is_fetched_again(digits: Path) -> None:  # noqa: F811
    """Guards against a store that neither opens nor can be fetched again."""
    (home.store_path("digits") / "zarr.json").write_text("{")
    done = run("fetch", "digits")
    assert done.returncode == 0, done.stderr
    assert "it is made again" in done.stderr
    assert run("verify", "digits").returncode == 0


@pytest.mark.slow
def test_an_imported_store_is_not_fetched_over(tmp_path: Path) -> None:
    """Guards against fetch that takes a user's own store of the same name away."""
    (tmp_path / "e.txt").write_text("0 1\n")
    assert run("import", tmp_path / "e.txt", "--name", "digits").returncode == 0
    assert "--replace" in refused(3, "fetch", "digits")
    assert GraphStore(home.store_path("digits")).num_nodes == {"node": 2}


@pytest.mark.slow
def test_a_damaged_kept_assignment_is_made_again(digits: Path) -> None:  # noqa: F811
    """Guards against scratch of a killed run that blocks its key for good."""
    words = ("partition", "digits", "--parts", "3", "--method", "random", "--imbalance", "2")
    key = json.loads(run(*words, "--dry-run", "--json").stdout)["key"]
    work = digits.parent / f".partial-{key}"
    work.mkdir()
    (work / "assignment.npz").write_bytes(b"junk")
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert "is damaged; the graph is partitioned again" in done.stderr
    assert not work.exists()


@pytest.mark.parametrize("lost", ["nodes/node/x", "nodes/node/val_mask/zarr.json", "nodes/node/train_mask/c"])
def test_what_is_missing_from_a_store_is_found(digits: Path, lost: str) -> None:  # noqa: F811
    """Guards against arrays that are gone without a trace."""
    store = home.store_path("digits")
    os.rename(store / lost, store.with_name("elsewhere"))
    assert lost.split("/")[2] in refused(3, "verify", "digits")


def test_arrays_that_changed_places_are_found(digits: Path) -> None:  # noqa: F811
    """Guards against chunks that are whole, but another array's."""
    masks = [home.store_path("digits") / "nodes" / "node" / name / "c" for name in ("train_mask", "test_mask")]
    os.rename(masks[0], masks[0].with_name("kept"))
    os.rename(masks[1], masks[0])
    os.rename(masks[0].with_name("kept"), masks[1])
    assert "has changed since it was written" in refused(3, "verify", "digits")


def flip(path: Path) -> None:
    payload = bytearray(path.read_bytes())
    payload[-1] ^= 1
    path.write_bytes(payload)
