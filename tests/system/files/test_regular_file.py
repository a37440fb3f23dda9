"""Pipes, sockets, devices and links that lead nowhere, where a file is expected: one sentence, and never a wait.

A reader that opened a pipe would wait for ever, so each call runs in a thread that is given up after a while.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.cache.verify import verify_cache
from graphprep.core.metrics import load_predictions
from graphprep.datasets.download.download import download
from graphprep.datasets.formats.json_file import load_json
from graphprep.datasets.formats.text_file import line_blocks
from graphprep.datasets.importing.table_files import read_array, reading
from graphprep.errors import GraphprepError, UsageError
from graphprep.partition.external_assignment import read_assignment
from graphprep.plan import rates_file
from graphprep.store.store import GraphStore
from graphprep.system import home
from graphprep.system.files.atomic import is_locked, lock_file
from graphprep.system.files.regular_file import NotRegularFileError, regular_file
from graphprep.system.files.verify import RemoteFile
from graphprep.topology import Topology
from pipelines.look import verify
from pipelines.run.config import read_pipeline
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store
from trainer.base.errors import TrainerError
from trainer.config.config import read_config
from trainer.data.cache import open_cache

PATIENCE = 20.0
"""seconds after which a reader counts as one that waits for ever"""


def ended(call: Callable[[], object]) -> BaseException | None:
    """What `call` raised; a call that does not end is left to its thread."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except BaseException as problem:  # noqa: BLE001 (looked at by the test)
            raised.append(problem)
        else:
            raised.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert raised, "the reader waits"
    return raised[0]


def make(kind: str, path: Path) -> None:
    """Put a pipe, a socket or a link at `path`."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                folder = os.open(path.parent, os.O_RDONLY)
                listening.bind(f"/proc/self/fd/{folder}/{path.name}")
                os.close(folder)
        case "device":
            path.symlink_to("/dev/zero")
        case "nowhere":
            path.symlink_to("/absent/file")
        case _:
            path.symlink_to(path.name)


WORDS = {
    "pipe": "it is a pipe",
    "socket": "it is a socket",
    "device": "it is a device",
    "nowhere": "a link to /absent/file, which is not there",
    "loop": "Too many levels of symbolic links",
}


@pytest.mark.parametrize("kind", WORDS)
def test_words_for_what_is_no_file(kind: str, tmp_path: Path) -> None:
    """Guards against a wait for a pipe's writer, and against "no such file" for a link that is there."""
    make(kind, tmp_path / "it")
    with pytest.raises(OSError, match=WORDS[kind]) as caught:
        regular_file(tmp_path / "it")
    assert isinstance(caught.value, NotRegularFileError) == (kind in ("pipe", "socket", "device"))


def test_a_file_behind_a_link_is_a_file(tmp_path: Path) -> None:
    """Guards against refusing data that people keep behind links."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert regular_file(tmp_path / "link").read_text() == "text"
    with pytest.raises(IsADirectoryError):
        regular_file(tmp_path)


def with_reading(path: Path) -> None:
    with reading(path):
        pass


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "line_blocks": ("edges.txt", lambda path: next(line_blocks(path))),
    "reading": ("table.csv", with_reading),
    "assignment .npy": ("a.npy", lambda path: read_assignment(path, num_nodes=4, num_parts=2)),
    "assignment .npz": ("a.npz", lambda path: read_assignment(path, num_nodes=4, num_parts=2)),
    "assignment .pt": ("a.pt", lambda path: read_assignment(path, num_nodes=4, num_parts=2)),
    "assignment .txt": ("a.txt", lambda path: read_assignment(path, num_nodes=4, num_parts=2)),
    "predictions .npy": ("p.npy", load_predictions),
    "predictions .pt": ("p.pt", load_predictions),
    "topology": ("t.yaml", Topology.from_file),
    "pipeline": ("p.yaml", read_pipeline),
    "rates": ("r.json", rates_file.read),
    "trainer's config": ("c.toml", lambda path: read_config(str(path), lambda _, value: value)),
}


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("reader", READERS)
def test_readers_refuse_pipes_and_devices(reader: str, kind: str, tmp_path: Path) -> None:
    """Guards against each reader's own way to open: a pipe held it for ever, /dev/zero filled the memory."""
    name, read = READERS[reader]
    make(kind, tmp_path / name)
    problem = ended(lambda: read(tmp_path / name))
    assert isinstance(problem, GraphprepError | TrainerError)
    assert name in str(problem)
    assert WORDS[kind] in str(problem)


@pytest.mark.parametrize("kind", ["pipe", "device", "nowhere"])
@pytest.mark.parametrize("option", ["edges", "--features", "--labels", "--train", "--schema"])
def test_import_refuses_what_is_no_file(option: str, kind: str, tmp_path: Path) -> None:
    """Guards against an import that waits for a pipe, or hashes a device without end."""
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n")
    odd = tmp_path / ("odd.yaml" if option == "--schema" else "odd.csv")
    make(kind, odd)
    words = {"edges": [str(odd)], "--schema": ["--schema", str(odd)]}.get(
        option, [str(tmp_path / "edges.txt"), option, str(odd)]
    )
    results = []
    assert ended(lambda: results.append(CliRunner().invoke(main, ["import", *words, "--name", "odd"]))) is None
    assert results[0].exit_code == 3
    assert odd.name in results[0].stderr
    assert WORDS[kind] in results[0].stderr
    assert not home.store_path("odd").exists()


