"""Plots of events: activity over time, load by rank over time, and snapshots by rank; as `plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from graphprep.report.plots import ACCENT, CARD, DIM, LINK_COLOURS, own_axes, style_axes, with_tip

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_activity(activity: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """Events in each stretch of equal time, by days since the first."""
    axes = ax or own_axes(0)
    days = [row["from_day"] for row in activity]
    width = days[1] if len(days) > 1 else 1.0
    bars = axes.bar(days, [row["events"] for row in activity], width=width, align="edge", color=ACCENT)
    for bar, row in zip(bars, activity, strict=True):
        with_tip(bar, f"from day {row['from_day']:.4g}: {row['events']:,} events")
    style_axes(axes, "days since the first event", "events")
    return axes


def plot_rank_loads(load_BP: Sequence[Sequence[int]], ax: Axes | None = None) -> Axes:
    """The load of each rank (down) over stretches of the stream (across), by the mean of the stretch; the darker, the
    more, and half dark is the mean."""
    from matplotlib.patches import Rectangle

    axes = ax or own_axes(0)
    for bucket, loads in enumerate(load_BP):
        mean = sum(loads) / max(1, len(loads))
        for rank, load in enumerate(loads):
            part = load / mean if mean else 0.0
            cell = Rectangle((bucket, rank), 1, 1, facecolor=ACCENT, alpha=min(1.0, part / 2), edgecolor="none")
            axes.add_patch(with_tip(cell, f"rank {rank}, stretch {bucket}: {part:.2f} of the mean"))
    num_ranks = len(load_BP[0]) if load_BP else 0
    axes.set(xlim=(0, max(1, len(load_BP))), ylim=(max(1, num_ranks), 0))
    ticks = range(0, num_ranks, max(1, num_ranks // 16))
    axes.set_yticks([rank + 0.5 for rank in ticks], list(map(str, ticks)))
    style_axes(axes, "stretches of as many events", "rank", grid=None)
    return axes


def plot_snapshots(pieces: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """Events of the snapshots in order, in the colour of their rank; lines are the borders of groups."""
    axes = ax or own_axes(0)
    starts = [row["first"] for row in pieces]
    heights = [row["events"] / row["snapshots"] for row in pieces]
    colours = [LINK_COLOURS[row["rank"] % len(LINK_COLOURS)] for row in pieces]
    bars = axes.bar(starts, heights, width=[row["snapshots"] for row in pieces], align="edge", color=colours)
    for bar, row in zip(bars, pieces, strict=True):
        last = row["first"] + row["snapshots"] - 1
        which = f"snapshot {row['first']}" if row["snapshots"] == 1 else f"snapshots {row['first']} to {last}"
        with_tip(bar, f"{which}, rank {row['rank']}: {row['events']:,} events")
    for before, row in pairwise(pieces):
        if before["rank"] != row["rank"]:
            axes.axvline(row["first"], color=DIM, linewidth=0.8)
            axes.axvline(row["first"], color=CARD, linewidth=0.2)
    style_axes(axes, "snapshot", "events")
    return axes
