"""Weighted sums of rows: row i of the result is the sum over the edges e of row i of weights[e] * rows[indices[e]].

This is the product of a sparse matrix by rows (CSR) and a dense one. Weights and sums are fp32 whatever the type of
the rows: half-precision rows are widened first, so that no weight of 1/degree is rounded away and no sum overflows or
stops growing. torch's own kernel for half-precision rows adds in fp32 too, but takes weights and gives sums in the type
of the rows: a sum of 70,000 fp16 ones is infinite there.

Three kernels of torch compute it on a CPU:

    embedding_bag   adds whole rows by FBGEMM's generated code, with prefetching; the fastest from 4 columns on, by 2
                    to 4 times from 16 on
    CSR mm          MKL's; for fewer than 4 columns
    CSR reduce      in place of embedding_bag where FBGEMM has no code for the processor, if it is faster there

All add the edges of a row in their order, on one thread, so the result does not depend on the number of threads. On
other devices the product of a CSR tensor (cuSPARSE's on a GPU) does all.

embedding_bag gives every thread as many rows. Where some rows have most edges and lie together, as in the order for
locality of a power-law graph, one thread would have most of the work (1.8 times its share with 2 threads on R-MAT, 8
times with 16). Then the rows are summed in 64 pieces of as many edges, within which degrees are alike: 1.1 and 1.4
times. A single row is never split.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

log = logging.getLogger("trainer")

WIDE = 4
"""Columns from which on embedding_bag is faster than MKL."""
_GENERATED = ("AVX2", "AVX512")
"""The processors that FBGEMM generates code for, as torch names them."""
_PIECES = 64
_LEAST_VALUES = 1 << 23
"""Values (edges x columns) that are worth summing in pieces: some 5 ms of one core."""
_UNEVEN = 1.25
"""From how many times its share of the edges on a thread has too many."""
_COST_OF_ROW = 2
"""Edges that take as long as what is done once a row."""
_PROBE_ROWS, _PROBE_DEGREE, _PROBE_WIDTH = 2048, 16, 64

Kernel = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]
"""From `indptr`, `indices`, `weights` and float32 `rows` to the sums."""


def weighted_row_sums(indptr: Tensor, indices: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
    """The sums of each row's edges: float32 [n, F]. They record no gradient.

    Args:
        indptr: int32 or int64 [n + 1], from 0 to E.
        indices: [E], the type of `indptr`: a row of `rows` for each edge; they may repeat and need not ascend.
        weights: float32 [E]; None where every edge weighs 1.
        rows: [., F] in any type, on the device of the others.
    """
    with torch.no_grad():
        num_rows, width = len(indptr) - 1, rows.shape[1]
        if not len(indices) or not width:
            return torch.zeros(num_rows, width, device=rows.device)
        return _kernel(rows)(indptr, indices, weights, rows.detach().float().contiguous())


def _kernel(rows: Tensor) -> Kernel:
    """What computes sums of such rows: the one place where that is decided."""
    if rows.device.type != "cpu" or rows.shape[1] < WIDE:
        return csr_product
    return wide_kernel(torch.backends.cpu.get_cpu_capability())


def bag_sums(indptr: Tensor, indices: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
    """The sums by `embedding_bag`."""
    weights = None if weights is None else weights.contiguous()
    if len(indices) * rows.shape[1] < _LEAST_VALUES or not is_uneven(indptr, torch.get_num_threads()):
        return _bags(indptr, indices, weights, rows)
    sums = rows.new_empty(len(indptr) - 1, rows.shape[1])
    for begin, end in even_pieces(indptr, _PIECES):
        first, last = int(indptr[begin]), int(indptr[end])
        of_piece = None if weights is None else weights[first:last]
        sums[begin:end] = _bags(indptr[begin : end + 1] - first, indices[first:last], of_piece, rows)
    return sums


def _bags(indptr: Tensor, indices: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
    sums: Tensor = torch.embedding_bag(
        rows, indices, indptr, mode=0, per_sample_weights=weights, include_last_offset=True
    )[0]
    return sums


def is_uneven(indptr: Tensor, num_threads: int) -> bool:
    """Whether a thread gets far more than its share of the edges where each gets as many consecutive rows."""
    num_rows = len(indptr) - 1
    if num_threads == 1 or not num_rows:
        return False
    edges_of_threads = indptr[:: -(-num_rows // num_threads)].diff(append=indptr[-1:])
    return int(edges_of_threads.max()) * num_threads > _UNEVEN * int(indptr[-1])


def even_pieces(indptr: Tensor, number: int) -> list[tuple[int, int]]:
    """Consecutive rows in at most `number` pieces of about as much work each, by their first row and the one behind."""
    num_rows = len(indptr) - 1
    work = indptr + torch.arange(0, _COST_OF_ROW * num_rows + 1, _COST_OF_ROW)
    shares = torch.arange(number + 1) * int(work[-1]) // number
    return list(pairwise(sorted(set(torch.searchsorted(work, shares).tolist()))))


def csr_product(indptr: Tensor, indices: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
    """The sums as the product of a CSR tensor."""
    return torch.mm(csr_tensor(indptr, indices, weights, len(rows)), rows)


def csr_reduction(indptr: Tensor, indices: Tensor, weights: Tensor | None, rows: Tensor) -> Tensor:
    """The sums by torch's row-wise reduction."""
    sums: Tensor = torch.sparse.mm(csr_tensor(indptr, indices, weights, len(rows)), rows, reduce="sum")
    return sums


def csr_tensor(indptr: Tensor, indices: Tensor, weights: Tensor | None, num_columns: int) -> Tensor:
    """A matrix with these entries, which shares their memory."""
    if weights is None:
        weights = torch.ones(len(indices), device=indices.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks")  # of releases before 2.13
        # Columns may repeat (the dataset's duplicates) and need not ascend: all kernels just add.
        return torch.sparse_csr_tensor(
            indptr, indices, weights, size=(len(indptr) - 1, num_columns), check_invariants=False
        )


@cache
def wide_kernel(processor: str) -> Kernel:
    """The kernel for at least `WIDE` columns: `embedding_bag` where it has code for the processor, else what is faster
    in a trial of some 10 ms.

    Args:
        processor: as `torch.backends.cpu.get_cpu_capability` names it.
    """
    if processor in _GENERATED:
        return bag_sums
    seconds = {kernel: _trial(kernel) for kernel in (bag_sums, csr_reduction)}
    faster = min(seconds, key=lambda kernel: seconds[kernel])
    log.info(
        "sums over neighbours use %s: a trial took %.2f ms with embedding_bag and %.2f with CSR reduce",
        "embedding_bag" if faster is bag_sums else "CSR reduce",
        1e3 * seconds[bag_sums],
        1e3 * seconds[csr_reduction],
    )
    return faster


def _trial(kernel: Kernel) -> float:
    """The seconds of a small product, the better of two after one that is not counted."""
    generator, num_edges = torch.Generator().manual_seed(0), _PROBE_ROWS * _PROBE_DEGREE
    indptr = torch.arange(0, num_edges + 1, _PROBE_DEGREE, dtype=torch.int32)
    indices = torch.randint(_PROBE_ROWS, (num_edges,), generator=generator, dtype=torch.int32)
    weights, rows = torch.ones(num_edges), torch.ones(_PROBE_ROWS, _PROBE_WIDTH)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        kernel(indptr, indices, weights, rows)
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])
