"""The checks of a GPU that look at single kernels: products, messages, softmaxes, and a product beside an exchange."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.gpu_figures import PRECISIONS, SIZES, Row, error, median_seconds, row

EDGES_A_ROW = 20
NEAR = 500
"""How far sources are at most in local order."""


def check_spmm(device: str, folder: Path) -> list[Row]:  # noqa: ARG001
    """Products of the trainer's matrices, one of whose rows has a great many entries."""
    import torch

    from trainer.base.precision import TYPES
    from trainer.data.csr import Csr
    from trainer.sparse.adjacency import Matrix, TwoWay

    sizes, place, random = SIZES[device], torch.device(device), torch.Generator().manual_seed(0)
    counts = torch.randint(0, 30, (sizes["hub"],), generator=random)
    counts[7] = sizes["hub"]
    indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()
    num_edges = int(indptr[-1])
    indices = torch.randint(0, sizes["hub"], (num_edges,), generator=random).int()
    row_E = torch.arange(len(counts)).repeat_interleave(counts)
    mean_E = (1 / counts.clamp(min=1))[row_E].float()
    csr = Csr(indptr=indptr, indices=indices, weights=mean_E, num_columns=len(counts))
    exact = torch.randn(len(counts), sizes["width"], generator=random)
    products: dict[tuple[str, str], Any] = {}
    for kernels in _kernels(place):
        with _only(kernels):
            both = TwoWay.of(csr, lambda csr: Matrix(csr, place))
            products |= {("A", kernels): both.forward, ("A^T", kernels): both.backward}
    rows = []
    for width in sorted({sizes["width"], 20, 7}):
        for name in PRECISIONS:
            stored = torch.randn(len(counts), width, generator=random).to(TYPES[name])
            wide, on_device = stored.double(), stored.to(place)
            for way, to, source in (("A", row_E, indices), ("A^T", indices.long(), row_E)):
                values = mean_E.double().unsqueeze(1) * wide[source.long()]
                expected = torch.zeros_like(wide).index_add_(0, to, values)
                for kernels in _kernels(place):
                    matrix, case = products[way, kernels], f"{way} x, {name}, {width} wide, {kernels}'s kernel"
                    mine = matrix @ on_device
                    # What is summed is exact in fp32, so all precisions have the limit of fp32.
                    rows.append(row(case, error(mine.double().cpu(), expected), "of the greatest", 1e-4))
                    if kernels == "Triton":
                        changed = sum(float(((matrix @ on_device) != mine).sum()) for _ in range(3))
                        rows.append(row(f"{case}, 3 times more", changed, "other values", 0.0))
    ones = torch.ones(len(counts), 16, dtype=torch.float16, device=place)
    for kernels in _kernels(place):
        matrix, x = products["A", kernels], exact.to(place)
        mean = float((matrix @ ones)[7].float().cpu()[0])
        rows.append(row(f"a mean of {sizes['hub']:,} fp16 ones, less 1, {kernels}'s kernel", abs(mean - 1), "", 1e-3))
        seconds = median_seconds(partial(matrix.__matmul__, x), place)
        rows.append(row(f"A x with a hub, fp32, {num_edges:,} edges, {kernels}'s kernel", 1e3 * seconds, "ms"))
    return rows + _bandwidths(device, place)


def _bandwidths(device: str, place: Any) -> list[Row]:
    """Bytes a second of a copy, and those that a product reads and writes where no row is in a cache."""
    import torch

    from trainer.base.precision import TYPES
    from trainer.sparse.adjacency import Matrix

    sizes = SIZES[device]
    values = torch.empty(sizes["copied"], dtype=torch.uint8, device=place)
    target = torch.empty_like(values)
    copied = 2 * len(values) / median_seconds(lambda: target.copy_(values), place)
    rows = [row("a copy, read and written", copied / 1e9, "GB/s")]
    for order in ("random", "local"):
        csr = graph(sizes["rows"], is_local=order == "local")
        for kernels in _kernels(place):
            with _only(kernels):
                matrix = Matrix(csr, place)
            for width in (sizes["width"], 2 * sizes["width"]):
                for name in PRECISIONS:
                    x = torch.randn(sizes["rows"], width, device=place).to(TYPES[name])
                    moved = csr.num_edges * (width * x.element_size() + 8) + 4 * sizes["rows"] * width
                    rate = moved / median_seconds(partial(matrix.__matmul__, x), place)
                    case = f"A x, {order} order, {name}, {width} wide, {kernels}'s kernel"
                    rows += [row(case, rate / 1e9, "GB/s"), row(f"{case}, of a copy", rate / copied, "share")]
    return rows


def graph(num_rows: int, *, is_local: bool) -> Any:
    """A weighted Csr of as many edges in each row, whose sources are near where it `is_local`."""
    import torch

    from trainer.data.csr import Csr

    random = torch.Generator().manual_seed(0)
    numbers = torch.arange(num_rows).repeat_interleave(EDGES_A_ROW)
    if is_local:
        sources = torch.randint(-NEAR, NEAR + 1, numbers.shape, generator=random).add_(numbers).remainder_(num_rows)
    else:
        sources = torch.randint(0, num_rows, numbers.shape, generator=random)
    return Csr(
        indptr=torch.arange(num_rows + 1, dtype=torch.int32) * EDGES_A_ROW,
        indices=sources.int(),
        weights=torch.rand(numbers.shape, generator=random),
        num_columns=num_rows,
    )


def _kernels(place: Any) -> list[str]:
    """Whose kernels compute products here."""
    from trainer.kernels.dispatch import serves

    return ["torch", "Triton"] if serves(place) else ["torch"]


