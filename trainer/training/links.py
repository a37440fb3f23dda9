"""Learns edges: the loss over training edges and random pairs, and how well validation and test edges are found.

The loss is the mean over all ranks' training edges of -log sigmoid(score) plus the mean over the random pairs of
-log(1 - sigmoid(score)), as in PyG's GAE, so both kinds count alike whatever their numbers.

The rows of the encoder are cut off from its backward pass. Batches of pairs, edges first, then random pairs, fetch the
rows that they need, are scored by the decoder, and add their gradients to those of the rows at their owners. Then one
backward pass through the encoder has the gradient of the whole loss. So the memory is that of a batch, and the batches
change nothing but the order in which numbers are added.

An evaluation scores each group's edges against as many random pairs, which are the same in every epoch, and for the
mean reciprocal rank each edge against `--eval-negatives` pairs of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainer.config.edge_shares import edge_counts
from trainer.config.options import Options
from trainer.data.edge_split import HASH_END, EdgeSplit, Pairs, PartEdges, smallest_with
from trainer.data.negatives import TRIES, Negatives
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.exchange.pair_rows import FetchedRows, PairRows
from trainer.exchange.save_pairs import save_pairs
from trainer.training.ranking import ranking_metrics
from trainer.training.supervision import Group, Measured

log = logging.getLogger("trainer")


def find_split(options: Options, edges: PartEdges, communicator: Communicator) -> EdgeSplit:
    """The split of all ranks' pairs with the counts that the options ask for; every rank has to call it.

    Pairs of one hash stay together: in a directed graph an edge and its reverse. Such a group at a border is on the
    side before it.
    """
    sorted_k, _ = edges.hash_k.sort()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """Pairs of one kind, of which stretches are taken or drawn when their turn comes."""

    number: int
    between: Callable[[int, int], Pairs]

    @classmethod
    def of(cls, pairs: Pairs) -> _Kind:
        return cls(number=len(pairs), between=lambda begin, end: pairs[begin:end])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Pairs, and what was fetched for them; none on a rank that waits for the others' last batches."""

    kind: int
    """Their place in the list of kinds"""
    stretch: slice
    """Which of the pairs of their kind they are"""
    pairs: Pairs
    fetched: FetchedRows


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
        self._options, self._objective, self._rows, self._decoder = options, objective, rows, decoder
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
        rows = rows_nF.detach()
        gradient_nF, loss = torch.zeros_like(rows), rows.new_zeros((), dtype=torch.float64)
        num_edges = self.counts["train"]
        num_random = num_edges * self._options.negatives
        random = self.negatives.random("train", epoch, num_random)
        kinds = [_Kind.of(self.pairs["train"]), _Kind(number=len(random), between=random.between)]
        for batch in self._batches(rows, kinds):
            fetched_mF = batch.fetched.rows_mF.requires_grad_()
            own_rows = batch.pairs.row_k.to(rows.device)
            own_kF = rows[own_rows].requires_grad_()
            score_k = self._decoder(fetched_mF[batch.fetched.place_k], own_kF)
            sign, divisor = ((-1, num_edges), (1, num_random))[batch.kind]
            share = nn.functional.softplus(sign * score_k).sum() / divisor
            (share * factor).backward()  # type: ignore[no-untyped-call]
            assert fetched_mF.grad is not None
            assert own_kF.grad is not None
            loss += share.detach()
            gradient_nF.index_add_(0, own_rows, own_kF.grad)
            self._rows.send_back(batch.fetched, fetched_mF.grad, gradient_nF)
        rows_nF.backward(gradient_nF)  # type: ignore[no-untyped-call]
        return loss.float()

    @torch.no_grad()
    def measure(self, rows_nF: Tensor, *groups: Group) -> list[Measured]:
        measured = []
        for group in groups:
            pairs, random = self.pairs[group], self.random_pairs(group)
            positive_k, negative = self.scores(rows_nF, _Kind.of(pairs), random)
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
        return {"pairs": self.counts, "negatives_kept": num_kept}

    @torch.no_grad()
    def save(self, file: str, rows_nF: Tensor) -> None:
        """Write the test pairs with their scores by these rows; every rank has to call it.

        Raises:
            TrainingError: it cannot be written.
        """
        kinds = [_Kind.of(self.pairs["test"]), self.random_pairs("test")]
        pairs = [kind.between(0, kind.number) for kind in kinds]
        columns = {
            "source": torch.cat([of_kind.source_k for of_kind in pairs]),
            "destination": self.negatives.edges.ids_n[torch.cat([of_kind.row_k for of_kind in pairs])],
            "is_edge": torch.cat([torch.full((kind.number,), 1 - number) for number, kind in enumerate(kinds)]),
            "score": torch.cat(self.scores(rows_nF, *kinds)),
        }
        save_pairs(file, columns, self._communicator)

    def random_pairs(self, group: Group) -> _Kind:
        """The pairs that are no edges of an evaluation, on this rank."""
        random = self.negatives.random(group, 0, self.counts[group])
        return _Kind(number=len(random), between=random.between)

    def scores(self, rows_nF: Tensor, *kinds: _Kind) -> list[Tensor]:
        """The scores of this rank's pairs of each kind: float32; every rank has to call it."""
        scores = [rows_nF.new_empty(kind.number) for kind in kinds]
        for batch in self._batches(rows_nF, kinds):
            scores[batch.kind][batch.stretch] = self._score(rows_nF, batch)
        return scores

    def _ranks(self, rows_nF: Tensor, pairs: Pairs, positive_k: Tensor) -> Tensor:
        """From 1, each edge's rank among pairs of its own, ties half: float64 [k]."""
        each = self._options.eval_negatives

        def between(begin: int, end: int) -> Pairs:
            number = torch.arange(begin, end)
            return self.negatives.ranked(pairs[number // each], number % each)

        rank_k = torch.ones(len(pairs), dtype=torch.float64, device=rows_nF.device)
        for batch in self._batches(rows_nF, [_Kind(number=len(pairs) * each, between=between)]):
            edge = torch.arange(batch.stretch.start, batch.stretch.stop, device=rows_nF.device) // each
            score, own = self._score(rows_nF, batch), positive_k[edge]
            rank_k.index_add_(0, edge, (score > own).double() + (score == own).double() / 2)
        return rank_k

    def _score(self, rows_nF: Tensor, batch: _Batch) -> Tensor:
        fetched, own_rows = batch.fetched, batch.pairs.row_k.to(rows_nF.device)
        scores: Tensor = self._decoder(fetched.rows_mF[fetched.place_k], rows_nF[own_rows])
        return scores

    def _batches(self, rows_nF: Tensor, kinds: Sequence[_Kind]) -> Iterator[_Batch]:
        """Batches of all pairs, with the rows of their first nodes; as many on every rank."""
        size = self._options.pair_batch
        stretches = [
            (kind, slice(begin, min(begin + size, of_kind.number)))
            for kind, of_kind in enumerate(kinds)
            for begin in range(0, of_kind.number, size)
        ]
        number, has_more = 0, True
        while has_more:
            kind, stretch = stretches[number] if number < len(stretches) else (0, slice(0, 0))
            number += 1
            pairs = kinds[kind].between(stretch.start, stretch.stop)
            fetched = self._rows.fetch(rows_nF, pairs.source_k, has_more=number < len(stretches))
            yield _Batch(kind=kind, stretch=stretch, pairs=pairs, fetched=fetched)
            has_more = fetched.has_more
