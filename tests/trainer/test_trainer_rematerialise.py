"""Layers that are made again for the backward pass: the same gradients, and less that is held at the same time."""

from __future__ import annotations

import sys
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from handmade_cache import make_cache, random_graph
from live_tensors import LiveTensors
from rank_group import among_ranks, train_once
from test_trainer_parity import network_on_one_rank
from torch import Tensor

from trainer.passes import Pass
from trainer.ranks import Ranks
from trainer.rematerialise import rematerialised

NODES, HEADS, HIDDEN = 3000, 2, 64
WIDEST = NODES * HEADS * HIDDEN * 4
"""Bytes of the rows of one layer."""
ATTENTION: dict[str, Any] = {"heads": HEADS, "hidden": HIDDEN, "dropout": 0.5}


class Twice:
    """Two products with a kink between; remembers how often it was made, and when."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.one_FG, self.other_GG = (torch.randn(6, 6, generator=generator, requires_grad=True) for _ in range(2))
        self.between: list[weakref.ref[Tensor]] = []

    def __call__(self, rows_nF: Tensor | None) -> Tensor:
        rows_nF = torch.ones(4, 6) if rows_nF is None else rows_nF
        between_nG = (rows_nF @ self.one_FG).relu()
        self.between.append(weakref.ref(between_nG))
        out_nG: Tensor = (between_nG @ self.other_GG).exp()
        return out_nG


@pytest.mark.parametrize("has_rows", [True, False])
def test_gradients_are_those_of_what_is_kept(*, has_rows: bool) -> None:
    """The first layer reads features, which have no gradient, and its weights have one all the same."""
    found = []
    for again in (False, True):
        make = Twice()
        rows_nF = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)
        given_nF = rows_nF if has_rows else None
        out_nG = rematerialised(make, given_nF) if again else make(given_nF)
        assert len(make.between) == 1
        assert (make.between[0]() is None) == again, "what the layer saves is let go at once"
        out_nG.square().sum().backward()
        assert len(make.between) == 1 + again
        assert not again or make.between[1]() is None, "and again when the backward pass is done with it"
        found.append([out_nG.detach(), make.one_FG.grad, make.other_GG.grad, rows_nF.grad])
    for kept, made_again in zip(*found, strict=True):
        assert (kept is None and made_again is None) or torch.equal(kept, made_again)


def layers_at_once(cache: Path, layers: int, **options: Any) -> float:
    """The most that tensors hold in a step, in rows of one layer."""
    network, features = network_on_one_rank(cache, layers=layers, **ATTENTION, **options)
    network.train()
    network(features, Pass(epoch=1, training=True)).sum().backward()  # what is made once is made
    with LiveTensors() as live:
        network(features, Pass(epoch=1, training=True)).sum().backward()
    return live.peak_bytes / WIDEST


@pytest.mark.parametrize(("model", "most"), [("gat", 5.5), ("gatv2", 8.5)])
def test_a_layer_keeps_its_input_alone(tmp_path: Path, model: str, most: float) -> None:
    """A tensor that outlives its layer is one more for each layer, and boundary's memory under another name."""
    graph = random_graph(num_nodes=NODES, num_edges=3 * NODES, num_features=8)
    cache = make_cache(tmp_path / "cache", graph, np.zeros(NODES, int), 1)
    few, many = (layers_at_once(cache, layers, model=model, exchange="sequential") for layers in (3, 6))
    kept = layers_at_once(cache, 6, model=model)
    assert few < 1 + most, "the first layer's output, and what the second one needs while it is made again"
    assert many - few < 3.1
    assert kept > many + 3


def live_of(ranks: Ranks, *, cache: str) -> tuple[int, bool]:
    """The most bytes that tensors of a rank hold in training, and whether torch's compiler was imported for it."""
    with LiveTensors() as live:
        train_once(ranks, cache=cache, epochs=2, model="gat", layers=3, exchange="sequential", **ATTENTION)
    return live.peak_bytes, "torch._dynamo" in sys.modules


def test_more_peers_need_no_more_memory(tmp_path: Path) -> None:
    """Rows of one peer that are still held when the next one's come make the exchange what it is there to avoid."""
    peaks = []
    for parts in (2, 4):
        number = parts * NODES // 2
        graph = random_graph(num_nodes=number, num_edges=10 * number, num_features=8)
        cache = make_cache(tmp_path / f"cache-{parts}", graph, np.arange(number) % parts, parts)
        [(peak, has_compiler)] = among_ranks(parts, [partial(live_of, cache=str(cache))])
        assert not has_compiler, "60 MB a rank"
        peaks.append(peak)
    assert peaks[1] < 1.1 * peaks[0]
