"""The exchange that `auto` chooses for each layer, and what it says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.trainer.handmade_cache import flat_topology
from trainer.config.options import Options
from trainer.dist.link_model import LinkModel
from trainer.startup.exchange_choice import choose_exchanges
from trainer.startup.memory import Sizes, TypedSizes

WORLD, ROWS = 4, 1000
SIZES = Sizes(
    rows=ROWS, halo=3 * ROWS, largest_halo=ROWS, sent=3 * ROWS, others=3 * ROWS, edges=100_000, index_bytes=4,
    features=64, outputs=7, shared_rows=ROWS, halo_sums=ROWS, cross_edges=75_000,
)  # fmt: skip
PLACE = {"device": "cpu", "available": 10**12, "missing_parts": []}


def chosen(options: Options, *, halo: int, sizes: Sizes = SIZES, **of_rank_1: Any) -> tuple[list[Any], str | None]:
    """The choice where every rank sends every other one `halo` of its 1,000 rows."""
    facts = [{"host": f"h{rank}", **PLACE} for rank in range(WORLD)]
    facts[1] |= of_rank_1
    topology = flat_topology(WORLD)
    for link in topology["links"]:
        link["gbytes_per_s"] = 0.1
    rows_PP = [[0 if p == q else halo for q in range(WORLD)] for p in range(WORLD)]
    return choose_exchanges(options, facts, [sizes] * WORLD, [rows_PP], lambda: LinkModel.of(topology))


AUTO = Options(cache="c", exchange="auto", layers=3, hidden=64)


def test_whole_halos_are_tensor_parallel_and_small_ones_are_not() -> None:
    """Of four ranks that need each other's rows all, tensor sends half as much: 1.5 N rows in place of 3 N. Where rows
    are narrow, reading all edges takes longer than that saves."""
    two_classes = replace(SIZES, outputs=2)
    layers, sentence = chosen(AUTO, halo=ROWS, sizes=two_classes)
    assert [(one.layer, one.width, one.exchange) for one in layers] == [(2, 64, "tensor"), (3, 2, "boundary")]
    assert sentence is not None
    assert "layer 2 tensor (boundary " in sentence
    few, _ = chosen(AUTO, halo=ROWS // 10, sizes=two_classes)
    assert [one.exchange for one in few] == ["boundary", "boundary"]
    assert few[0].tensor_seconds == layers[0].tensor_seconds
    assert few[0].boundary_seconds < layers[0].boundary_seconds


def test_layers_are_chosen_one_by_one() -> None:
    """Messages of one column each have no columns to share out, and cost a start more."""
    narrow = replace(SIZES, outputs=1, rows=20, shared_rows=20, halo_sums=20)
    layers, _ = chosen(AUTO, halo=20, sizes=narrow)
    assert [one.exchange for one in layers] == ["boundary", "boundary"]
    forced, sentence = chosen(replace(AUTO, exchange="tensor"), halo=20, sizes=narrow)
    assert [one.exchange for one in forced] == ["tensor", "tensor"]
    assert sentence is not None


@pytest.mark.parametrize(
    ("changes", "of_rank_1", "words"),
    [
        ({"model": "gat"}, {}, "attention of --model gat needs whole rows"),
        ({"model": "m.py:M"}, {}, "those of --model m.py:M are known when it runs"),
        ({"staleness": "fixed:4"}, {}, "could keep a copy"),
        ({}, {"missing_parts": [3]}, "the cache on h1 (rank 1) lacks parts/3"),
    ],
)
def test_why_no_layer_may_be_is_said(changes: dict[str, Any], of_rank_1: dict[str, Any], words: str) -> None:
    """An automatic choice that is not made, and not said, looks like a slow network."""
    layers, sentence = chosen(replace(AUTO, **changes), halo=ROWS, **of_rank_1)
    assert layers == []
    assert sentence is not None
    assert sentence.startswith("--exchange auto: boundary in every layer, since tensor ")
    assert words in sentence


def test_what_does_not_fit_is_not_chosen() -> None:
    """A choice that a run then dies of; with --anyway, too, which is for estimates that are wrong."""
    for options in (AUTO, replace(AUTO, anyway=True)):
        layers, sentence = chosen(options, halo=ROWS, available=3_000_000)
        assert [one.exchange for one in layers] == ["boundary", "boundary"]
        assert sentence is not None
        assert sentence.endswith("do not fit into memory, so no layer is tensor-parallel")


def test_widths_are_those_that_layers_exchange() -> None:
    """GIN's last sum is as wide as its MLP, R-GCN's rows travel before their products, in layer 1 too."""
    typed = TypedSizes(sums=1500, relations=3, feature_weights=9, features=9, entries=0, learnt=0, gathered=0)
    widths = {
        model: [one.width for one in chosen(replace(AUTO, model=model), halo=ROWS)[0]] for model in ("sage", "gin")
    }
    assert widths == {"sage": [64, 7], "gin": [64, 64]}
    layers, _ = chosen(replace(AUTO, model="rgcn"), halo=ROWS, sizes=replace(SIZES, typed=typed))
    assert [(one.layer, one.width) for one in layers] == [(1, 64), (2, 64), (3, 64)]
    jumping, _ = chosen(replace(AUTO, jumping="cat"), halo=ROWS)
    assert [one.width for one in jumping] == [64, 64]


def test_nothing_is_said_where_nothing_was_asked() -> None:
    """A line in every log for a choice that few runs make."""
    assert chosen(replace(AUTO, exchange="boundary"), halo=ROWS) == ([], None)
