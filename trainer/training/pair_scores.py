"""Scores pairs of nodes in batches, and takes the gradients of a loss over them back to the rows of the nodes.

The rows of the encoder are cut off from its backward pass. Every batch fetches the rows that it needs, is scored by the
decoder, and adds its gradients to those of the rows at their owners. Then one backward pass through the encoder has the
gradient of the whole loss. So the memory is that of a batch, and batches change nothing but the order in which numbers
are added.

Letters: n rows of this rank, k pairs of a batch, F columns of a row, D features of an edge, C scores of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.data.edge_split import Pairs
from trainer.exchange.pair_rows import FetchedRows, PairRows


@dataclass(frozen=True, slots=True, kw_only=True)
class PairList:
    """Pairs of one kind, of which stretches are taken or drawn when their turn comes."""

    number: int
    between: Callable[[int, int], Pairs]
    features: Tensor | None = None
    """float32 [number, D]: of the edges, where the decoder reads them"""

    @classmethod
    def of(cls, pairs: Pairs, features: Tensor | None = None) -> PairList:
        return cls(number=len(pairs), between=lambda begin, end: pairs[begin:end], features=features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Pairs, and what was fetched for them; none on a rank that waits for the others' last batches."""

    kind: int
    """Their place in the sequence of lists"""
    stretch: slice
    """Which pairs of their list they are"""
    own_rows: Tensor
    """The rows of the second nodes"""
    fetched: FetchedRows
    features_kD: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairScores:
    """The decoder over the rows of one pass. Every rank has to call each method."""

    rows: PairRows
    decoder: nn.Module
    size: int
    """Pairs of a batch, at most"""

    def of(self, rows_nF: Tensor, *lists: PairList) -> list[Tensor]:
        """The scores of this rank's pairs of each list: float32 [number], or [number, C]."""
        pieces: list[list[Tensor]] = [[] for _ in lists]
        for batch in self.batches(rows_nF, lists):
            pieces[batch.kind].append(self.score(rows_nF, batch))
        return [
            torch.cat(of_list) if of_list else self._none(rows_nF, one)
            for of_list, one in zip(pieces, lists, strict=True)
        ]

    def score(self, rows_nF: Tensor, batch: Batch) -> Tensor:
        """The scores of one batch."""
        return self._decoded(batch, batch.fetched.rows_mF, rows_nF[batch.own_rows])

    def backward(
        self, rows_nF: Tensor, factor: float, lists: Sequence[PairList], loss_of: Callable[[Batch, Tensor], Tensor]
    ) -> Tensor:
        """Backpropagate the sum of the batches' losses, times `factor`, and return it without a gradient: a scalar.

        Args:
            rows_nF: what the encoder gave.
            factor: the scale of the loss.
            lists: the pairs.
            loss_of: this rank's share of the loss of a batch, from its scores.
        """
        rows = rows_nF.detach()
        gradient_nF, loss = torch.zeros_like(rows), rows.new_zeros((), dtype=torch.float64)
        for batch in self.batches(rows, lists):
            fetched_mF, own_kF = batch.fetched.rows_mF.requires_grad_(), rows[batch.own_rows].requires_grad_()
            share = loss_of(batch, self._decoded(batch, fetched_mF, own_kF))
            (share * factor).backward()  # type: ignore[no-untyped-call]
            assert fetched_mF.grad is not None
            assert own_kF.grad is not None
            loss += share.detach()
            gradient_nF.index_add_(0, batch.own_rows, own_kF.grad)
            self.rows.send_back(batch.fetched, fetched_mF.grad, gradient_nF)
        rows_nF.backward(gradient_nF)  # type: ignore[no-untyped-call]
        return loss.float()

    def batches(self, rows_nF: Tensor, lists: Sequence[PairList]) -> Iterator[Batch]:
        """Batches of all pairs, with the rows of their first nodes; as many on every rank."""
        stretches = [
            (kind, slice(begin, min(begin + self.size, of_kind.number)))
            for kind, of_kind in enumerate(lists)
            for begin in range(0, of_kind.number, self.size)
        ]
        number, has_more = 0, True
        while has_more:
            kind, stretch = stretches[number] if number < len(stretches) else (0, slice(0, 0))
            number += 1
            pairs, features = lists[kind].between(stretch.start, stretch.stop), lists[kind].features
            fetched = self.rows.fetch(rows_nF, pairs.source_k, has_more=number < len(stretches))
            yield Batch(
                kind=kind,
                stretch=stretch,
                own_rows=pairs.row_k.to(rows_nF.device),
                fetched=fetched,
                features_kD=None if features is None else features[stretch].to(rows_nF.device),
            )
            has_more = fetched.has_more

    def _none(self, rows_nF: Tensor, of: PairList) -> Tensor:
        """The scores of no pair."""
        features_kD = None if of.features is None else of.features[:0].to(rows_nF.device)
        scores: Tensor = self.decoder(rows_nF[:0], rows_nF[:0], features_kD)
        return scores

    def _decoded(self, batch: Batch, fetched_mF: Tensor, own_kF: Tensor) -> Tensor:
        scores: Tensor = self.decoder(fetched_mF[batch.fetched.place_k], own_kF, batch.features_kD)
        return scores
