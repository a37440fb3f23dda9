"""Small archives as DGL publishes them, which tests spoil."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from graphprep.datasets.entry import DatasetEntry
from tests.datasets import ogb_files, published_files
from tests.datasets.entries import entry

Files = dict[str, Any]
NODES, UNLABELLED = 60, 10
FRAUD = {"member": "Mini.mat", "node_type": "user", "relations": ["net_upu", "net_uvu"], "unlabelled": UNLABELLED}


def zip_entry(reader: str, members: list[str], **values: Any) -> DatasetEntry:
    """An entry of `zipped`; `more` are options of its own, `options` those of the other reader."""
    inner = values.pop("options", {})
    options = {"reader": reader, "members": members, "options": inner, **values.pop("more", {})}
    return entry("zipped", files=[{"url": "https://example.org/mini.zip"}], options=options, **values)


def write(folder: Path, files: Files, inside: str = "") -> None:
    """mini.zip in `folder`, its members in the folder `inside`."""
    folder.mkdir(exist_ok=True)
    content = {f"{inside}{name}": published_files.as_bytes(name, value) for name, value in files.items()}
    (folder / "mini.zip").write_bytes(ogb_files.zipped(content))


def fraud(**changed: Any) -> Files:
    """The arrays of a MATLAB file; None leaves one out."""
    rng = np.random.default_rng(0)
    relations = {}
    for name in FRAUD["relations"]:
        ends = rng.integers(0, NODES, (2, 150))
        matrix = sp.coo_matrix((np.ones(150), ends), shape=(NODES, NODES))
        relations[name] = sp.csc_matrix(matrix + matrix.T)
    arrays = {
        "features": sp.csc_matrix(rng.random((NODES, 4)) * (rng.random((NODES, 4)) > 0.4)),
        "label": rng.integers(0, 2, (1, NODES)).astype(np.float64),
        "homo": sp.csc_matrix(np.eye(NODES)),
        **relations,
        **changed,
    }
    return {name: array for name, array in arrays.items() if array is not None}


def write_fraud(folder: Path, arrays: Files, data: bytes | None = None) -> DatasetEntry:
    """mini.zip with Mini.mat, of these arrays or these bytes; returns its entry."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, do_compression=True)
    (folder / "mini.zip").write_bytes(ogb_files.zipped({"Mini.mat": stream.getvalue() if data is None else data}))
    return entry("fraud", files=[{"url": "https://example.org/mini.zip"}], options=FRAUD)
