"""The pages: every number on them is that of the JSON, nothing leaves them, every drawing has words."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.core.types import NodeTable
from graphprep.report.cited import Cited
from graphprep.report.formats import count
from graphprep.report.layout import positions
from graphprep.report.pages import cache_page, environment, store_page
from graphprep.report.summary.cache_summary import cache_summary
from graphprep.report.summary.store_summary import store_summary
from graphprep.report.table import Column, Table
from graphprep.topology import Topology, preset_names, resolve
from pipelines.metis_reference import metis_reference
from tests.graphs import labelled_graph, typed_graph
from tests.report.pages import Page, at, number_in
from tests.stores import make_cache, make_store


def everything_of_a_cache(tmp_path: Path) -> dict[str, Any]:
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700, undirected=True))
    cache = make_cache(store, resolve("2x2"), tmp_path / "cache")
    summary = cache_summary(cache, topology=resolve("workstation-4"), row_bytes=64)
    return summary | {"metis": metis_reference(cache)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cache", "one part", "store", "several types", "without labels"])
def test_every_number_is_that_of_the_json(kind: str, tmp_path: Path) -> None:
    """Guards against a page that computes its own numbers, rounds them wrongly, or shows what the JSON has not."""
    rng = np.random.default_rng(2)
    if kind == "cache":
        summary = everything_of_a_cache(tmp_path)
    elif kind == "one part":
        store = make_store(labelled_graph(rng, 20, 60))
        summary = cache_summary(make_cache(store, Topology.flat(1), tmp_path / "cache"))
    elif kind == "several types":
        summary = store_summary(make_store(typed_graph(rng)))
    else:
        raw = labelled_graph(rng, 50, 200)
        if kind == "without labels":
            raw = replace(raw, nodes={"node": NodeTable(num_nodes=50)})
        summary = store_summary(make_store(raw))
    document = json.loads(json.dumps(summary, allow_nan=False))
    text = (cache_page if "quality" in summary else store_page)(summary)
    page = Page(text)
    assert len(page.figures) >= 20
    for path, value, shown in page.figures:
        assert value == at(document, path), path
        assert number_in(shown) == pytest.approx(value, rel=0.06, abs=6e-4), (path, shown)
    unmarked = [words for words in page.words if re.search(r"\d", words)]
    assert unmarked == []


@pytest.mark.slow
def test_every_drawing_has_words_and_ids_of_its_own(tmp_path: Path) -> None:
    """Guards against drawings that a screen reader cannot tell, or of which one clips another."""
    text = cache_page(everything_of_a_cache(tmp_path))
    page = Page(text)
    assert len(page.images) >= 6
    for image in page.images:
        assert image["role"] == "img"
        assert f'<title id="{image["aria-labelledby"]}">' in text
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    for used in re.findall(r'(?:href="|url\()#([^")]*)', text):
        assert used in ids


@pytest.mark.slow
def test_nothing_leaves_the_page(tmp_path: Path) -> None:
    """Guards against a page that needs a network, or that loads what a name in the data says."""
    summary = everything_of_a_cache(tmp_path)
    summary["dataset"] = '<img src="http://example.org/x.png" onerror="alert(1)">'
    text = cache_page(summary)
    assert "<img" not in text
    assert not re.search(r'(?:src|href)="(?!#|data:,")', text)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


@pytest.mark.slow
def test_colours_are_the_pages_own(tmp_path: Path) -> None:
    """Guards against black text on a black page: only loads and splits have colours of their own."""
    text = cache_page(everything_of_a_cache(tmp_path))
    drawings = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "var(--ink, currentColor)" in drawings
    assert "#000000" not in drawings
    assert "#ffffff" not in drawings


def test_no_two_nodes_are_drawn_on_one_another() -> None:
    """Guards against switches that hide each other; every node has a place."""
    for name in preset_names():
        topology = resolve(name)
        where = positions(topology)
        assert where.keys() == topology.nodes.keys(), name
        assert len({(round(x, 3), y) for x, y in where.values()}) == len(where), name


def test_values_know_their_place_and_text_is_escaped() -> None:
    """Guards against text that becomes markup, and against a path that leads elsewhere."""
    cited = Cited({"a.b": [{"c": 7}]})
    assert cited["a.b"][0]["c"].to_html() == '<data value="7" data-path="a.b.0.c">7</data>'
    assert at({"a.b": [{"c": 7}]}, "a.b.0.c") == 7
    assert Cited("<&>").to_html() == '<span class="name">&lt;&amp;&gt;</span>'
    rows = Cited([{"name": "<b>", "n": 1}, {"name": "c", "n": 2}])
    table = Table("<u>", [Column("<i>", "name"), Column("<s>", "n", count, fill="bar")], rows)
    html = (
        environment().from_string('{% import "parts.html.j2" as parts %}{{ parts.table(table) }}').render(table=table)
    )
    for tag in "uisb":
        assert f"&lt;{tag}&gt;" in html
        assert f"<{tag}>" not in html
    assert '--part: 0.500"><data value="1" data-path="0.n">1</data>' in html
    notebook = environment().get_template("notebook.html.j2").render(table=table, more=0, drawing=None)
    assert all(f"&lt;{tag}&gt;" in notebook for tag in "uisb")
