"""Dropout whose masks belong to nodes, not to ranks.

A row is dropped where it is used: by its owner, and again by every rank that holds a copy of it. All of them have to
drop the same entries, or k ranks would train with more noise than one rank does. So a mask is a function of the run's
seed, the epoch, the layer and the node's number in the whole graph, and is computed wherever it is used, without any
bytes sent.

Drawing a number for each entry takes longer than the layer's dense product. Instead, each (epoch, layer) draws one
table that all ranks have alike, of a sixteenth as many entries (but 2^17 to 2^20), and a node's mask is the window of F
entries that begins at a hash of its number. Every entry is still zero with the given probability, and two entries of
one row are independent, as are two of one column but for the few nodes whose hashes coincide, other ones in each epoch.
On 2,708 x 1,433 entries that takes 4 ms where drawing each takes 13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from trainer.base.hash_rng import ATTENTION_DROPOUT, DROPOUT, bernoulli_of_pairs, ends_of_pairs, key_of, randint
from trainer.base.pass_context import PassContext
from trainer.base.to_device import to_device

_SHORTEST_TABLE, _LONGEST_TABLE = 1 << 17, 1 << 20
_GATHERED_ON_CPU, _GATHERED_BY_THREAD, _GATHERED_ELSEWHERE = 1 << 21, 1 << 19, 1 << 23
"""Bytes of masks that are gathered at a time. On a CPU they stay in the cores' own caches: the first number, or the
second for each of more than four threads. (The sums of a weight's gradient depend on it, so it is the same for fewer.)
On other devices each piece is a call, and the third counts."""


@dataclass(frozen=True, slots=True)
class Mask:
    """What one layer drops in one pass: rows [., F] of a table, of which each node has its own window."""

    table: Tensor
    """0 where an entry is dropped, else 1 / (1 - share)"""
    starts_n: Tensor
    """Where the window of each of this part's rows begins."""
    starts_H: Tensor
    """The same of each halo row."""

    def own(self, rows_nF: Tensor) -> Tensor:
        """This part's rows after dropout."""
        return dropped(rows_nF, self.table, self.starts_n)

    def halo(self, rows_HF: Tensor, columns: slice = slice(None)) -> Tensor:
        """The halo's rows after dropout, or those rows of it that `columns` names."""
        return dropped(rows_HF, self.table, self.starts_H[columns])

    def with_halo(self, rows: Tensor) -> Tensor:
        """This part's rows, and all of the halo's below them, after dropout: [n + H, F]."""
        return dropped(rows, self.table, torch.cat([self.starts_n, self.starts_H]))

    def of_own(self, rows_nF: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """What this part's rows [n, F] are multiplied by, in their type, some rows at a time."""
        return _windows(rows_nF, self.table, self.starts_n)


@dataclass(frozen=True)
class EdgeMask:
    """Which edges one layer drops in one pass, head by head: a hash of the numbers of both ends, not kept.

    Edges that are alike (the dataset's duplicates) are dropped together.
    """

    ids_n: Tensor
    """int64 [n]: the number of each of this part's rows in the whole graph; each edge's destination is one"""
    halo_ids_H: Tensor
    """int64 [H], the same of the halo"""
    key: int
    share: float
    """Of the entries that are zeroed."""

    def factors(self, destinations_B: Tensor, sources_B: Tensor, num_heads: int, columns: slice | None) -> Tensor:
        """0 where an edge is dropped, else 1 / (1 - share): float32 [heads, B].

        Args:
            destinations_B: this part's rows.
            sources_B: also this part's rows, or rows of a slice of the halo.
            num_heads: each has draws of its own.
            columns: which slice of the halo, None for this part.
        """
        first_n, second_n = self._ends_n
        second = second_n if columns is None else self._ends_H[1][columns]
        first_B, second_B = first_n.index_select(0, destinations_B), second.index_select(0, sources_B)
        heads_h = torch.arange(num_heads, device=first_B.device)
        kept_hB = bernoulli_of_pairs(heads_h, first_B, second_B, self.key, 1 - self.share)
        return kept_hB * (1 / (1 - self.share))

    @cached_property
    def _ends_n(self) -> tuple[Tensor, Tensor]:
        return ends_of_pairs(self.ids_n)

    @cached_property
    def _ends_H(self) -> tuple[Tensor, Tensor]:
        return ends_of_pairs(self.halo_ids_H)


def dropped(rows: Tensor, table: Tensor, starts: Tensor) -> Tensor:
    """Rows [., F] times the windows of the table that begin at `starts` [.], with gradients."""
    return cast(Tensor, _Dropped.apply(rows, table, starts))  # type: ignore[no-untyped-call]


class _Dropped(torch.autograd.Function):
    """Rows times their windows. No mask is kept for the backward pass: it is as quickly gathered again."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, table: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(table, starts)
        return _times_windows(rows, table, starts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _times_windows(grad, *ctx.saved_tensors), None, None


def _times_windows(rows: Tensor, table: Tensor, starts: Tensor) -> Tensor:
    products = torch.empty_like(rows)
    for chunk, windows in _windows(rows, table, starts):
        torch.mul(rows[chunk], windows, out=products[chunk])
    return products


def _windows(rows: Tensor, table: Tensor, starts: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The windows of a few rows at a time, so that what is gathered is used while it is still in the processor's cache;
    a caller may change them."""
    width = rows.shape[1]
    every_window = table.to(rows.dtype).as_strided((len(table) - width + 1, width), (1, 1))
    gathered = _GATHERED_ELSEWHERE
    if rows.device.type == "cpu":
        gathered = max(_GATHERED_ON_CPU, _GATHERED_BY_THREAD * torch.get_num_threads())
    num_rows = max(gathered // max(width * rows.itemsize, 1), 1)
    for begin in range(0, len(rows), num_rows):
        chunk = slice(begin, begin + num_rows)
        yield chunk, every_window.index_select(0, starts[chunk])


@dataclass(frozen=True, slots=True)
class Dropout:
    """The masks of one part and of its halo, of all layers and epochs."""

    ids_n: Tensor
    """int64, on the device that computes: the number of each row's node in the whole graph"""
    halo_ids_H: Tensor
    """int64, the same of the halo"""
    num_nodes: int
    """N"""
    seed: int
    """Decides every mask."""

    def mask(self, share: float, layer: int, width: int, context: PassContext) -> Mask | None:
        """What `layer` drops in a pass; None where nothing is dropped.

        Args:
            share: of the entries that are zeroed, 0 <= share < 1.
            layer: 1 .. L.
            width: F.
            context: only a training pass drops anything.
        """
        if not context.training or not share:
            return None
        key = key_of(self.seed, context.epoch, layer, DROPOUT)
        length = min(max(self.num_nodes * width // 16, _SHORTEST_TABLE), _LONGEST_TABLE)
        length = 1 << (length - 1).bit_length()
        generator = torch.Generator().manual_seed(key)
        table = torch.rand(length + width, generator=generator).ge_(share).mul_(1 / (1 - share))
        return Mask(
            to_device(table, self.ids_n.device), randint(self.ids_n, key, length), randint(self.halo_ids_H, key, length)
        )

    def of_edges(self, share: float, layer: int, context: PassContext) -> EdgeMask | None:
        """Which attention coefficients `layer` drops in a pass; None where nothing is dropped."""
        if not context.training or not share:
            return None
        key = key_of(self.seed, context.epoch, layer, ATTENTION_DROPOUT)
        return EdgeMask(self.ids_n, self.halo_ids_H, key, share)
