"""Plots show the figures of the cache, and notebooks show stores, caches and topologies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import rgb_to_hsv, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from graphprep.cache.read import PartitionCache
from graphprep.report import plots
from graphprep.report.plots import plot_classes, plot_degrees
from graphprep.report.svg import drawn
from graphprep.store.store import GraphStore
from graphprep.topology import Topology, resolve
from tests.graphs import labelled_graph, typed_graph
from tests.report.pages import Page
from tests.stores import make_cache, make_store


@pytest.fixture
def store() -> GraphStore:
    return make_store(labelled_graph(np.random.default_rng(1), 90, 700))


@pytest.fixture
def cache(store: GraphStore, tmp_path: Path) -> PartitionCache:
    return make_cache(store, resolve("2x2"), tmp_path / "cache")


@pytest.fixture
def axes() -> Axes:
    return Figure().subplots()


def test_bars_and_cells_are_the_figures(cache: PartitionCache, axes: Axes) -> None:
    """Guards against a plot that shows other numbers, or ranks in another order."""
    bars = [patch for patch in cache.plot_parts(axes).patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() for bar in bars] == [row["work_share"] for row in cache.quality["ranks"]]
    heat = cache.plot_traffic(Figure().subplots())
    rows_PP = np.asarray(cache.array("traffic_rows"))
    assert [text.get_text() for text in heat.texts] == [f"{count:,}" for count in rows_PP.ravel() if count]
    cells = [patch for patch in heat.patches if isinstance(patch, Rectangle)]
    assert [(cell.get_y(), cell.get_x()) for cell in cells] == [tuple(pair) for pair in np.argwhere(rows_PP)]


def test_every_direction_of_every_link_is_drawn(cache: PartitionCache, axes: Axes) -> None:
    """Guards against links that are left out, and against a slowest link that is not the widest arrow."""
    arrows = [patch for patch in cache.plot_links(axes).patches if isinstance(patch, FancyArrowPatch)]
    seconds = [row["seconds"] for row in cache.quality["links"]]
    assert len(arrows) == len(seconds)
    widths = [arrow.get_linewidth() for arrow in arrows]
    assert int(np.argmax(widths)) == int(np.argmax(seconds))
    assert np.corrcoef(widths, seconds)[0, 1] > 0.999


def test_only_what_exceeds_a_limit_is_red(axes: Axes) -> None:
    """Guards against red for the longest bar, which some bar always is."""
    quality = {"ranks": [{"work_share": 0.8}, {"work_share": 1.2}], "limits": [{"what": "work", "limit": 1.3}]}
    assert {bar.get_facecolor() for bar in plots.plot_parts(quality, axes).patches} == {to_rgba(plots.ACCENT)}
    quality["limits"] = [{"what": "work", "limit": 1.1}]
    colours = [bar.get_facecolor() for bar in plots.plot_parts(quality, Figure().subplots()).patches]
    assert colours == [to_rgba(plots.ACCENT), to_rgba(plots.HOT)]
    for colour in (*(name for _, name in plots.KINDS.values()), *plots.LINK_COLOURS, *plots.LOADS, plots.METRIC):
        hue, saturation, _ = rgb_to_hsv(to_rgb(colour))
        assert saturation < 0.3 or 20 / 360 < hue < 330 / 360, colour


def test_colours_of_values_have_a_bar(cache: PartitionCache, axes: Axes) -> None:
    """Guards against a heat map without its greatest value, and a bar where nothing is sent."""
    heat = cache.plot_traffic(axes)
    figure = heat.get_figure(root=True)
    assert figure is not None
    [_, bar] = figure.axes
    assert bar.get_ylim()[1] == np.asarray(cache.array("traffic_rows")).max()
    links = cache.plot_links(Figure().subplots()).get_figure(root=True)
    assert links is not None
    assert links.axes[1].get_ylim()[1] == pytest.approx(1e3 * max(row["seconds"] for row in cache.quality["links"]))
    empty = plots.plot_traffic([[0, 0], [0, 0]], Figure().subplots()).get_figure(root=True)
    assert empty is not None
    assert len(empty.axes) == 1


def test_marks_have_their_values_as_titles(cache: PartitionCache) -> None:
    """Guards against values that nobody sees under the pointer, and names that become markup."""
    text = drawn("heat", "rows", plots.plot_traffic, cache.array("traffic_rows").tolist(), size=plots.SQUARE)
    rows = cache.array("traffic_rows")
    for p, q in np.argwhere(rows).tolist():
        assert f"<g><title>from rank {p} to rank {q}: {int(rows[p, q]):,}</title>" in text
    assert plots.TIP not in text
    values = {"<b>x&": 1.5, '<b>"y"': 2.5, "<b>\"z's": 3.5}
    names = drawn("bars", "values", plots.plot_compared, values, "us", size=plots.BARS)
    assert "<title>&lt;b&gt;x&amp;: 1.5 us</title>" in names
    assert '<title>&lt;b&gt;"y": 2.5 us</title>' in names
    assert "<title>&lt;b&gt;&quot;z&apos;s: 3.5 us</title>" in names
    assert plots.TIP not in names


def test_the_timeline_has_every_kind_of_every_rank(axes: Axes) -> None:
    """Guards against bars that overlap, or that are as long as those of another range."""
    kinds = dict(zip(plots.KINDS, (2.0, 1.0, 1.0), strict=True))
    groups = [
        {
            "first_epoch": 1,
            "last_epoch": 2,
            "epoch_seconds": 4.0,
            "ranks": [{"rank": rank, **kinds} for rank in (0, 1)],
        },
        {
            "first_epoch": 3,
            "last_epoch": 3,
            "epoch_seconds": 4.0,
            "ranks": [{"rank": rank, **kinds} for rank in (0, 1)],
        },
    ]
    bars = [patch for patch in plots.plot_timeline(groups, axes).patches if isinstance(patch, Rectangle)]
    found = [(bar.get_y(), bar.get_x(), bar.get_width()) for bar in bars if bar.get_y() < 1]
    assert found == [(0.1, x, width) for x, width in ((0, 4), (4, 2), (6, 2), (8, 2), (10, 1), (11, 1))]


def test_degrees_and_classes(axes: Axes) -> None:
    """Guards against empty graphs that cannot be drawn."""
    rows = [{"low": 0, "high": 0, "nodes": 3}, {"low": 1, "high": 1, "nodes": 5}]
    assert [bar.get_height() for bar in plot_degrees(rows, axes).patches] == [3, 5]  # type: ignore[attr-defined]
    plot_degrees([{"low": 0, "high": 0, "nodes": 0}], Figure().subplots())
    drawn = plot_classes([4, 6], {"train": [1, 2], "val": [1, 1]}, Figure().subplots())
    assert [bar.get_height() for bar in drawn.patches] == [4, 6, 1, 2, 1, 1]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_notebooks_show_what_there_is(store: GraphStore, cache: PartitionCache) -> None:
    """Guards against a representation that raises, and so against a cell without an output."""
    for shown in (store, cache, resolve("2x2"), Topology.flat(1), make_store(typed_graph(np.random.default_rng(1)))):
        html = shown._repr_html_()
        assert "<table>" in html
        Page(html)
    assert "90" in store._repr_html_()
    assert f"{cache.quality['cut_edges']:,} cut edges" in cache._repr_html_()


@pytest.mark.parametrize("name", ["2x2", "4x8", "dgx-1-v100", "dgx-a100"])
def test_presets_show_themselves(name: str) -> None:
    """Guards against a topology whose drawing fails."""
    html = resolve(name)._repr_html_()
    assert ("<svg" in html) == (1 < resolve(name).num_ranks <= 32)
