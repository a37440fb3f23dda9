"""Finds the split of the edges with the counts that the options ask for, over all ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.config.edge_shares import edge_counts
from trainer.config.options import Options
from trainer.data.edge_split import HASH_END, EdgeSplit, smallest_with
from trainer.dist.communicator import Communicator


def find_split(options: Options, hash_k: Tensor, communicator: Communicator) -> EdgeSplit:
    """The split of all ranks' pairs, the same on every rank; every rank has to call it.

    Pairs of one hash stay together: in a directed graph an edge and its reverse. Such a group at a border is on the
    side before it.

    Args:
        options: of the run.
        hash_k: of this rank's pairs.
        communicator: the ranks of the run.
    """
    sorted_k, _ = hash_k.sort()

    def count(ends: list[int]) -> list[int]:
        return communicator.all_reduce_numbers(torch.searchsorted(sorted_k, torch.tensor(ends)).tolist(), "preparation")

    [total] = count([HASH_END])
    num_train, num_val, num_test = edge_counts(options.edge_split, total)
    num_learnt = max(round(num_train * options.disjoint_train), 1) if options.disjoint_train else 0
    val_end, test_end, learnt_end = smallest_with(count, [num_val, num_val + num_test, num_val + num_test + num_learnt])
    is_disjoint = options.disjoint_train > 0
    return EdgeSplit(
        seed=options.seed,
        val_end=val_end,
        test_end=test_end,
        train_end=learnt_end if is_disjoint else HASH_END,
        message_begin=learnt_end if is_disjoint else test_end,
    )
