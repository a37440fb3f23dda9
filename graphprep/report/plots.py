"""Plots of a store and a partition, as matplotlib axes: links by load, traffic, work, degrees, classes.

Each function draws values of a summary and computes none. Without `ax` it makes a figure by pyplot, which a notebook
shows. `svg` replaces the colours by those of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from graphprep.report.formats import duration, ratio
from graphprep.report.layout import Point, positions
from graphprep.system.printable import printable
from graphprep.system.progress import format_bytes
from graphprep.topology import Link, Topology

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

INK, DIM, LINE, ACCENT, CARD, HOT = "#1c2024", "#5f656d", "#e2e3e7", "#0b63ce", "#fffffe", "#c62f33"
"""HOT, a red, marks what exceeds a limit, and nothing else is red."""
LOADS = ("#9db4cf", "#3f9c8d", "#e8960c")
"""Of idle, half loaded and slowest links; they differ in light, in dark, and by their width."""
SPLIT_COLOURS = {"train": "#0b63ce", "val": "#e0a13c", "test": "#3f9c8d"}
KINDS = {
    "compute_seconds": ("computing", "#0b63ce"),
    "exchange_seconds": ("exchange of rows", "#e0a13c"),
    "waiting_seconds": ("waiting in sums", "#9aa1ab"),
}
LINK_COLOURS = ("#0b63ce", "#e0a13c", "#3f9c8d", "#8a63c9", "#9aa1ab")
METRIC = "#3f9c8d"
TIP = "tip:"
"""begins the name of an artist whose value a page shows under the pointer"""
FONT, SMALL = 8.5, 7.5
NARROW, WIDE = 3.6, 9.0
"""Inches: a third of a page, a whole line of it."""
BARS, SQUARE, LINKS, WIDE_LINKS = (NARROW, 2.5), (NARROW, 3.2), (3.9, 3.2), (WIDE, 3.6)
"""Sizes of the drawings of a page."""
MANY_RANKS = 12
"""From which a drawing of the ranks takes a whole line."""
NUMBERED_CELLS = 8
SIDE_STEP = 2.6
"""Points between a link and each of its directions."""
SHADES = 24
"""Of a colour bar."""


def plot_links(quality: Mapping[str, Any], topology: Topology, ax: Axes | None = None) -> Axes:
    """The topology, each direction of each link coloured and drawn as wide as its seconds are to the slowest one's."""
    from matplotlib.patches import FancyArrowPatch

    axes = ax or own_axes(topology.num_ranks)
    where = positions(topology)
    slowest = max((row["seconds"] for row in quality["links"]), default=0.0)
    colours = load_colours()
    rows = iter(quality["links"])
    unit = _frame(axes, topology, where)
    _draw_machines(axes, topology)
    crowded = topology.num_ranks > MANY_RANKS
    for link in topology.links:
        for direction in (0, 1):
            row = next(rows)
            part = row["seconds"] / slowest if slowest else 0.0
            start, end = (where[name] for name in (link.ends if direction == 0 else reversed(link.ends)))
            flat = start[1] == end[1]
            bow = 0.9 if crowded and abs(start[0] - end[0]) <= 1 else 0.28
            bend = 0.0 if not flat else (bow + 0.1 * direction) * (1 if end[0] > start[0] else -1)
            (x0, y0), (x1, y1) = (start, end) if flat else _beside(start, end, unit)
            arrow = FancyArrowPatch(
                (x0, y0),
                (x1, y1),
                connectionstyle=f"arc3,rad={bend:.3f}",
                arrowstyle="-|>",
                mutation_scale=5 + 3 * part,
                shrinkA=5 if crowded and flat else 9,
                shrinkB=5 if crowded and flat else 9,
                color=colours(part),
                linewidth=0.9 + 2.4 * part,
                zorder=1 + part,
            )
            axes.add_patch(with_tip(arrow, _link_tip(link, direction, row)))
    _draw_nodes(axes, topology, where)
    if slowest:
        _colour_bar(axes, [colours(shade / SHADES) for shade in range(SHADES + 1)], 1e3 * slowest, "ms an exchange")
    return axes