def test_standard_input_is_refused_where_it_is_a_pipe(tmp_path: Path) -> None:
    """Guards against `<(zcat edges.gz)`: a pipe that is read for its checksum has nothing left for the parser."""
    reading_end, writing_end = os.pipe()
    with os.fdopen(writing_end, "wb") as writing:
        writing.write(b"0 1\n1 2\n")
    result = CliRunner().invoke(main, ["import", f"/dev/fd/{reading_end}", "--name", "piped"])
    os.close(reading_end)
    assert result.exit_code == 3
    assert "it is a pipe, not a regular file; write what it gives to a file and name that" in result.stderr


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_store_with_a_pipe_in_it(store_folder: Path, tmp_path: Path) -> None:
    """Guards against a pipe in place of any file of a store: whatever reads it ends in one sentence."""
    for number, name in enumerate(files_below(store_folder)):
        copy = tmp_path / f"{number}.zarr"
        shutil.copytree(store_folder, copy)
        (copy / name).unlink()
        make("pipe", copy / name)
        problem = ended(lambda copy=copy: verify(str(copy)))  # type: ignore[misc]
        assert isinstance(problem, GraphprepError), name
        assert copy.name in str(problem)


@pytest.mark.slow
def test_a_cache_with_a_pipe_in_it(cache_folder: Path, tmp_path: Path) -> None:
    """Guards against a pipe in place of a file of a cache, in this package's reader and in the trainer's."""
    chosen = [name for name in files_below(cache_folder) if name.count("/") < 2 or "parts/0/nodes" in name]
    assert {"zarr.json", "manifest.json", "manifest.sha256"} <= set(chosen)
    for number, name in enumerate(chosen):
        copy = tmp_path / str(number)
        shutil.copytree(cache_folder, copy, copy_function=os.link)
        (copy / name).unlink()
        make("pipe", copy / name)
        problem = ended(lambda copy=copy: verify_cache(PartitionCache(copy)))  # type: ignore[misc]
        assert isinstance(problem, GraphprepError), name
        assert str(copy) in str(problem)
        problem = ended(lambda copy=copy: open_cache(str(copy)).manifest.verify(""))  # type: ignore[misc]
        assert isinstance(problem, TrainerError), name
        assert str(copy) in str(problem)


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("stores") / "graph.zarr"
    make_store(labelled_graph(np.random.default_rng(0), 40, 200), target=target)
    return target


@pytest.fixture(scope="module")
def cache_folder(store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("caches") / "cache"
    make_cache(GraphStore(store_folder), Topology.flat(2), target)
    return target


@pytest.mark.parametrize("kind", ["pipe", "device", "nowhere"])
def test_home_that_is_no_folder(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against "File exists" from deep inside where GRAPHPREP_HOME is a link that leads nowhere."""
    make(kind, tmp_path / "home")
    monkeypatch.setenv("GRAPHPREP_HOME", str(tmp_path / "home"))
    with pytest.raises(UsageError, match="a link to /absent/file" if kind == "nowhere" else "no folder"):
        home.home()


@pytest.mark.parametrize("kind", ["pipe", "device", "nowhere"])
def test_a_mirror_with_what_is_no_file(kind: str, tmp_path: Path) -> None:
    """Guards against a copy that waits for a pipe, or copies a device without end."""
    (tmp_path / "mirror/example.org").mkdir(parents=True)
    make(kind, tmp_path / "mirror/example.org/a")
    file = RemoteFile(url="https://example.org/a", name="a")
    problem = ended(lambda: download([file], tmp_path / "raw", mirror=tmp_path / "mirror"))
    assert isinstance(problem, GraphprepError)
    assert "mirror/example.org/a" in str(problem)
    assert WORDS[kind] in str(problem)


def test_a_pipe_where_a_download_begins(tmp_path: Path) -> None:
    """Guards against a download that opens a pipe under the name of its partial file, and waits."""
    (tmp_path / "mirror/example.org").mkdir(parents=True)
    (tmp_path / "mirror/example.org/a").write_bytes(b"data")
    (tmp_path / "raw").mkdir()
    make("pipe", tmp_path / "raw/.partial-a")
    file = RemoteFile(url="https://example.org/a", name="a")
    assert ended(lambda: download([file], tmp_path / "raw", mirror=tmp_path / "mirror")) is None
    assert (tmp_path / "raw/a").read_bytes() == b"data"


def test_a_pipe_under_the_name_of_a_lock(tmp_path: Path) -> None:
    """Guards against a look at a lock that waits where a pipe has its name."""
    make("pipe", lock_file(tmp_path / "it"))
    assert ended(lambda: is_locked(tmp_path / "it")) is None


def test_regular_files_are_read_as_before(tmp_path: Path) -> None:
    """Guards against readers that refuse what they are for, also behind a link."""
    np.save(tmp_path / "real.npy", np.arange(4))
    (tmp_path / "a.npy").symlink_to("real.npy")
    assert read_array(tmp_path / "a.npy").tolist() == [0, 1, 2, 3]
    torch.save(torch.zeros(2, 2), tmp_path / "real.pt")
    (tmp_path / "p.pt").symlink_to("real.pt")
    assert load_predictions(tmp_path / "p.pt").shape == (2, 2)
    (tmp_path / "real.json").write_text("[1]")
    (tmp_path / "j.json").symlink_to("real.json")
    assert load_json(tmp_path / "j.json") == [1]
