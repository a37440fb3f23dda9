"""One table model: a terminal, a page and a notebook show the values of the JSON document in the same columns."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.report import cache_tables, store_tables
from graphprep.report.cited import Cited
from graphprep.report.formats import count, duration, percent, short
from graphprep.report.pages import environment
from graphprep.report.summary.cache_summary import cache_summary
from graphprep.report.summary.store_summary import store_summary
from graphprep.report.table import Column, Table
from graphprep.report.terminal import print_table
from graphprep.topology import resolve
from tests.graphs import labelled_graph
from tests.report.pages import Page, at
from tests.stores import make_cache, make_store

SHOW = '{% import "parts.html.j2" as parts %}{{ parts.table(table) }}'
DOCUMENT = {"rows": [{"name": "a", "n": 1234, "deep": {"s": 0.5}, "ok": True}, {"name": "b", "n": 7, "ok": False}]}
COLUMNS = (
    Column("name", "name"),
    Column("size", "n", count, unit="nodes", fill="bar", is_marked=True),
    Column("share", "deep.s", percent),
    Column("kept", "ok"),
    Column("path", lambda row: ["row ", row["n"]], only="page"),
)


def printed(table: Table) -> list[str]:
    """The lines of a table in a pipe."""
    file = io.StringIO()
    print_table(file, table)
    return file.getvalue().splitlines()


def test_a_column_has_name_unit_alignment_and_format() -> None:
    """Guards against a terminal and a page that differ, and against a missing value that is shown as a number."""
    table = Table("t", COLUMNS, Cited(DOCUMENT)["rows"], mark="smallest", marked=lambda row: row["n"].value == 7)
    assert printed(table) == [
        "t, * is the smallest",
        "name  size nodes   share  kept",
        "──────────────────────────────",
        "a          1,234  50.0 %  yes",
        "b            7 *       -  no",
        "",
    ]
    html = environment().from_string(SHOW).render(table=table)
    assert [text for *_, text in Page(html).figures] == ["1,234", "50.0 %", "1234", "7", "7"]
    assert '<th scope="col" class="right"><button type="button"><span class="name">size nodes</span>' in html
    assert '<td class="right bar mark" style="--part: 0.006"><data value="7" data-path="rows.1.n">7</data></td>' in html
    assert html.count("smallest") == 1


def test_a_problem_is_red_and_coloured_cells_have_a_scale() -> None:
    """Guards against red for what is merely the first or the best, and against shades that nobody can read."""
    rows, columns = Cited(DOCUMENT)["rows"], (COLUMNS[0], Column("n", "n", count, fill="heat", is_marked=True))
    shown = {
        is_problem: environment()
        .from_string(SHOW)
        .render(table=Table("t", columns, rows, mark="m", marked=lambda row: True, is_problem=is_problem))
        for is_problem in (False, True)
    }
    assert "hot" not in shown[False]
    assert '<td class="right heat hot"' in shown[True]
    assert '<span class="badge hot">m</span>' in shown[True]
    scale = '<span class="scale">none<i></i><data value="1234" data-path="rows.0.n">1,234</data></span>'
    assert scale in shown[False]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("caches")
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 700), target=folder / "graph.zarr")
    cache = make_cache(store, resolve("2x2"), folder / "cache")
    return {"cache": cache_summary(cache), "store": store_summary(store)}


def tables_of(kind: str, summary: Cited) -> list[Table]:
    """Tables that a terminal and a page both show."""
    if kind == "store":
        nodes, edges = (Table("t", getattr(store_tables, name), summary[name.lower()]) for name in ("NODES", "EDGES"))
        degrees = Table("t", store_tables.DEGREES, list(store_tables.degrees(summary)))
        return [nodes, edges, degrees, store_tables.classes_table(summary["nodes"]["node"])]
    quality = cache_tables.quality_tables(summary["quality"], summary["bottleneck"])
    tables = [table for table in quality if isinstance(table, Table)]
    matrix = cache_tables.matrix_table("rows sent", summary["traffic_rows"])
    return [*tables, matrix, Table("t", cache_tables.BOUNDS, summary["bounds"])]


@pytest.mark.parametrize("kind", ["cache", "store"])
def test_terminal_and_page_show_the_same_values_of_the_document(kind: str, documents: dict[str, Any]) -> None:
    """Guards against a column of which one medium reads another key, or a path that leads elsewhere."""
    document = json.loads(json.dumps(documents[kind], allow_nan=False))
    tables = tables_of(kind, Cited(documents[kind]))
    assert len(tables) >= 4
    for table in tables:
        figures = Page(environment().from_string(SHOW).render(table=table)).figures
        assert figures
        lines = " ".join(printed(table))
        for path, value, text in figures:
            assert at(document, path) == value
            assert text in lines or path.endswith(".bytes"), (path, text)


def test_formats() -> None:
    """Guards against a unit that is a thousand off, and against large floats in powers of ten."""
    assert [duration(value) for value in (2.5, 0.0025, 2.5e-6)] == ["2.50 s", "2.500 ms", "2.5 us"]
    assert [duration(value) for value in (2.5e-8, 0.0)] == ["25.0 ns", "0.0 us"]
    assert [short(value) for value in (6.5, 23.216, 12345.6, 3)] == ["6.5", "23.22", "12,346", "3"]
    assert Cited(None).to_text() == "-"
    assert Cited([]).to_text() == "-"
    assert Cited(["a", "b"]).to_text() == "a, b"