def _link_tip(link: Link, direction: int, row: Mapping[str, Any]) -> str:
    """What a direction of a link is, and what it carries."""
    kind = f"{link.direction_name(direction)}, {link.type} of {link.gbytes_per_s:g} GB/s"
    if "rows" not in row:
        return kind
    return f"{kind}: {duration(row['seconds'])}, {row['rows']:,} rows"


def links_size(num_ranks: int) -> tuple[float, float]:
    """The size of a drawing of the links between so many ranks."""
    return WIDE_LINKS if num_ranks > MANY_RANKS else LINKS


def load_colours() -> Colormap:
    """From a link that is idle to the slowest one."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("load", list(LOADS))


def plot_traffic(rows_PP: Sequence[Sequence[int]], ax: Axes | None = None) -> Axes:
    """Rows that one exchange sends from rank (down) to rank (across); the darker, the more."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    axes = ax or own_axes(0)
    most = max((int(count) for row in rows_PP for count in row), default=0)
    for p, row in enumerate(rows_PP):
        for q, count in enumerate(row):
            if not count:
                continue
            part = int(count) / most
            cell = Rectangle((q, p), 1, 1, facecolor=ACCENT, alpha=_alpha(part), edgecolor="none")
            axes.add_patch(with_tip(cell, f"from rank {p} to rank {q}: {int(count):,}"))
            if len(rows_PP) <= NUMBERED_CELLS:
                colour = CARD if part > 0.6 else INK
                axes.text(q + 0.5, p + 0.5, f"{count:,}", ha="center", va="center", fontsize=SMALL, color=colour)
    if most:
        _colour_bar(axes, [to_rgba(ACCENT, _alpha(shade / SHADES)) for shade in range(SHADES + 1)], most, "")
    size = len(rows_PP)
    axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal")
    numbers = range(0, size, max(1, size // 8))
    axes.set_xticks([number + 0.5 for number in numbers], list(map(str, numbers)))
    axes.set_yticks([number + 0.5 for number in numbers], list(map(str, numbers)))
    style_axes(axes, "to rank", "from rank", grid=None)
    return axes


def plot_parts(quality: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """The load of each rank, its work over its share: 1 is even, and others wait for the longest bar.

    The dotted line is the limit, and a bar above it is red.
    """
    ranks = quality["ranks"]
    axes = ax or own_axes(len(ranks))
    loads = [row["work_share"] for row in ranks]
    limit = next((row["limit"] for row in quality["limits"] if row["what"] == "work"), None)
    colours = [HOT if limit is not None and load > limit else ACCENT for load in loads]
    tips = [f"rank {rank}: load {ratio(load)}" for rank, load in enumerate(loads)]
    _bars(axes, loads, color=colours, width=0.72, ticks=16, tips=tips)
    axes.axhline(1.0, color=DIM, linewidth=1.0, linestyle=(0, (3, 2)))
    if limit is not None:
        axes.axhline(limit, color=DIM, linewidth=1.0, linestyle=(0, (1, 2)))
    axes.set_ylim(0, max(*loads, limit or 0, 1.0) * 1.08)
    style_axes(axes, "rank", "load")
    return axes


def plot_memory(ranks: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """The memory that each rank needs, in megabytes, by the model of `graphprep.traffic.memory`."""
    axes = ax or own_axes(len(ranks))
    tips = [f"rank {rank}: {format_bytes(row['memory_bytes'])}" for rank, row in enumerate(ranks)]
    _bars(axes, [row["memory_bytes"] / 1e6 for row in ranks], color=ACCENT, width=0.72, ticks=16, tips=tips)
    style_axes(axes, "rank", "memory, MB")
    return axes


def plot_degrees(histogram: Sequence[Mapping[str, int]], ax: Axes | None = None) -> Axes:
    """Nodes by ranges of their degree; the upper axis is logarithmic."""
    axes = ax or own_axes(0)
    counts = [row["nodes"] for row in histogram]
    names = [f"{row['low']:,}" + ("" if row["low"] == row["high"] else "+") for row in histogram]
    tips = [f"{name} edges: {count:,} nodes" for name, count in zip(names, counts, strict=True)]
    _bars(axes, counts, color=ACCENT, width=0.86, ticks=8, names=names, tips=tips)
    if max(counts, default=0) > 0:
        axes.set_yscale("log")
        axes.set_ylim(0.8, max(counts) * 2)
    style_axes(axes, "edges at the node", "nodes")
    return axes


def plot_classes(
    nodes_per_class: Sequence[int], splits: Mapping[str, Sequence[int]] | None = None, ax: Axes | None = None
) -> Axes:
    """Nodes of each class, and how many of them are in each mask of the first split."""
    axes = ax or own_axes(len(nodes_per_class))
    tips = [f"class {number}: {count:,} nodes" for number, count in enumerate(nodes_per_class)]
    _bars(axes, nodes_per_class, color=LINE, width=0.8, ticks=12, label="in none", tips=tips)
    bottom = [0] * len(nodes_per_class)
    for name, counts in (splits or {}).items():
        style: dict[str, Any] = {"width": 0.8, "color": SPLIT_COLOURS[name], "label": name}
        bars = axes.bar(range(len(counts)), counts, bottom=bottom, **style)
        for number, (bar, count) in enumerate(zip(bars, counts, strict=True)):
            with_tip(bar, f"class {number}, {name}: {count:,} nodes")
        bottom = [below + count for below, count in zip(bottom, counts, strict=True)]
    _legend(axes)
    style_axes(axes, "class", "nodes")
    return axes


def plot_compared(values: Mapping[str, float], label: str, ax: Axes | None = None) -> Axes:
    """One bar for each name, the lowest marked; in the order given, from the top."""
    axes = ax or own_axes(len(values))
    lowest = min(values.values(), default=0.0)
    colours = [ACCENT if value == lowest else LOADS[0] for value in values.values()]
    bars = axes.barh(range(len(values)), list(values.values()), height=0.66, color=colours)
    for bar, (name, value) in zip(bars, values.items(), strict=True):
        with_tip(bar, f"{name}: {value:.4g} {label}")
    axes.set_yticks(range(len(values)), [name if len(name) <= 24 else f"...{name[-21:]}" for name in values])
    axes.invert_yaxis()
    style_axes(axes, label, "", grid="x")
    return axes


def plot_curves(curves: Mapping[str, Sequence[Any]], metric: str, best_epoch: int, ax: Axes | None = None) -> Axes:
    """Loss (left) and validation metric (right) by epoch; the dashed line is the epoch whose weights were kept."""
    from matplotlib.patches import Rectangle

    axes = ax or own_axes(0)
    epochs, losses, values = (curves[name] for name in ("epoch", "loss", "val"))
    known = [(epoch, value) for epoch, value in zip(epochs, values, strict=True) if value is not None]
    axes.plot(epochs, losses, color=ACCENT, linewidth=1.6)
    style_axes(axes, "epoch", "loss")
    axes.yaxis.label.set_color(ACCENT)
    right = axes.twinx()
    right.plot([epoch for epoch, _ in known], [value for _, value in known], color=METRIC, linewidth=1.6)
    style_axes(right, "epoch", metric.replace("_", " "), grid=None)
    right.yaxis.label.set_color(METRIC)
    axes.axvline(best_epoch, color=DIM, linewidth=1.0, linestyle=(0, (3, 2)))
    edges = [epochs[0] - 0.5, *((one + other) / 2 for one, other in pairwise(epochs)), epochs[-1] + 0.5]
    low, high = right.get_ylim()
    for epoch, loss, value, (left, end) in zip(epochs, losses, values, pairwise(edges), strict=True):
        column = Rectangle((left, low), end - left, high - low, facecolor=CARD, alpha=0.004, edgecolor="none", zorder=5)
        shown = "" if value is None else f", {metric.replace('_', ' ')} {value:.4g}"
        right.add_patch(with_tip(column, f"epoch {epoch}: loss {loss:.4g}{shown}"))
    right.set_ylim(low, high)
    return axes


def plot_timeline(groups: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """What each rank (down) did over the seconds of training, by ranges of epochs; in each range the kinds are sums."""
    from matplotlib.patches import Patch, Rectangle

    axes = ax or own_axes(0)
    start, num_ranks = 0.0, max(len(group["ranks"]) for group in groups)
    for group in groups:
        epochs = group["last_epoch"] - group["first_epoch"] + 1
        for row in group["ranks"]:
            left = start
            for kind, (name, colour) in KINDS.items():
                seconds = row[kind] * epochs
                bar = Rectangle((left, row["rank"] + 0.1), seconds, 0.8, facecolor=colour, edgecolor="none")
                where = f"rank {row['rank']}, epochs {group['first_epoch']} to {group['last_epoch']}"
                axes.add_patch(with_tip(bar, f"{where}: {name} {duration(row[kind])} an epoch"))
                left += seconds
        start += group["epoch_seconds"] * epochs
        axes.axvline(start, color=CARD, linewidth=0.8)
    axes.set(xlim=(0, start), ylim=(num_ranks, 0))
    ticks = range(0, num_ranks, max(1, num_ranks // 16))
    axes.set_yticks([rank + 0.5 for rank in ticks], list(map(str, ticks)))
    _legend(axes, [Patch(facecolor=colour, label=name) for name, colour in KINDS.values()])
    style_axes(axes, "seconds since the first epoch", "rank", grid=None)
    return axes


def timeline_size(num_ranks: int) -> tuple[float, float]:
    """The size of a timeline of so many ranks."""
    return WIDE, 1.1 + 0.24 * min(num_ranks, 4) + 0.13 * max(num_ranks - 4, 0)


def plot_link_bytes(by_link: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """Megabytes of rows of each layer and direction (down), by type of link."""
    axes = ax or own_axes(0)
    types = sorted({kind for row in by_link for kind in row["link_types"]})
    names, left = [f"{row['layer']} {row['direction']}" for row in by_link], [0.0] * len(by_link)
    for number, kind in enumerate(types):
        values = [row["link_types"][kind] / 1e6 for row in by_link]
        colour = LINK_COLOURS[min(number, len(LINK_COLOURS) - 1)]
        bars = axes.barh(range(len(values)), values, left=left, height=0.66, color=colour, label=kind)
        for bar, name, value in zip(bars, names, values, strict=True):
            with_tip(bar, f"layer {name}, over {kind}: {format_bytes(1e6 * value)}")
        left = [one + more for one, more in zip(left, values, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    _legend(axes)
    style_axes(axes, "MB of rows", "layer", grid="x")
    return axes


def _legend(axes: Axes, handles: Sequence[Any] | None = None) -> None:
    """Names of the colours, above the axes."""
    axes.legend(
        handles=axes.get_legend_handles_labels()[0] if handles is None else handles,
        fontsize=SMALL,
        frameon=False,
        labelcolor=INK,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=4,
    )


def with_tip(artist: Artist, text: str) -> Any:
    """The artist, whose title on a page is `text`."""
    artist.set_gid(f"{TIP}{printable(text)}")
    return artist


def _bars(
    axes: Axes,
    heights: Sequence[float],
    *,
    ticks: int,
    tips: Sequence[str],
    names: Sequence[str] | None = None,
    **style: Any,
) -> None:
    """Draw bars side by side, about `ticks` of them with their number or name below."""
    for bar, tip in zip(axes.bar(range(len(heights)), heights, **style), tips, strict=True):
        with_tip(bar, tip)
    step = max(1, -(-len(heights) // ticks))
    axes.set_xticks(range(0, len(heights), step), names[::step] if names else None)


def _alpha(part: float) -> float:
    """How opaque a cell is that has a part of the greatest value."""
    return 0.06 + 0.84 * part


def _colour_bar(axes: Axes, colours: Sequence[Any], largest: float, label: str) -> None:
    """The colours from 0 to the greatest value, beside the axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    figure = axes.get_figure(root=True)
    assert figure is not None
    mappable = ScalarMappable(Normalize(0, largest), ListedColormap(list(colours)))
    bar = figure.colorbar(mappable, ax=axes, fraction=0.05, pad=0.02, aspect=24, shrink=0.8, ticks=MaxNLocator(5))
    if bar.solids is not None and all(colour[-1] == 1 for colour in colours):  # else the seams would be darker
        bar.solids.set(edgecolor="face", linewidth=0.4)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=DIM, labelsize=SMALL, length=0)
    bar.set_label(label, color=DIM, fontsize=FONT - 0.5)


def own_axes(num_ranks: int) -> Axes:
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(WIDE if num_ranks > MANY_RANKS else NARROW + 1, 3.4), layout="constrained")
    return axes


def _frame(axes: Axes, topology: Topology, where: Mapping[str, Point]) -> Point:
    """Set the limits of a drawing so that arcs find room; returns the points (of 1/72 inch) of a unit of x and y."""
    top, bottom = max(y for _, y in where.values()), min(y for _, y in where.values())
    reach = max(topology.num_ranks - 1, 1)
    ends = [(where[one], where[other]) for one, other in (link.ends for link in topology.links)]
    longest = max((abs(start[0] - end[0]) for start, end in ends if start[1] == end[1]), default=0.0)
    lowest = min(bottom - 0.4, -0.4 - 0.3 * longest * (top + 1) / (reach + 1))
    axes.set_xlim(-0.6, reach + 0.6)
    axes.set_ylim(lowest, top + 0.4)
    axes.set_axis_off()
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    box = axes.get_position()
    return 72 * width * box.width / (reach + 1.2), 72 * height * box.height / (top + 0.4 - lowest)


def _beside(start: Point, end: Point, unit: Point) -> tuple[Point, Point]:
    """The line moved SIDE_STEP points to its right, so that both directions of a link lie side by side."""
    dx, dy = (end[0] - start[0]) * unit[0], (end[1] - start[1]) * unit[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1e-9)
    right = (dy / length * SIDE_STEP / unit[0], -dx / length * SIDE_STEP / unit[1])
    return (start[0] + right[0], start[1] + right[1]), (end[0] + right[0], end[1] + right[1])


def _draw_machines(axes: Axes, topology: Topology) -> None:
    """A band behind the ranks of each machine, with its name, where there are several."""
    from matplotlib.patches import Rectangle

    ranks: dict[str, list[int]] = {}
    for number, rank in enumerate(topology.ranks):
        ranks.setdefault(rank.machine, []).append(number)
    if len(ranks) == 1:
        return
    low = axes.get_ylim()[0]
    for name, numbers in ranks.items():
        if numbers == list(range(numbers[0], numbers[-1] + 1)):
            corner, width = (numbers[0] - 0.45, low), len(numbers) - 0.1
            axes.add_patch(Rectangle(corner, width, 0.3 - low, facecolor=LINE, alpha=0.55, edgecolor="none", zorder=0))
            middle = (numbers[0] + numbers[-1]) / 2
            axes.text(middle, low, name, ha="center", va="bottom", fontsize=SMALL, color=DIM)


def _draw_nodes(axes: Axes, topology: Topology, where: Mapping[str, Point]) -> None:
    numbers = {rank.name: number for number, rank in enumerate(topology.ranks)}
    machines = {rank.machine for rank in topology.ranks}
    crowded = topology.num_ranks > MANY_RANKS
    by_level: dict[float, int] = {}
    for _, y in where.values():
        by_level[y] = by_level.get(y, 0) + 1
    for name, (x, y) in where.items():
        if name in numbers:
            [circle] = axes.plot(x, y, "o", markersize=13 if not crowded else 11, color=INK, zorder=3)
            with_tip(circle, f"rank {numbers[name]}: {name}")
            axes.text(x, y, str(numbers[name]), ha="center", va="center", fontsize=SMALL, color=CARD, zorder=4)
        else:
            [square] = axes.plot(x, y, "s", markersize=8, color=CARD, markeredgecolor=DIM, zorder=3)
            with_tip(square, name)
            machine, _, short_name = name.partition(".")
            if by_level[y] <= (16 if crowded else 4):
                axes.annotate(
                    short_name if crowded and machine in machines and short_name else name,
                    (x, y),
                    xytext=(7, 0) if by_level[y] <= 2 else (0, 7),
                    textcoords="offset points",
                    ha="left" if by_level[y] <= 2 else "center",
                    va="center" if by_level[y] <= 2 else "bottom",
                    fontsize=SMALL - 0.5,
                    color=DIM,
                    bbox={"facecolor": CARD, "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
                    zorder=4,
                )


def style_axes(axes: Axes, xlabel: str, ylabel: str, *, grid: Literal["x", "y"] | None = "y") -> None:
    """Label the axes, and take away what is no data."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)
    axes.tick_params(colors=DIM, labelsize=SMALL, length=0)
    if grid is not None:
        axes.grid(visible=True, axis=grid, color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(xlabel, color=DIM, fontsize=FONT - 0.5)
    axes.set_ylabel(ylabel, color=DIM, fontsize=FONT - 0.5)
