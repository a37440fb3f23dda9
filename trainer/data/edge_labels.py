"""The labels of the edges of a part, where an array of the edges is learnt, and which of them are learnt and tested.

All edges stay in the graph: that there is an edge is known, what it has is not. An edge whose label is unknown (below
0, or NaN) is in no group. The groups are those of an array (0 to train on, 1 to validate, 2 to test), or by the hash of
both nodes, so that an edge and its reverse, and all edges between two nodes, are in one group.

Letters: E edges, k edges with a label, C classes or numbers to predict, D features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainer.data.edge_split import EdgeSplit, Pairs, edge_ends, pair_hash
from trainer.data.part import Part

GROUPS = ("train", "val", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLabels:
    """The labelled edges of one rank, of one group or of all."""

    pairs: Pairs
    y: Tensor
    """int64 [k], classes; or float32 [k, C], numbers, NaN where unknown"""
    features_kD: Tensor | None
    """What the decoder reads of edges; None for nothing"""
    hash_k: Tensor
    copy_k: Tensor
    """int64: which of the edges between the same two nodes each one is, in the store's order"""
    group_k: Tensor | None
    """int64: the place of each one's group in GROUPS by an array of the edges; None where the hash decides"""

    @classmethod
    def of(cls, part: Part, labels: Part, groups: Part | None, *, are_classes: bool, seed: int) -> EdgeLabels:
        """The labels of `part`.

        Args:
            part: with the features that the run reads.
            labels: the same part, with the labels as features of the edges.
            groups: the same with the groups; None where the hash decides.
            are_classes: whether labels are classes.
            seed: of the run.
        """
        blocks = [(None, part.local), *part.remote.items()]
        ends = [edge_ends(part, peer, block) for peer, block in blocks]
        source_E, destination_E = (torch.cat(side) for side in zip(*ends, strict=True))
        values_EC, features_ED = _features(labels), _features(part)
        assert values_EC is not None
        edges = cls(
            pairs=Pairs(source_k=source_E, row_k=torch.cat([block.row_E.long() for _, block in blocks])),
            y=values_EC[:, 0].long() if are_classes else values_EC,
            features_kD=features_ED,
            hash_k=pair_hash(source_E, destination_E, seed),
            copy_k=_copies(source_E, destination_E),
            group_k=None if groups is None else _group_numbers(groups),
        )
        return edges[edges.y >= 0 if are_classes else ~values_EC.isnan().all(1)]

    def __getitem__(self, mask_k: Tensor) -> EdgeLabels:
        return replace(
            self,
            pairs=self.pairs[mask_k],
            y=self.y[mask_k],
            features_kD=None if self.features_kD is None else self.features_kD[mask_k],
            hash_k=self.hash_k[mask_k],
            copy_k=self.copy_k[mask_k],
            group_k=None if self.group_k is None else self.group_k[mask_k],
        )

    @property
    def num_outputs(self) -> int:
        """C, as far as this rank knows: one class more than its largest, or the columns of numbers."""
        if self.y.dim() == 2:
            return self.y.shape[1]
        return int(self.y.max()) + 1 if len(self.y) else 1

    @property
    def counts(self) -> list[int]:
        """Edges of each group where an array decides; else all of them, of which the shares are not taken yet."""
        if self.group_k is None:
            return [len(self.pairs), 0, 0]
        return [int((self.group_k == number).sum()) for number in range(len(GROUPS))]

    def groups(self, split: EdgeSplit | None) -> dict[str, EdgeLabels]:
        """The edges of each group; `split` is None where an array decides."""
        if split is None:
            assert self.group_k is not None
            return {name: self[self.group_k == number] for number, name in enumerate(GROUPS)}
        is_val, is_train = self.hash_k < split.val_end, self.hash_k >= split.test_end
        return {"train": self[is_train], "val": self[is_val], "test": self[~(is_val | is_train)]}


def _features(part: Part) -> Tensor | None:
    """The features of all edges, those of this part's own rows first: float32 [E, D]."""
    pieces = [block.features for block in (part.local, *part.remote.values()) if block.features is not None]
    return torch.cat(pieces) if pieces else None


def _copies(source_E: Tensor, destination_E: Tensor) -> Tensor:
    """How many edges between the same two nodes come before each one: int64 [E]."""
    order_E = source_E.argsort(stable=True)
    order_E = order_E[destination_E[order_E].argsort(stable=True)]
    ends = torch.stack([source_E[order_E], destination_E[order_E]])
    is_first_E = torch.ones(len(source_E), dtype=torch.bool)
    is_first_E[1:] = (ends[:, 1:] != ends[:, :-1]).any(0)
    place_E = torch.arange(len(source_E))
    copy_E = torch.empty_like(place_E)
    copy_E[order_E] = place_E - torch.where(is_first_E, place_E, 0).cummax(0).values
    return copy_E


def _group_numbers(groups: Part) -> Tensor:
    values_EC = _features(groups)
    assert values_EC is not None
    return values_EC[:, 0].long()
