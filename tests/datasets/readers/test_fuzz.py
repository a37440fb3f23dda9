"""Seeded damage to small files of every format: to read them is fine or one sentence, and takes no time or memory."""

from __future__ import annotations

import gzip
import io
import pickle
import signal
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphprep.datasets import readers
from graphprep.datasets.formats import pickles, torch_file
from graphprep.datasets.formats.matlab_file import read_arrays
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.schema import load_schema
from graphprep.datasets.importing.table_files import read_array, reading
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import GraphprepError
from graphprep.system import memory
from graphprep.topology import from_yaml
from tests.datasets import dgl_files
from tests.datasets.user_graphs import edges_of
from tests.soak import soak_count

pytestmark = pytest.mark.slow

PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])
MATRIX = sp.coo_matrix((np.ones(5), PAIRS.T), shape=(4, 4))
SECONDS_A_CASE = 20
ROOM = 300 << 20
"""bytes that a case may take by --memory, beside what the process holds"""

Write, Read = Callable[[Path], Any], Callable[[Path], Any]


class TooLongError(BaseException):
    """No Exception, so that nobody takes it for damage."""


@contextmanager
def time_limit() -> Iterator[None]:
    """Ends a block that hangs, where signals reach it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_A_CASE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def imported(path: Path) -> None:
    for table in read_files(ImportRequest.of_one_type([path]), memory_limit=memory.resident() + ROOM).edges:
        edges_of(table)


def features(path: Path) -> None:
    with memory.limited(memory.resident() + ROOM), reading(path):
        read_array(path)


def matlab(path: Path) -> None:
    with memory.limited(memory.resident() + ROOM):
        read_arrays(io.BytesIO(path.read_bytes()), ("a", "b"))


def fraud(path: Path) -> None:
    entry = dgl_files.write_fraud(path.parent, {}, path.read_bytes())
    readers.read(path.parent, entry, memory_limit=memory.resident() + ROOM)


def fraud_zip(path: Path) -> None:
    entry = dgl_files.write_fraud(path.parent, {})
    path.rename(path.parent / "mini.zip")
    readers.read(path.parent, entry, memory_limit=memory.resident() + ROOM)


def schema(path: Path) -> None:
    (path.parent / "e.txt").write_text("0 1\n1 2\n")
    read_files(load_schema(path))


def text_of(network: Any, write: Callable[[Any, Any], Any]) -> Callable[[Path], None]:
    def to(path: Path) -> None:
        write(network, path)

    return to


def zipped(write: Write) -> Write:
    """The same file in a zip, which nothing but its name and its members' make a format of."""

    def to(path: Path) -> None:
        write(path)
        data = path.read_bytes()
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("edge_index.npy", data)

    return to


def npy(path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, PAIRS.T)


def saved_mat(path: Path, *, packed: bool) -> None:
    with path.open("wb") as stream:
        scipy.io.savemat(stream, {"a": MATRIX.tocsc(), "b": np.arange(12.0).reshape(3, 4)}, do_compression=packed)


def fraud_mat(path: Path) -> None:
    with path.open("wb") as stream:
        scipy.io.savemat(stream, dgl_files.fraud(), do_compression=True)


def write_fraud_zip(path: Path) -> None:
    dgl_files.write_fraud(path.parent, dgl_files.fraud())
    (path.parent / "mini.zip").rename(path)


def node_link(path: Path) -> None:
    links = ", ".join(f'{{"source": {one}, "target": {other}}}' for one, other in PAIRS)
    nodes = ", ".join(f'{{"id": {node}}}' for node in range(4))
    path.write_text(f'{{"directed": true, "nodes": [{nodes}], "links": [{links}]}}')


