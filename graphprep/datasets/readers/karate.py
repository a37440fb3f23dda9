"""Zachary's karate club: 34 members, 78 friendships, written out here. No download.

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

HIGHER_FRIENDS = """
0: 1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31
1: 2 3 7 13 17 19 21 30
2: 3 7 8 9 13 27 28 32
3: 7 12 13
4: 6 10
5: 6 10 16
6: 16
8: 30 32 33
9: 33
13: 33
14: 32 33
15: 32 33
18: 32 33
19: 33
20: 32 33
22: 32 33
23: 25 27 29 32 33
24: 25 27 31
25: 31
26: 29 33
27: 33
28: 31 33
29: 32 33
30: 32 33
31: 32 33
32: 33
"""
"""each member with the friends that have a higher number"""
COMMUNITIES = "1111333101311100310101002200200200"


def read(folder: Path, entry: DatasetEntry) -> RawGraph:  # noqa: ARG001
    """The graph; x float32 [34, 34], y int64 of 4 classes, each friendship once."""
    options_of(entry, ReaderOptions)
    lines = [line.split(":") for line in HIGHER_FRIENDS.strip().splitlines()]
    edges = np.array([(int(member), int(friend)) for member, friends in lines for friend in friends.split()], np.int64)
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
