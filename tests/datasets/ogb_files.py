"""Small datasets in OGB's raw layouts, as the members of the zip archive that is downloaded; tests spoil them."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.entry import DatasetEntry
from tests.datasets.entries import entry

Members = dict[str, bytes]
N, E, F, C = 40, 120, 5, 4
AUTHORS, PAPERS, FIELDS = 9, 12, 3
TYPED_EDGES = {
    ("author", "writes", "paper"): (20, AUTHORS, PAPERS),
    ("paper", "cites", "paper"): (30, PAPERS, PAPERS),
    ("paper", "has_topic", "field_of_study"): (25, PAPERS, FIELDS),
}


def csv_gz(rows: Iterable[Iterable[object]] | NDArray[Any]) -> bytes:
    """A gzipped table without a header."""
    text = "".join(",".join(str(field) for field in np.atleast_1d(row).tolist()) + "\n" for row in rows)
    return gzip.compress(text.encode(), mtime=0)


def npz(compressed: bool = False, **arrays: NDArray[Any]) -> bytes:
    """The bytes of an .npz."""
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The bytes of a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def split(folder: str, num_nodes: int) -> Members:
    """Half of the nodes train, a quarter each validates and tests, in no order."""
    nodes = np.random.default_rng(1).permutation(num_nodes)
    parts = np.split(nodes, [num_nodes // 2, 3 * num_nodes // 4])
    return {f"{folder}/{part}.csv.gz": csv_gz(ids) for part, ids in zip(("train", "valid", "test"), parts, strict=True)}


def text(top: str = "mini", *, labels: NDArray[Any] | None = None, scheme: str = "time") -> Members:
    """The layout of ogbn-arxiv, with features of edges and both kinds of additional files."""
    rng = np.random.default_rng(0)
    raw = f"{top}/raw"
    return {
        f"{top}/RELEASE_v1.txt": b"",
        f"{raw}/num-node-list.csv.gz": csv_gz([N]),
        f"{raw}/num-edge-list.csv.gz": csv_gz([E]),
        f"{raw}/edge.csv.gz": csv_gz(rng.integers(0, N, (E, 2))),
        f"{raw}/node-feat.csv.gz": csv_gz(rng.normal(size=(N, F)).astype(np.float32)),
        f"{raw}/edge-feat.csv.gz": csv_gz(rng.integers(0, 1000, (E, 3)) / 1000),
        f"{raw}/node_year.csv.gz": csv_gz(rng.integers(1990, 2020, N)),
        f"{raw}/edge_year.csv.gz": csv_gz(rng.integers(1990, 2020, E)),
        f"{raw}/edge_weight.csv.gz": csv_gz(rng.integers(1, 9, E)),
        f"{raw}/node-label.csv.gz": csv_gz(rng.integers(0, C, (N, 1)) if labels is None else labels),
        **split(f"{top}/split/{scheme}", N),
    }


def typed_text(top: str = "mini") -> Members:
    """The layout of ogbn-mag: features, years, labels and a split of papers only."""
    rng = np.random.default_rng(0)
    raw, types = f"{top}/raw", {"paper": PAPERS, "author": AUTHORS, "field_of_study": FIELDS}
    members = {
        f"{top}/RELEASE_v1.txt": b"",
        f"{raw}/num-node-dict.csv.gz": csv_gz([[*types], [*types.values()]]),
        f"{raw}/triplet-type-list.csv.gz": csv_gz([list(triplet) for triplet in TYPED_EDGES]),
        f"{raw}/nodetype-has-label.csv.gz": csv_gz([[*types], [name == "paper" for name in types]]),
        f"{raw}/node-label/paper/node-label.csv.gz": csv_gz(rng.integers(0, C, (PAPERS, 1))),
        f"{raw}/node-feat/paper/node-feat.csv.gz": csv_gz(rng.normal(size=(PAPERS, F)).astype(np.float32)),
        f"{raw}/node-feat/paper/node_year.csv.gz": csv_gz(rng.integers(1990, 2020, PAPERS)),
        f"{top}/split/time/nodetype-has-split.csv.gz": csv_gz([[*types], [name == "paper" for name in types]]),
        **split(f"{top}/split/time/paper", PAPERS),
    }
    for number, (triplet, (count, sources, destinations)) in enumerate(TYPED_EDGES.items()):
        folder = f"{raw}/relations/{'___'.join(triplet)}"
        ends = np.column_stack([rng.integers(0, sources, count), rng.integers(0, destinations, count)])
        members[f"{folder}/edge.csv.gz"] = csv_gz(ends)
        members[f"{folder}/num-edge-list.csv.gz"] = csv_gz([count])
        members[f"{folder}/edge_reltype.csv.gz"] = csv_gz(np.full(count, number))
    return members


def binary(top: str = "mini", *, compressed: bool = False, **spoilt: NDArray[Any]) -> Members:
    """The layout of ogbn-papers100M; some nodes have no label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, (N, 1)).astype(np.float32)
    parts = split(f"{top}/split/time", N)
    train = {int(word) for word in gzip.decompress(parts[f"{top}/split/time/train.csv.gz"]).split()}
    y[[node for node in range(N) if node not in train][:5]] = np.nan
    arrays = {
        "edge_index": rng.integers(0, N, (2, E)),
        "num_nodes_list": np.array([N]),
        "num_edges_list": np.array([E]),
        "node_feat": rng.normal(size=(N, F)).astype(np.float16),
        "node_year": rng.integers(1990, 2020, (N, 1)),
        "edge_feat": rng.normal(size=(E, 2)).astype(np.float32),
        "node_label": y,
        **spoilt,
    }
    label = arrays.pop("node_label")
    return {
        f"{top}/RELEASE_v1.txt": b"",
        f"{top}/raw/data.npz": npz(compressed, **arrays),
        f"{top}/raw/node-label.npz": npz(compressed, node_label=label),
        **parts,
    }


def write(folder: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """The archive as mini.zip in `folder`, and its members unpacked in `folder`/unpacked, for ogb's own readers."""
    folder.mkdir(exist_ok=True)
    path = folder / "mini.zip"
    path.write_bytes(zipped(members, method))
    for name, data in members.items():
        target = folder / "unpacked" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return path


def mini(**options: object) -> DatasetEntry:
    """An entry for these datasets."""
    plain: dict[str, object] = {"folder": "mini", "tasks": 1, "classes": C, "split": "time", "node_features": True}
    return entry("ogb", files=[{"url": "https://example.org/mini.zip"}], options=plain | options)


FULL = {"node_files": ["node_year"], "edge_files": ["edge_weight", "edge_year"], "edge_features": True}
"""the options of `text`"""
