"""The neighbour sum over ranks and its gradient."""

from __future__ import annotations

import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainer.dense_reference import dense_adjacency
from tests.trainer.parity_cases import graphs
from tests.trainer.rank_group import among_ranks, empty_traffic_log, run_options
from trainer.base.pass_context import PassContext
from trainer.config.options import EXCHANGES
from trainer.data.cache import open_cache
from trainer.data.cross_edges import cross_edges
from trainer.data.csr import Csr, hstack
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange
from trainer.exchange.tensor_exchange import TensorExchange
from trainer.layers.aggregate import Aggregation, fetch_rounds
from trainer.layers.tensor_aggregate import TensorAggregation
from trainer.sparse.adjacency import Matrix, TwoWay

pytestmark = pytest.mark.slow

NAMES = ("directed, weighted, uneven", "self-loops and duplicates", "an empty part", "a part without halo")
SUMS = {"gcn": "gcn", "sage": "mean", "gin": "sum"}
MATRIX = partial(Matrix, device=torch.device("cpu"))


def whole_sum_and_gradient(
    communicator: Communicator, *, cache: str, model: str, kind: str
) -> tuple[list[list[float]], list[list[float]]]:
    """A H and A^T G of the whole graph in its own node order, computed among the ranks, for H and G from `inputs`."""
    communicator.connect()
    opened = open_cache(cache)
    part = load_part(opened, communicator.rank, split=0)
    traffic_log = empty_traffic_log(communicator)
    exchange, tensor = Exchange(run_options(cache, exchange=kind), part, communicator, traffic_log), None
    if kind == "tensor":
        graph = cross_edges([load_part(opened, number, split=0) for number in range(opened.num_parts)])
        columns = TensorExchange(wires=exchange.wires, communicator=communicator, traffic_log=traffic_log)
        tensor = TensorAggregation(graph, part, columns, sums=SUMS[model], layers=[2])
    aggregation = Aggregation(part, exchange, communicator, sums=SUMS[model], tensor=tensor)
    file = Path(cache, f"parts/{communicator.rank}/nodes/node/global_ids/c/0")
    ids = torch.from_numpy(np.fromfile(file, np.int64) if file.exists() else np.empty(0, np.int64))
    rows, directions = inputs(opened.num_nodes)
    own = rows[ids].requires_grad_()
    sums = aggregation(own, 2, PassContext(epoch=1, training=True))
    sums.backward(directions[ids])
    assert own.grad is not None
    together = torch.zeros(2, opened.num_nodes, rows.shape[1])
    together[0, ids], together[1, ids] = sums.detach(), own.grad
    communicator.all_reduce(together)
    return together[0].tolist(), together[1].tolist()


def inputs(num_nodes: int) -> tuple[Tensor, Tensor]:
    """H and G, the same wherever they are made."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(num_nodes, 3, generator=generator), torch.randn(num_nodes, 3, generator=generator)


@pytest.fixture(scope="module")
def found(caches: dict[tuple[str, int], Path]) -> dict[tuple[str, str, str], tuple[Tensor, Tensor]]:
    cases = [(name, model, kind) for name in NAMES for model in SUMS for kind in EXCHANGES]
    tasks = [
        partial(whole_sum_and_gradient, cache=str(caches[name, 3]), model=model, kind=kind)
        for name, model, kind in cases
    ]
    outcomes = among_ranks(3, tasks)
    return {case: (torch.tensor(a), torch.tensor(b)) for case, (a, b) in zip(cases, outcomes, strict=True)}


@pytest.mark.parametrize("kind", EXCHANGES)
@pytest.mark.parametrize("model", SUMS)
@pytest.mark.parametrize("name", NAMES)
def test_sum_and_gradient_are_those_of_the_whole_matrix(
    found: dict[tuple[str, str, str], tuple[Tensor, Tensor]], name: str, model: str, kind: str
) -> None:
    """A backward pass with A instead of its transpose is right on undirected graphs and wrong here; a row that goes to
    two peers and gets one gradient back is wrong by that peer's share."""
    graph, _ = graphs()[name]
    matrix = dense_adjacency(graph, model).float()
    rows, directions = inputs(graph.num_nodes)
    sums, gradient = found[name, model, kind]
    torch.testing.assert_close(sums, matrix @ rows, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, matrix.T @ directions, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [1, 3, 4, 65])
@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
def test_product_and_transpose_on_both_kernels(width: int, index_type: torch.dtype) -> None:
    """Narrow and wide rows take different kernels; repeated and unsorted columns, and empty rows, are right in both."""
    csr = Csr(
        indptr=torch.tensor([0, 3, 3, 5], dtype=index_type),
        indices=torch.tensor([3, 0, 0, 2, 1], dtype=index_type),
        weights=torch.tensor([1.0, 2.0, 3.0, -4.0, 0.5]),
        num_columns=4,
    )
    dense = torch.tensor([[5.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.5, -4.0, 0.0]])
    rows, direction = torch.randn(4, width), torch.randn(3, width)
    both = TwoWay.of(csr, MATRIX)
    torch.testing.assert_close(both.forward @ rows, dense @ rows)
    torch.testing.assert_close(both.backward @ direction, dense.T @ direction)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 3)])
