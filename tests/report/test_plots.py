"""Plots show the figures of the cache, and notebooks show stores, caches and topologies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from graphprep.cache.read import PartitionCache
from graphprep.report.plots import plot_classes, plot_degrees
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


def test_degrees_and_classes(axes: Axes) -> None:
    """Guards against empty graphs that cannot be drawn."""
    rows = [{"low": 0, "high": 0, "nodes": 3}, {"low": 1, "high": 1, "nodes": 5}]
    assert [bar.get_height() for bar in plot_degrees(rows, axes).patches] == [3, 5]  # type: ignore[attr-defined]
    plot_degrees([{"low": 0, "high": 0, "nodes": 0}], Figure().subplots())
    drawn = plot_classes([4, 6], {"train": [1, 2], "val": [1, 1]}, Figure().subplots())
    assert [bar.get_height() for bar in drawn.patches] == [4, 6, 1, 2, 1, 1]  # type: ignore[attr-defined]


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
