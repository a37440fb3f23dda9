"""Tensor-parallel layers in the cost model, and the trainer's own model of links, which has to say the same."""

from __future__ import annotations

import numpy as np
import pytest

from graphprep.core.types import Csr
from graphprep.plan.training import WIRE_BYTES
from graphprep.topology import Topology, resolve
from graphprep.traffic import LinkModel
from graphprep.traffic.tensor import CrossRows, column_counts, tensor_bytes, tensor_seconds
from trainer.config.options import Options
from trainer.dist.link_model import LinkModel as TrainerLinks
from trainer.exchange import layer_exchanges
from trainer.exchange.layer_exchanges import GraphCounts, exchanged_widths

RING = """
name: ring
ranks: [{name: a, machine: m}, {name: b, machine: m}, {name: c, machine: m}, {name: d, machine: m}]
switches: []
links:
  - {ends: [a, b], type: nvlink, gbytes_per_s: 25, latency_us: 2}
  - {ends: [b, c], type: nvlink, gbytes_per_s: 25, latency_us: 2}
  - {ends: [c, d], type: nvlink, gbytes_per_s: 20, latency_us: 2}
  - {ends: [c, d], type: pcie, gbytes_per_s: 20, latency_us: 2}
  - {ends: [d, a], type: nvlink, gbytes_per_s: 25, latency_us: 2}
routes: {"a->c": [a, b, c], "c->a": [c, d, a], "d->b": [d, c, b]}
"""
TOPOLOGIES = {
    **{name: resolve(name) for name in ("2x4", "4x8", "dgx-1-v100", "dgx-a100", "workstation-4")},
    "flat": Topology.flat(5),
    "ring": Topology.from_text(RING),
}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_the_trainer_has_the_same_routes_and_seconds(name: str) -> None:
    """The trainer cannot import this package, so its choice would go by other links than the plan."""
    topology = TOPOLOGIES[name]
    ranks, ours, theirs = topology.num_ranks, LinkModel.of(topology), TrainerLinks.of(topology.to_long_form())
    for p in range(ranks):
        for q in range(ranks):
            if p != q:
                assert theirs.routes[p, q] == tuple(2 * hop.link + hop.direction for hop in topology.routes[p][q])
    bytes_PP = np.random.default_rng(0).integers(0, 10**7, (ranks, ranks))
    bytes_PP[0, 1] = 0
    np.fill_diagonal(bytes_PP, 0)
    assert theirs.seconds(bytes_PP.tolist()) == pytest.approx(ours.seconds(bytes_PP, 1).max())


@pytest.mark.parametrize("wire", WIRE_BYTES)
@pytest.mark.parametrize("width", [3, 64])
def test_the_trainer_predicts_the_links_seconds_of_this_model(
    monkeypatch: pytest.MonkeyPatch, width: int, wire: str
) -> None:
    """A pass that is left out, or columns of another rank, favours the exchange that is slower."""
    monkeypatch.setattr(layer_exchanges, "BYTES_PER_S", {"cpu": float("inf")})
    topology, random = TOPOLOGIES["2x4"], np.random.default_rng(1)
    shared_P, sums_P, rows_PP = *random.integers(10_000, 20_000, (2, 8)), random.integers(0, 9000, (8, 8))
    np.fill_diagonal(rows_PP, 0)
    rows, edges = CrossRows(shared_P=shared_P, sums_P=sums_P), [1] * 8
    counts = GraphCounts(
        shared_rows=shared_P.tolist(),
        halo_sums=sums_P.tolist(),
        edges=edges,
        cross_edges=edges,
        rows_SPP=[rows_PP.tolist()],
    )
    options = Options(cache="c", exchange="auto", hidden=width, layers=2, wire=wire, eval_every=5)
    widths = exchanged_widths(options, outputs=100, is_typed=False)
    assert widths == {2: width}
    [found] = layer_exchanges.layer_exchanges(
        options, widths, counts, TrainerLinks.of(topology.to_long_form()), device="cpu"
    )
    model, (value_bytes, more_bytes) = LinkModel.of(topology), WIRE_BYTES[wire]
    size = width * value_bytes + more_bytes
    passes = [(rows_PP, size, 1.0), (rows_PP.T, size, 1.0), (rows_PP, 4 * width, 1 / 5)]
    assert found.boundary_seconds == pytest.approx(sum(s * model.seconds(r, b).max() for r, b, s in passes))
    exact = tensor_seconds(model, rows, width, value_bytes=4)
    both = [
        tensor_seconds(model, one, width, value_bytes=value_bytes, more_bytes=more_bytes)
        for one in (rows, rows.reversed())
    ]
    assert found.tensor_seconds == pytest.approx(sum(both) + exact / 5)
    assert found.exchange == ("tensor" if found.tensor_seconds < found.boundary_seconds else "boundary")


def test_bytes_of_a_sum() -> None:
    """Own columns that are counted as sent, or a message of a rank that sums no column."""
    assert column_counts(7, 3).tolist() == [3, 2, 2]
    rows = CrossRows(shared_P=np.array([10, 20, 30]), sums_P=np.array([1, 2, 3]))
    before_PP, after_PP = tensor_bytes(rows, 2, value_bytes=4, more_bytes=2)
    assert before_PP.tolist() == [[0, 60, 0], [120, 0, 0], [180, 180, 0]]
    assert after_PP.tolist() == [[0, 12, 18], [6, 0, 18], [0, 0, 0]]
    all_rows = CrossRows(shared_P=np.full(8, 100), sums_P=np.full(8, 100))
    assert sum(int(one.sum()) for one in tensor_bytes(all_rows, 64, value_bytes=1)) == 2 * 800 * 64 * 7 // 8


def test_rows_at_the_ends_of_edges_between_parts() -> None:
    """A row without edges, or with edges inside its part alone, that is sent."""
    # Edges 1 -> 0, 2 -> 0, 3 -> 2 and 3 -> 3; node 4 has none, and ends the matrix.
    matrix = Csr(indptr=np.array([0, 2, 2, 3, 4, 4]), indices=np.array([1, 2, 3, 3], np.int32), num_sources=5)
    found = CrossRows.of(matrix, np.array([0, 0, 1, 1, 1], np.int32), 2)
    assert (found.shared_P.tolist(), found.sums_P.tolist()) == ([0, 1], [1, 0])
    found = CrossRows.of(matrix, np.array([0, 1, 1, 2, 2], np.int32), 3)
    assert (found.shared_P.tolist(), found.sums_P.tolist()) == ([0, 2, 1], [1, 1, 0])