def test_a_matrix_without_edges_gives_zeros(shape: tuple[int, int]) -> None:
    """An empty part and a part without halo have blocks without edges, on which the kernels may fail."""
    num_rows, num_columns = shape
    empty = torch.empty(0, dtype=torch.int32)
    csr = Csr(indptr=torch.zeros(num_rows + 1, dtype=torch.int32), indices=empty, weights=None, num_columns=num_columns)
    both = TwoWay.of(csr, MATRIX)
    assert torch.equal(both.forward @ torch.ones(num_columns, 2), torch.zeros(num_rows, 2))
    assert torch.equal(both.backward @ torch.ones(num_rows, 2), torch.zeros(num_columns, 2))


@pytest.mark.parametrize("width", [1, 40])
@pytest.mark.parametrize("counts", [[0, 0, 3, 0, 1, 0], [2, 1, 0, 1, 3, 1], [0] * 6, []])
def test_a_product_is_added_to_the_rows_that_have_edges(counts: list[int], width: int) -> None:
    """Few rows of a part have edges from its halo; sums that land in the next row, or not at all, are the fault."""
    generator = torch.Generator().manual_seed(0)
    indptr = torch.tensor([0, *counts], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    num_edges = int(indptr[-1])
    csr = Csr(
        indptr=indptr,
        indices=torch.randint(4, (num_edges,), generator=generator, dtype=torch.int32),
        weights=torch.rand(num_edges, generator=generator),
        num_columns=4,
    )
    rows = torch.randn(4, width, generator=generator)
    sums = torch.randn(len(counts), width, generator=generator)
    expected = sums + MATRIX(csr) @ rows
    MATRIX(csr).add_product(rows, sums)
    assert torch.equal(sums, expected)


def test_blocks_side_by_side_keep_weights_and_offsets() -> None:
    """A weighted and an unweighted peer, or a peer without rows, must not shift the columns of the next."""

    def csr(indptr: list[int], indices: list[int], weights: list[float] | None, num_columns: int) -> Csr:
        return Csr(
            indptr=torch.tensor(indptr),
            indices=torch.tensor(indices, dtype=torch.int64),
            weights=None if weights is None else torch.tensor(weights),
            num_columns=num_columns,
        )

    merged = hstack(
        [csr([0, 1, 2], [1, 0], [0.5, 0.25], 2), csr([0, 0, 0], [], None, 0), csr([0, 2, 2], [0, 2], None, 3)], 2
    )
    assert merged.indptr.tolist() == [0, 3, 4]
    assert merged.indices.tolist() == [1, 2, 4, 0]
    assert merged.weights is not None
    assert merged.weights.tolist() == [0.5, 1.0, 1.0, 0.25]
    assert merged.num_columns == 5


@pytest.mark.parametrize(("degree", "share", "expected"), [(20_000, 1.0, 20_000.0), (70_000, 1 / 70_000, 1.0)])
@pytest.mark.parametrize("width", [8, 64])
def test_half_precision_sums_neither_saturate_nor_overflow(
    degree: int, share: float, expected: float, width: int
) -> None:
    """In plain fp16 a sum of ones stops growing at 2048, 70,000 ones overflow even in a mean, and a weight of 1/70,000
    is below what fp16 holds exactly. Both kernels, forward and backward."""
    csr = Csr(
        indptr=torch.tensor([0, degree], dtype=torch.int32),
        indices=torch.arange(degree, dtype=torch.int32),
        weights=torch.full((degree,), share),
        num_columns=degree,
    )
    both = TwoWay.of(csr, MATRIX)
    ones = torch.ones(degree, width, dtype=torch.float16)
    for sums in (both.forward @ ones, TwoWay.of(csr.transposed(), MATRIX).backward @ ones):
        torch.testing.assert_close(sums.half(), torch.full((1, width), expected).half(), rtol=1e-3, atol=0.0)


def test_rows_of_two_rounds_at_most_are_held() -> None:
    """A generator that keeps what it gave out holds the whole halo after all."""
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    class Rows:
        def wait(self) -> Tensor:
            nonlocal most
            rows = torch.ones(3)
            alive.append(weakref.ref(rows))
            most = max(most, sum(ref() is not None for ref in alive))
            return rows

    rounds: Any = list(range(6))
    seen = []
    for number, one, rows_of_round in fetch_rounds(rounds, lambda one: Rows()):  # type: ignore[arg-type, return-value]
        rows = rows_of_round()
        seen.append((number, one, float(rows.sum())))
        del rows
    assert seen == [(number, number, 3.0) for number in range(6)]
    assert most == 1


def test_every_round_brings_its_own_columns(caches: dict[tuple[str, int], Path]) -> None:
    """A part without peers has one round too, with no rows; nothing then waits for ever."""
    [sums] = among_ranks(
        1, [partial(whole_sum_and_gradient, cache=str(caches[NAMES[0], 1]), model="gcn", kind="sequential")]
    )
    graph, _ = graphs()[NAMES[0]]
    rows, _ = inputs(graph.num_nodes)
    expected = dense_adjacency(graph, "gcn").float() @ rows
    torch.testing.assert_close(torch.tensor(sums[0]), expected, rtol=1e-5, atol=1e-5)
