"""What batches are made for: labelled nodes, edges to learn with random pairs beside them, or labelled edges.

Each says which seeds there are over all ranks, and has the loss of a batch from the rows that the model gives for its
seeds. Random pairs of batches are drawn by the sampler, `--negatives` for each edge, every node with equal probability;
one may be an edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from trainer.base.to_device import to_device
from trainer.data.edge_split import EdgeSplit, Pairs, PartEdges
from trainer.data.labels import Labels
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.training.edge_labels import EdgeSupervision
from trainer.training.losses import Loss


class BatchSeeds(Protocol):
    """The seeds of a run."""

    seeds: Tensor
    """int64 [B], the nodes of all ranks, [2, B] pairs of them, or [3, B] edges with the number of each among those
    between its nodes; in an order that does not depend on ranks"""
    removed: Tensor | None
    """int64 [2, K]: pairs of nodes between which batches have no edge; None for none"""
    negatives: int | None
    """random pairs for each pair; None where seeds are nodes"""

    def loss(self, rows_kF: Tensor, arrays: Mapping[str, Tensor], /) -> tuple[Tensor, Tensor]:
        """The sum of the losses of this rank's seeds, and what the sum over all ranks is divided by: scalars.

        Args:
            rows_kF: what the model gives for the batch's first nodes.
            arrays: of the batch.
        """


class NodeBatches:
    """Nodes with labels."""

    removed: Tensor | None = None
    negatives: int | None = None

    def __init__(self, part: Part, labels: Labels, loss: Loss, communicator: Communicator) -> None:
        """Gather the training nodes of all ranks; every rank has to call it."""
        self._labels, self._loss, self._first_row = labels, loss, part.target.start
        own_k = part.target_ids[labels.train.cpu() - self._first_row]
        self.seeds = gathered(own_k, communicator).sort().values

    def loss(self, rows_kF: Tensor, arrays: Mapping[str, Tensor], /) -> tuple[Tensor, Tensor]:
        y = self._labels.y[to_device(arrays["seed_row"], rows_kF.device) + self._first_row]
        return self._loss.sum(rows_kF, y), self._loss.weight(y)


class LinkBatches:
    """Edges that are learnt."""

    removed: Tensor | None
    negatives: int | None

    def __init__(
        self,
        edges: PartEdges,
        split: EdgeSplit,
        negatives: int,
        decoder: nn.Module,
        communicator: Communicator,
    ) -> None:
        """Gather the pairs of all ranks; every rank has to call it.

        Args:
            edges: of this part, on both sides of the split.
            split: the same on every rank.
            negatives: random pairs for each edge.
            decoder: scores pairs.
            communicator: the ranks of the run.
        """
        self.negatives = self._for_each = negatives
        self._decoder, num_nodes = decoder, edges.num_nodes

        def of_all(pairs: Pairs) -> Tensor:
            keys = gathered(edges.ids_n[pairs.row_k] * num_nodes + pairs.source_k, communicator).sort().values
            return torch.stack([keys % num_nodes, keys // num_nodes])

        self.seeds = of_all(edges.between(split.test_end, split.train_end))
        self.removed = of_all(edges.between(0, split.message_begin))

    def loss(self, rows_kF: Tensor, arrays: Mapping[str, Tensor], /) -> tuple[Tensor, Tensor]:
        source_k, destination_k = to_device(arrays["pairs"], rows_kF.device)
        num_pairs = int(arrays["num_pairs"])
        scores = self._decoder(rows_kF[source_k], rows_kF[destination_k], None).float()
        softplus = nn.functional.softplus
        loss = softplus(-scores[:num_pairs]).sum() + softplus(scores[num_pairs:]).sum() / self._for_each
        return loss, torch.tensor(float(num_pairs), device=rows_kF.device)


class EdgeLabelBatches:
    """Edges that have a label: every directed one, also copies and self-loops. They stay in the graph."""

    removed: Tensor | None = None
    negatives: int | None = 0

    def __init__(
        self,
        supervision: EdgeSupervision,
        part: Part,
        num_nodes: int,
        decoder: nn.Module,
        communicator: Communicator,
    ) -> None:
        """Gather the training edges of all ranks; every rank has to call it.

        Args:
            supervision: of the labelled edges of this rank.
            part: this rank's.
            num_nodes: N, of the whole graph.
            decoder: scores edges.
            communicator: the ranks of the run.
        """
        self._loss, self._decoder = supervision.loss, decoder
        self._edges, self._y = supervision.groups["train"], supervision.labels["train"]
        pairs = self._edges.pairs
        key_k = part.ids_n[pairs.row_k] * num_nodes + pairs.source_k
        key_B = gathered(key_k, communicator)
        # Copies of an edge are all at one rank, in an order that the store decides.
        self._order_B = key_B.argsort(stable=True)
        key_B = key_B[self._order_B]
        copy_B = gathered(self._edges.copy_k, communicator)[self._order_B]
        self.seeds = torch.stack([key_B % num_nodes, key_B // num_nodes, copy_B])
        self._order_B -= first_of(len(key_k), communicator)

    def loss(self, rows_kF: Tensor, arrays: Mapping[str, Tensor], /) -> tuple[Tensor, Tensor]:
        edge_k, features_kD = self._order_B[arrays["seed_place"]], self._edges.features_kD
        if features_kD is not None:
            features_kD = to_device(features_kD[edge_k], rows_kF.device)
        source_k, destination_k = to_device(arrays["pairs"], rows_kF.device)
        y = self._y[to_device(edge_k, self._y.device)]
        scores = self._decoder(rows_kF[source_k], rows_kF[destination_k], features_kD).float()
        return self._loss.sum(scores, y), self._loss.weight(y)


def gathered(own_k: Tensor, communicator: Communicator) -> Tensor:
    """The numbers of all ranks, on the host, rank after rank; every rank has to call it."""
    return communicator.all_gather_rows(own_k, _counts(len(own_k), communicator)).cpu()


def first_of(count: int, communicator: Communicator) -> int:
    """Where this rank's begin among so many numbers of each rank, rank after rank; every rank has to call it."""
    return sum(_counts(count, communicator)[: communicator.rank])


def _counts(count: int, communicator: Communicator) -> list[int]:
    return [fact["seeds"] for fact in communicator.all_gather_object({"seeds": count})]