FORMATS: dict[str, tuple[Write, Read]] = {
    "e.txt": (lambda path: path.write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS)), imported),
    "e.csv": (lambda path: path.write_text("src,dst,weight\n0,1,0.5\n1,2,0.25\n2,0,1e3\n"), imported),
    "e.csv.gz": (lambda path: path.write_bytes(gzip.compress(b"src,dst\n0,1\n1,2\n2,0\n")), imported),
    "x.csv": (lambda path: path.write_text("a,b\n0.5,1\n0.25,2\n"), features),
    "e.npy": (npy, imported),
    "x.npy": (npy, features),
    "e.npz": (lambda path: np.savez_compressed(path, src=PAIRS[:, 0], dst=PAIRS[:, 1], x=np.ones((4, 3))), imported),
    "z.npz": (zipped(npy), imported),
    "s.npz": (lambda path: sp.save_npz(path, MATRIX.tocsc()), imported),
    "x.npz": (lambda path: sp.save_npz(path, MATRIX.tocsr()), features),
    "d.pt": (
        lambda path: torch.save(Data(edge_index=torch.from_numpy(PAIRS.T.copy()), x=torch.ones(4, 2)), path),
        imported,
    ),
    "split.pt": (
        lambda path: torch.save({"train": torch.arange(5), "valid": [torch.ones(2, 3), 1]}, path),
        lambda path: torch_file.load(path.read_bytes()),
    ),
    "a.pickle": (lambda path: path.write_bytes(pickle.dumps([np.arange(5), {"a": [1, 2]}], 3)), pickles.load),
    "m.mtx": (lambda path: scipy.io.mmwrite(path, MATRIX), imported),
    "g.graph": (lambda path: path.write_text("% both ways\n4 5\n2 4 3\n1 3\n2 4 1\n3 1\n"), imported),
    "e.parquet": (
        lambda path: pq.write_table(pa.table({"src": PAIRS[:, 0], "dst": PAIRS[:, 1], "n": ["a"] * 5}), path),
        imported,
    ),
    "x.parquet": (lambda path: pq.write_table(pa.table({"a": PAIRS[:, 0], "b": PAIRS[:, 1]}), path), features),
    "plain.mat": (lambda path: saved_mat(path, packed=False), matlab),
    "packed.mat": (lambda path: saved_mat(path, packed=True), matlab),
    "fraud.mat": (fraud_mat, fraud),
    "fraud.zip": (write_fraud_zip, fraud_zip),
    "d.graphml": (text_of(networkx.path_graph(4), networkx.write_graphml), imported),
    "d.gexf": (text_of(networkx.path_graph(4), networkx.write_gexf), imported),
    "d.gml": (text_of(networkx.path_graph(4), networkx.write_gml), imported),
    "d.paj": (text_of(networkx.path_graph(4), networkx.write_pajek), imported),
    "d.json": (node_link, imported),
    "s.yaml": (
        lambda path: path.write_text(
            "nodes:\n  a: {count: 4}\nedges:\n  - {source: a, relation: to, destination: a, files: [e.txt]}\n"
        ),
        schema,
    ),
    "t.yaml": (
        lambda path: path.write_text(
            "name: two\nranks:\n  - {name: a, machine: m}\n  - {name: b, machine: m}\nlinks:\n"
            "  - {ends: [a, b], type: ethernet, gbytes_per_s: 12, latency_us: 2}\n"
        ),
        lambda path: from_yaml.read(path.read_text(errors="replace"), origin=str(path)),
    ),
}


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """The file with some bits flipped, bytes changed, an end missing, or a part there twice."""
    data = bytearray(whole)
    for _ in range(rng.integers(1, 4)):
        start, stop = sorted(int(place) for place in rng.integers(0, len(data) + 1, 2))
        match rng.integers(6):
            case 0:
                data[start % len(data)] ^= 1 << int(rng.integers(8))
            case 1:
                data[start % len(data)] = int(rng.integers(256))
            case 2:
                del data[start:]
            case 3:
                data[start:start] = data[start : min(stop, start + 64)]
            case 4:
                data[start : start + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"9999"])
            case _:
                del data[start : min(stop, start + 16)]
        if not data:
            return b""
    return bytes(data)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_an_error_or_harmless(name: str, tmp_path: Path) -> None:
    """Guards against tracebacks, hangs and memory that any damaged file of these formats may cause."""
    write, read = FORMATS[name]
    write(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(sum(name.encode()))
    for number in range(soak_count(1_500)):
        folder = tmp_path / str(number)
        folder.mkdir()
        data = damaged(whole, rng) if number else whole
        (folder / name).write_bytes(data)
        try:
            with time_limit():
                read(folder / name)
        except (TooLongError, Exception) as problem:
            is_sentence = isinstance(problem, GraphprepError) and len(str(problem)) < 3_000
            if not is_sentence or not number:  # what is whole is read
                raise AssertionError(f"{name}, case {number}, {data!r}") from problem
