"""Learns edges: the loss over training edges and random pairs, and how well validation and test edges are found.

The loss is the mean over all ranks' training edges of -log sigmoid(score) plus the mean over the random pairs of
-log(1 - sigmoid(score)), as in PyG's GAE, so both kinds count alike whatever their numbers.

An evaluation scores each group's edges against as many random pairs, which are the same in every epoch, and for the
mean reciprocal rank each edge against `--eval-negatives` pairs of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trainer.config.options import Options
from trainer.data.edge_split import EdgeSplit, Pairs, PartEdges
from trainer.data.negatives import TRIES, Negatives
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.exchange.pair_rows import PairRows
from trainer.exchange.save_pairs import save_pairs
from trainer.training.pair_scores import Batch, PairList, PairScores
from trainer.training.ranking import ranking_metrics
from trainer.training.supervision import Group, Measured

log = logging.getLogger("trainer")


class LinkSupervision:
    """The pairs of one rank."""

    def __init__(
        self,
        options: Options,
        objective: Objective,
        edges: PartEdges,
        split: EdgeSplit,
        rows: PairRows,
        decoder: nn.Module,
        communicator: Communicator,
    ) -> None:
        """Take the pairs of each group; every rank has to call it.

        Args:
            options: of the run.
            objective: with the metric.
            edges: of this part, on both sides of the split.
            split: the same on every rank.
            rows: fetches the rows of pairs.
            decoder: scores pairs; a part of the network that is trained.
            communicator: the ranks of the run.
        """
        self._options, self._objective = options, objective
        self._scores = PairScores(rows=rows, decoder=decoder, size=options.pair_batch)
        self._communicator, self.negatives = communicator, Negatives(edges, options.seed)
        self.pairs = {
            "train": edges.between(split.test_end, split.train_end),
            "val": edges.between(0, split.val_end),
            "test": edges.between(split.val_end, split.test_end),
        }
        counts = communicator.all_reduce_numbers([len(pairs) for pairs in self.pairs.values()], "preparation")
        self.counts = dict(zip(self.pairs, counts, strict=True))
        """Pairs of all ranks in each group."""

    @property
    def remark(self) -> str:
        """A sentence for the log about the split."""
        train, val, test = self.counts.values()
        are_out = "these" if self._options.disjoint_train else "validation and test edges"
        return (
            f"{train} edges are learnt, {val} validated and {test} tested; {are_out} and their reverses are not in the "
            "graph that rows, degrees and sums of features are computed from"
        )

    def backward(self, rows_nF: Tensor, factor: float, epoch: int, /) -> Tensor:
        num_edges = self.counts["train"]
        num_random = num_edges * self._options.negatives
        random = self.negatives.random("train", epoch, num_random)

        def loss_of(batch: Batch, score_k: Tensor) -> Tensor:
            sign, divisor = ((-1, num_edges), (1, num_random))[batch.kind]
            return nn.functional.softplus(sign * score_k).sum() / divisor

        lists = [PairList.of(self.pairs["train"]), PairList(number=len(random), between=random.between)]
        return self._scores.backward(rows_nF, factor, lists, loss_of)

    @torch.no_grad()
    def measure(self, rows_nF: Tensor, *groups: Group) -> list[Measured]:
        measured = []
        for group in groups:
            pairs, random = self.pairs[group], self.random_pairs(group)
            positive_k, negative = self._scores.of(rows_nF, PairList.of(pairs), random)
            values = ranking_metrics(
                positive_k,
                negative,
                self._ranks(rows_nF, pairs, positive_k) if self._options.eval_negatives else None,
                self._communicator,
                batch=self._options.pair_batch,
            )
            value = values.pop(self._objective.name)
            measured.append(Measured(value=value, others=values))
        return measured

    def facts(self) -> Mapping[str, Any]:
        [num_kept] = self._communicator.all_reduce_numbers([self.negatives.num_kept])
        if num_kept and self._communicator.is_main:
            log.warning(
                "%d times a random pair was an edge in %d draws and was taken all the same: its second node has nearly "
                "all others as in-neighbours",
                num_kept,
                TRIES,
            )
        return {"split_counts": self.counts, "negatives_kept": num_kept}

    @torch.no_grad()
    def save(self, file: str, rows_nF: Tensor, ids_n: Tensor) -> None:
        kinds = [PairList.of(self.pairs["test"]), self.random_pairs("test")]
        pairs = [kind.between(0, kind.number) for kind in kinds]
        columns = {
            "source": torch.cat([of_kind.source_k for of_kind in pairs]),
            "destination": ids_n[torch.cat([of_kind.row_k for of_kind in pairs])],
            "is_edge": torch.cat([torch.full((kind.number,), 1 - number) for number, kind in enumerate(kinds)]),
            "score": torch.cat(self._scores.of(rows_nF, *kinds)),
        }
        save_pairs(file, columns, self._communicator)

    def random_pairs(self, group: Group) -> PairList:
        """The pairs that are no edges of an evaluation, on this rank."""
        random = self.negatives.random(group, 0, self.counts[group])
        return PairList(number=len(random), between=random.between)

    def _ranks(self, rows_nF: Tensor, pairs: Pairs, positive_k: Tensor) -> Tensor:
        """From 1, each edge's rank among pairs of its own, ties half: float64 [k]."""
        each = self._options.eval_negatives

        def between(begin: int, end: int) -> Pairs:
            number = torch.arange(begin, end)
            return self.negatives.ranked(pairs[number // each], number % each)

        rank_k = torch.ones(len(pairs), dtype=torch.float64, device=rows_nF.device)
        for batch in self._scores.batches(rows_nF, [PairList(number=len(pairs) * each, between=between)]):
            edge = torch.arange(batch.stretch.start, batch.stretch.stop, device=rows_nF.device) // each
            score, own = self._scores.score(rows_nF, batch), positive_k[edge]
            rank_k.index_add_(0, edge, (score > own).double() + (score == own).double() / 2)
        return rank_k
