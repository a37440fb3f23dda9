"""Chooses the exchange of each layer under `--exchange auto`, from facts that all ranks have alike. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainer.base.errors import TrainingError
from trainer.config.option_conflicts import obstacle_to_tensor
from trainer.config.options import Options, is_own_model
from trainer.dist.link_model import LinkModel
from trainer.exchange.layer_exchanges import (
    GraphCounts,
    LayerExchange,
    exchanged_widths,
    in_words,
    layer_exchanges,
)
from trainer.startup.memory import Sizes, check_memory, with_cross_edges


def choose_exchanges(
    options: Options,
    facts: Sequence[Mapping[str, Any]],
    sizes: Sequence[Sizes],
    rows_SPP: Sequence[Sequence[Sequence[int]]],
    links: Callable[[], LinkModel],
) -> tuple[list[LayerExchange], str | None]:
    """The exchange of each layer, and a sentence for the log.

    Args:
        options: of the run.
        facts: of each rank: `host`, `device`, the bytes `available` to it, and `missing_parts` of the cache there.
        sizes: of each rank.
        rows_SPP: rows that rank p (row) sends to rank q (column) in each stage of a boundary exchange; without relays
            there is one stage.
        links: gives those between the ranks, if that matters.

    Returns:
        the layers that exchange rows in every epoch, where some may be tensor-parallel and their widths are known; and
        nothing to say where no choice was asked for.
    """
    if options.exchange not in ("tensor", "auto") or len(sizes) == 1:
        return [], None
    is_auto = options.exchange == "auto"
    obstacle = _obstacle(options, facts) if is_auto else None
    if obstacle is not None:
        return [], f"--exchange auto: boundary in every layer, since tensor {obstacle}"
    counts = GraphCounts(
        shared_rows=[one.shared_rows for one in sizes],
        halo_sums=[one.halo_sums for one in sizes],
        edges=[one.edges for one in sizes],
        cross_edges=[one.cross_edges for one in sizes],
        rows_SPP=rows_SPP,
    )
    widths = exchanged_widths(
        options,
        outputs=sizes[0].outputs,
        is_typed=sizes[0].typed is not None,
        learns_rows=any(one.learnt for one in sizes),
    )
    device = str(facts[0]["device"]).partition(":")[0]
    layers = layer_exchanges(options, widths, counts, links(), device=device)
    sentence = in_words(layers) if layers else None
    if is_auto and is_any_tensor(options, layers) and not _fits(options, facts, sizes):
        layers = [replace(one, exchange="boundary") for one in layers]
        sentence = f"{in_words(layers)}; the edges of all parts do not fit into memory, so no layer is tensor-parallel"
    return layers, sentence


def is_any_tensor(options: Options, layers: Sequence[LayerExchange]) -> bool:
    """Whether ranks need the edges between all parts."""
    return options.exchange == "tensor" or any(one.exchange == "tensor" for one in layers)


def _obstacle(options: Options, facts: Sequence[Mapping[str, Any]]) -> str | None:
    """Why no layer may be tensor-parallel, as words that follow `tensor`; None if some may."""
    if is_own_model(options.model):
        return f"is chosen by the widths of layers, and those of --model {options.model} are known when it runs"
    for rank, fact in enumerate(facts):
        if fact["missing_parts"]:
            missing = f"parts/{fact['missing_parts'][0]}"
            return f"reads the edges of all parts, and the cache on {fact['host']} (rank {rank}) lacks {missing}"
    return obstacle_to_tensor(options)


def _fits(options: Options, facts: Sequence[Mapping[str, Any]], sizes: Sequence[Sizes]) -> bool:
    try:
        check_memory(facts, replace(options, anyway=False), with_cross_edges(sizes))
    except TrainingError:
        return False
    return True