def _only(kernels: str) -> AbstractContextManager[object]:
    """Matrices that are made meanwhile multiply by these kernels."""
    from trainer.kernels.dispatch import serves

    return patch("trainer.sparse.adjacency.serves", lambda device: kernels == "Triton" and serves(device))


def overlap(device: str, place: Any) -> list[Row]:
    """Rows that a rank sends itself, a product, and both as a layer has them: start to send, multiply, wait."""
    import torch
    import torch.distributed as dist

    from trainer.sparse.adjacency import Matrix

    sizes = SIZES[device]
    matrix = Matrix(graph(sizes["rows"], is_local=False), place)
    x = torch.randn(sizes["rows"], sizes["width"], device=place)
    rows = torch.randn(sizes["copied"] // 4, device=place)
    received = torch.empty_like(rows)

    def exchange(work: Any = None) -> None:
        pending = dist.all_to_all_single(received, rows, async_op=True)
        assert pending is not None
        if work is not None:
            work()
        pending.wait()

    def multiply() -> None:
        _ = matrix @ x

    alone = median_seconds(exchange, place)
    product = median_seconds(multiply, place)
    together = median_seconds(lambda: exchange(multiply), place)
    hidden = (alone + product - together) / min(alone, product)
    return [
        row(f"1 rank: {sizes['copied'] / 1e6:.0f} MB to itself", 1e3 * alone, "ms"),
        row("a product", 1e3 * product, "ms"),
        row("both at the same time", 1e3 * together, "ms"),
        row("of the shorter of both, hidden behind the other", hidden, "share"),
    ]


def check_kernels(device: str, folder: Path) -> list[Row]:  # noqa: ARG001
    """Messages and softmaxes by Triton's kernels, beside torch's."""
    import torch

    from trainer.kernels.dispatch import serves

    place = torch.device(device)
    if not serves(place):
        return [row("Triton's kernels are not used here, so there is nothing to check", 0.0, "")]
    return _messages(device, place) + _softmax(device, place)


def _messages(device: str, place: Any) -> list[Row]:
    import torch

    from trainer.exchange.wire import int8_message
    from trainer.kernels.pack import pack_half, pack_int8, unpack_int8

    sizes, random = SIZES[device], torch.Generator().manual_seed(0)
    x = torch.randn(sizes["messages"], sizes["width"], generator=random)
    x *= torch.randint(-30, 30, (len(x), 1), generator=random).float().exp2()
    picks = torch.randint(0, len(x), (len(x),), generator=random)
    chances = torch.rand(x.shape, generator=random)
    x_there, picks_there, chances_there = x.to(place), picks.to(place), chances.to(place)
    rows = []
    for name, sent in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        greatest = torch.finfo(sent).max
        expected = x[picks].clamp(-greatest, greatest).to(sent).view(torch.uint8)
        mine = pack_half(x_there, sent, clamps=True, picks_R=picks_there).cpu()
        rows.append(row(f"messages in {name}, of selected rows", float((mine != expected).sum()), "other bytes", 0.0))
    expected = int8_message(x[picks], chances)
    mine = pack_int8(x_there, chances_there, picks_there)
    rows.append(row("messages in int8, of selected rows", float((mine.cpu() != expected).sum()), "other bytes", 0.0))
    back = unpack_int8(mine, torch.float32).cpu()
    scale = expected[:, -2:].contiguous().view(torch.bfloat16).float()
    values = expected[:, :-2].view(torch.int8).float() * scale
    rows.append(row("rows of int8 messages", float((back != values).sum()), "other values", 0.0))
    if device == "cpu":
        return rows  # an interpreter's seconds say nothing
    moved = x.numel() * (4 + 4 + 1)
    for kernels, pack in (("Triton", pack_int8), ("torch", int8_message)):
        rate = moved / median_seconds(partial(pack, x_there, chances_there), place)
        rows.append(row(f"messages in int8, {kernels}'s kernels", rate / 1e9, "GB/s"))
    return rows


def _softmax(device: str, place: Any) -> list[Row]:
    import torch

    from trainer.data.csr import indptr_of
    from trainer.kernels.row_pieces import RowPieces
    from trainer.kernels.segment_softmax import segment_softmax

    sizes, random, num_heads = SIZES[device], torch.Generator().manual_seed(0), 4
    counts = torch.randint(0, 30, (sizes["messages"],), generator=random)
    counts[3] = 20 * sizes["messages"]
    indptr = indptr_of(counts, torch.int32)
    pieces = RowPieces.of(indptr, indptr.to(place))
    scores = 20 * torch.randn(int(indptr[-1]), num_heads, generator=random)
    scores_there = scores.to(place)
    found, log_sums = segment_softmax(scores_there, pieces)
    row_E, wide = torch.arange(len(counts)).repeat_interleave(counts), scores.double()
    greatest = wide.new_full((len(counts), num_heads), -torch.inf)
    greatest.index_reduce_(0, row_E, wide, "amax")
    powers = (wide - greatest[row_E]).exp()
    totals = torch.zeros_like(greatest).index_add_(0, row_E, powers)
    has_edges = counts > 0
    exact_sums = (totals.log() + greatest)[has_edges]
    rows = [
        row("softmax over in-edges", error(found.double().cpu(), powers / totals[row_E]), "of the greatest", 1e-4),
        row("its log-sums", error(log_sums.double().cpu()[has_edges], exact_sums), "of the greatest", 1e-5),
    ]
    if device == "cuda":
        rate = 3 * 4 * scores.numel() / median_seconds(lambda: segment_softmax(scores_there, pieces), place)
        rows.append(row(f"softmax over in-edges, {num_heads} heads, Triton's kernels", rate / 1e9, "GB/s"))
    return rows
