"""Whether the rows that a run sends are those that its parts were made for, and whether that matters.

A link's seconds are latency and bytes. Where bytes take nearly all of them, or latency does, for both widths, all links
scale alike and the same parts suit both. Between these, other parts would be better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.config.options import Options
from trainer.data.cache import Cache

ROW_BYTES = {"fp32": (4, 0), "bf16": (2, 0), "fp16": (2, 0), "int8": (1, 2)}
"""Bytes a value, and bytes a row more, by wire."""
MODELS = ("gcn", "sage", "gin", "rgcn")
"""Those that send the narrower of a layer's two widths, or its inputs."""
MATTERS = 0.25
"""Difference of the latency's share of the slowest link's seconds, from which other parts would be better."""


def remark_on_row_width(options: Options, cache: Cache) -> str | None:
    """A sentence for the log where other parts would suit these rows better."""
    root = cache.manifest.json("zarr.json").get("attributes") or {}
    made_for = (root.get("options") or {}).get("row_bytes")
    links = (root.get("quality") or {}).get("links")
    if (
        not made_for
        or not links
        or options.model not in MODELS
        or options.layers < 2
        or options.exchange == "broadcast"
    ):
        return None
    last = options.hidden if cache.is_typed_for(options.model) else min(options.hidden, cache.num_classes)
    widths = [options.hidden] * (options.layers - 2) + [last]
    a_value, a_row = ROW_BYTES[options.wire]
    sent = a_value * sum(widths) / len(widths) + a_row
    before, now = (_latency_share(links, made_for, row_bytes) for row_bytes in (made_for, sent))
    if abs(before - now) < MATTERS:
        return None
    return (
        f"the parts were made for rows of {made_for} bytes and this run sends rows of {sent:.0f}: latency is "
        f"{100 * before:.0f} % of the slowest link's time with those and {100 * now:.0f} % with these, so other parts "
        f"would suit it better; partition with --hidden {options.hidden} --layers {options.layers} --wire "
        f"{options.wire}"
    )


def _latency_share(links: Sequence[Mapping[str, Any]], made_for: float, row_bytes: float) -> float:
    """What latency is of the slowest link direction's seconds, with rows of `row_bytes`."""
    of_links = []
    for link in links:
        carrying = link["bytes"] / (1e9 * link["gbytes_per_s"])
        latency = max(link["seconds"] - carrying, 0.0)
        of_links.append((latency + carrying * row_bytes / made_for, latency))
    seconds, latency = max(of_links, default=(0.0, 0.0))
    return latency / seconds if seconds else 0.0
