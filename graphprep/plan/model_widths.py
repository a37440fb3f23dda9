"""The width of the rows that a model exchanges, by the trainer's rules, for links that are loaded with them.

The first layer exchanges nothing after the first epoch. Each other layer a -> b of GCN and GraphSAGE sends rows of the
narrower width, forward and backward; rgcn sends rows of its inputs. Links that take b bytes in x seconds take them for
every exchange alike, so that the mean over the exchanges stands for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphprep.errors import UsageError
from graphprep.plan.training import WIRE_BYTES
from graphprep.system.options import check_options, option, options_in, take_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWidths:
    """The trainer's options that decide how wide the rows are that it sends, with its defaults."""

    hidden: int = option(
        64, "Width of the hidden layers of the model that will be trained; without --row-bytes.", at_least=1
    )
    layers: int = option(2, "Graph layers of the model; without --row-bytes.", at_least=1, at_most=1000)
    wire: str = option(
        "fp32",
        "Number format of the rows that the model sends; without --row-bytes.",
        choices=dict.fromkeys(WIRE_BYTES, ""),
    )

    def __post_init__(self) -> None:
        check_options(self)

    def exchanged(self, num_features: int, num_classes: int, *, is_typed: bool = False) -> list[int]:
        """The width of each layer's exchange, without the first layer's unless it is the only one.

        Args:
            num_features: of the store's nodes; 0 if they have none.
            num_classes: of their labels; 0 if they have none.
            is_typed: whether there are several node or edge types.
        """
        if self.layers == 1:
            return [num_features or self.hidden]
        last = self.hidden if is_typed or not num_classes else min(self.hidden, num_classes)
        return [self.hidden] * (self.layers - 2) + [last]

    def row_bytes(self, exchanged: list[int]) -> int:
        """Bytes of one row, the mean over the exchanges, rounded up."""
        a_value, a_row = WIRE_BYTES[self.wire]
        return math.ceil(a_value * sum(exchanged) / len(exchanged)) + a_row

    def sentence(self, exchanged: list[int]) -> str:
        """Which width is used, and why."""
        several = f"{len(exchanged)} exchanges of " if len(exchanged) > 1 else ""
        widths = " and ".join(map(str, dict.fromkeys(exchanged)))
        why = ", the trainer's defaults" if self == ModelWidths() else ""
        return (
            f"links are loaded with rows of {self.row_bytes(exchanged)} bytes: {several}{widths} values in "
            f"{self.wire}, as a model of --layers {self.layers} and --hidden {self.hidden} sends them{why}; --hidden, "
            "--layers, --wire or --row-bytes say otherwise"
        )


MATTERS = 0.25
"""Difference of the latency's share of the slowest link's seconds, from which other parts would be better."""


def width_mismatch(links: Sequence[Mapping[str, Any]], made_for: int, sent: float) -> str | None:
    """A sentence where the rows that are sent are others than the parts were made for, and that matters.

    The trainer has the same rule (`trainer.startup.row_width`).

    Args:
        links: of a cache's quality.
        made_for: bytes of a row that these links were loaded with.
        sent: bytes of a row that is sent.
    """

    def latency_share(row_bytes: float) -> float:
        of_links = []
        for link in links:
            carrying = link["bytes"] / (1e9 * link["gbytes_per_s"])
            latency = max(link["seconds"] - carrying, 0.0)
            of_links.append((latency + carrying * row_bytes / made_for, latency))
        seconds, latency = max(of_links, default=(0.0, 0.0))
        return latency / seconds if seconds else 0.0

    before, now = latency_share(made_for), latency_share(sent)
    if abs(before - now) < MATTERS:
        return None
    return (
        f"the parts were made for rows of {made_for} bytes and the model sends rows of {sent:.0f}: latency is "
        f"{100 * before:.0f} % of the slowest link's time with those and {100 * now:.0f} % with these, so other parts "
        "would suit it better; partition with the model's --hidden, --layers and --wire"
    )


def take_widths(options: MutableMapping[str, Any]) -> ModelWidths | None:
    """The widths that options decide, which are removed from them; None where --row-bytes is among them.

    Args:
        options: those that were given, by name, without defaults.

    Raises:
        UsageError: a value is wrong, or both --row-bytes and widths were given.
    """
    given = [each.flag for each in options_in(ModelWidths) if each.name in options]
    if "row_bytes" not in options:
        return take_options(ModelWidths, options)
    if given:
        raise UsageError(f"give either --row-bytes or {', '.join(given)}, which say how wide rows are")
    return None
