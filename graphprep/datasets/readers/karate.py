"""Zachary's karate club: 34 members, 78 friendships, as NetworkX has them. No download.

Features are the identity. The four classes are the communities that Kipf and Welling found by modularity, and one
member of each trains, as in their paper and in PyTorch Geometric; all others test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.reader_options import ReaderOptions, options_of

COMMUNITIES = "1111333101311100310101002200200200"


def read(folder: Path, entry: DatasetEntry) -> RawGraph:  # noqa: ARG001
    """The graph; x float32 [34, 34], y int64 of 4 classes, each friendship once."""
    from networkx import karate_club_graph

    options_of(entry, ReaderOptions)
    edges = np.array(sorted(map(sorted, karate_club_graph().edges())), np.int64)
    y = np.array([int(letter) for letter in COMMUNITIES], np.int64)
    train_mask = np.zeros((len(y), 1), np.bool_)
    train_mask[np.unique(y, return_index=True)[1]] = True
    masks = {"train_mask": train_mask, "val_mask": np.zeros_like(train_mask), "test_mask": ~train_mask}
    return one_type(
        entry,
        num_nodes=len(y),
        x=np.eye(len(y), dtype=np.float32),
        y=y,
        edges=edges,
        masks=masks,
        notes={"split": "the first member of each community trains, all others test"},
    )
