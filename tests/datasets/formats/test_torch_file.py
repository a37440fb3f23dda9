"""PyTorch's files: what torch.load reads, and nothing that runs."""

from __future__ import annotations

import io
import os
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphprep.datasets import readers
from graphprep.datasets.formats import torch_file
from graphprep.errors import DatasetError
from tests.datasets import ogb_files


def saved(value: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("legacy", [False, True])
def test_tensors(legacy: bool) -> None:
    """Both forms of the file give the same numbers, also a tensor that is part of a longer one."""
    base = torch.arange(20)
    value = {
        "train": base[3:9],
        "table": torch.arange(6.0).reshape(3, 2),
        "flags": torch.tensor([True, False]),
        "none": torch.zeros(0, dtype=torch.int64),
        "nested": OrderedDict(a=[torch.tensor(5), 7, "word"]),
    }
    found = torch_file.load(saved(value, _use_new_zipfile_serialization=not legacy))
    assert found["train"].tolist() == [3, 4, 5, 6, 7, 8]
    assert found["train"].dtype == np.int64
    assert found["table"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["flags"].dtype == np.bool_
    assert found["none"].shape == (0,)
    assert int(found["nested"]["a"][0]) == 5
    assert found["nested"]["a"][1:] == [7, "word"]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays(protocol: int) -> None:
    """OGB saves NumPy arrays too, which torch.load refuses since 2.6."""
    found = torch_file.load(saved({"train": np.arange(5), "x": np.eye(2)}, pickle_protocol=protocol))
    assert found["train"].tolist() == [0, 1, 2, 3, 4]
    assert found["x"].tolist() == [[1, 0], [0, 1]]


class Calls:
    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("function", [os.system, eval, exec])
def test_nothing_runs(tmp_path: Path, legacy: bool, function: Any) -> None:
    """torch.load before 2.6 would run this."""
    target = tmp_path / "ran"
    code = f"touch {target}" if function is os.system else f"open({str(target)!r}, 'w')"
    with pytest.raises(DatasetError):
        torch_file.load(saved({"train": Calls(function, code)}, _use_new_zipfile_serialization=not legacy))
    assert not target.exists()


def changed(data: bytes, name: str, content: bytes) -> bytes:
    """The file with another member."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    (key,) = [member for member in members if member.endswith(name)]
    return ogb_files.zipped(members | {key: content}, zipfile.ZIP_STORED)


def test_damage() -> None:
    """A storage that is shorter than its tensor would be read past its end."""
    data = saved({"train": torch.arange(10)})
    with pytest.raises(DatasetError, match="has 72 bytes for 10 numbers"):
        torch_file.load(changed(data, "data/0", bytes(72)))
    with pytest.raises(DatasetError, match="damaged PyTorch file"):
        torch_file.load(changed(data, "data.pkl", b"\x80\x02}"))
    with pytest.raises(DatasetError, match=r"no data\.pkl"):
        torch_file.load(ogb_files.zipped({"a": b""}))
    with pytest.raises(DatasetError, match="no PyTorch file"):
        torch_file.load(b"<html>")
    with pytest.raises(DatasetError):
        torch_file.load(data[: len(data) // 2])
    with pytest.raises(DatasetError, match="do not follow each other"):
        torch_file.load(saved({"x": torch.arange(6).reshape(2, 3).T}))


@pytest.mark.parametrize("as_arrays", [False, True])
def test_splits(tmp_path: Path, as_arrays: bool) -> None:
    """Where a split_dict.pt lies, it is the split, as in ogb."""
    ids = {"train": torch.tensor([5, 1]), "valid": torch.tensor([2]), "test": torch.tensor([30, 0])}
    split: Any = {part: nodes.numpy() for part, nodes in ids.items()} if as_arrays else ids
    members = ogb_files.text() | {"mini/split/time/split_dict.pt": saved(split)}
    ogb_files.write(tmp_path, members)
    nodes = readers.read(tmp_path, ogb_files.mini()).nodes["node"]
    assert np.flatnonzero(nodes.train_mask).tolist() == [1, 5]  # type: ignore[arg-type]
    assert np.flatnonzero(nodes.val_mask).tolist() == [2]  # type: ignore[arg-type]
    assert np.flatnonzero(nodes.test_mask).tolist() == [0, 30]  # type: ignore[arg-type]


def test_splits_by_type(tmp_path: Path) -> None:
    """With several node types each part is a dictionary."""
    split = {part: {"paper": torch.tensor([node])} for node, part in enumerate(("train", "valid", "test"))}
    members = ogb_files.typed_text() | {"mini/split/time/split_dict.pt": saved(split)}
    ogb_files.write(tmp_path, members)
    nodes = readers.read(tmp_path, ogb_files.mini(typed=True)).nodes
    assert np.flatnonzero(nodes["paper"].val_mask).tolist() == [1]  # type: ignore[arg-type]
    assert nodes["author"].val_mask is None


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ({"train": torch.tensor([1]), "valid": torch.tensor([2])}, "no node numbers as 'test'"),
        ({part: torch.tensor([0.5]) for part in ("train", "valid", "test")}, "no node numbers as 'train'"),
        ([torch.tensor([1])], "no node numbers"),
        ({part: Calls(os.system, "exit 1") for part in ("train", "valid", "test")}, "asks for posix.system"),
        ({part: {"book": torch.tensor([1])} for part in ("train", "valid", "test")}, "no node numbers as 'train'"),
    ],
)
def test_splits_that_are_none(tmp_path: Path, split: Any, words: str) -> None:
    """Each is one sentence that names the member."""
    members = ogb_files.text() | {"mini/split/time/split_dict.pt": saved(split)}
    ogb_files.write(tmp_path, members)
    with pytest.raises(DatasetError, match=words) as caught:
        readers.read(tmp_path, ogb_files.mini())
    assert "split_dict.pt" in str(caught.value)
