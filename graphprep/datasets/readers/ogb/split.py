"""OGB's own splits, as masks.

    split/SCHEME/train.csv.gz, valid.csv.gz, test.csv.gz        node numbers, one a line
    split/SCHEME/nodetype-has-split.csv.gz, TYPE/train.csv.gz   the same with several node types
    split/SCHEME/split_dict.pt                                  instead of both: train, valid, test -> node numbers,
                                                                or -> node type -> node numbers

A node in two parts, or a number that is no node, is an error here; in OGB it is an accuracy that is too good.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats import torch_file
from graphprep.datasets.formats.checks import disjoint, node_mask
from graphprep.datasets.readers.ogb.csv_member import CsvMember, record
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

Masks = dict[str, NDArray[np.bool_]]
PARTS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
MOST_PT_BYTES = 4 << 30
TRUTH = {"True": True, "False": False}


def read_split(path: Path, folder: str, node_counts: Mapping[str, int], *, typed: bool) -> dict[str, Masks]:
    """The masks of each node type that has a split, bool [N, 1], by their name in NodeTable.

    Args:
        path: the zip archive.
        folder: split/SCHEME in it.
        node_counts: N by node type.
        typed: whether the files are those of a dataset with several node types.

    Raises:
        DatasetError: a file is missing or damaged; a number is no node; a node is in two parts, or twice in one.
    """
    with Archive(path) as archive:
        if f"{folder}/split_dict.pt" in archive:
            nodes = _from_torch(archive, f"{folder}/split_dict.pt", node_counts)
        else:
            nodes = _from_text(archive, folder, node_counts, typed)
    return {
        node_type: disjoint(
            {
                PARTS[part]: node_mask(ids, node_counts[node_type], f"its split {folder}, part {part},")
                for part, ids in parts.items()
            }
        )
        for node_type, parts in nodes.items()
    }


def _from_text(
    archive: Archive, folder: str, node_counts: Mapping[str, int], typed: bool
) -> dict[str, dict[str, NDArray[Any]]]:
    folders = {next(iter(node_counts)): folder}
    if typed:
        flags = record(archive, f"{folder}/nodetype-has-split.csv.gz", TRUTH.__getitem__)
        folders = {node_type: f"{folder}/{node_type}" for node_type, has_split in flags.items() if has_split}
        if unknown := folders.keys() - node_counts.keys():
            raise DatasetError(f"its split is of the node type {min(unknown)}, which is not counted")
    return {
        node_type: {part: CsvMember(archive, f"{place}/{part}.csv.gz").column() for part in PARTS}
        for node_type, place in folders.items()
    }


def _from_torch(archive: Archive, name: str, node_counts: Mapping[str, int]) -> dict[str, dict[str, NDArray[Any]]]:
    try:
        split = torch_file.load(archive.read(name, MOST_PT_BYTES))
    except DatasetError as problem:
        raise DatasetError(f"its member {name} cannot be used: {problem}") from problem
    only = next(iter(node_counts))
    lists: dict[str, dict[str, NDArray[Any]]] = {}
    for part in PARTS:
        entry = split.get(part) if isinstance(split, dict) else None
        for node_type, ids in (entry if isinstance(entry, dict) else {only: entry}).items():
            if node_type not in node_counts or not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu":
                raise DatasetError(f"its member {name} has no node numbers as {part!r}")
            lists.setdefault(node_type, {})[part] = ids.ravel()
    return lists
