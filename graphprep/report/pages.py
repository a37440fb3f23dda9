"""Pages about a store, a cache and several caches: one self-contained file in light and dark, for any width and paper.

The text is in `templates`, style and script lie beside this file and go into the page; the script sorts and filters
tables, and shows values under the pointer.
Every figure is one of `--json` and carries its path there (`cited`).
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from graphprep.core.fallback import Fallback
from graphprep.report import cache_tables, event_plots, event_tables, formats, plots, run_tables, store_tables
from graphprep.report.cited import Cited
from graphprep.report.summary.run_verdict import is_measured
from graphprep.report.svg import drawn
from graphprep.report.table import Column, Table
from graphprep.system.printable import printable
from graphprep.system.progress import format_bytes
from graphprep.topology import Topology

FORMATS = (formats.count, formats.duration, formats.percent, formats.ratio, formats.short, formats.times)


def cache_page(summary: dict[str, Any]) -> str:
    """The page for a `cache_summary`."""
    fallback = Fallback.from_json(summary.get("fallback"))
    sentence = None if fallback is None else fallback.sentence
    return _page("cache", summary, cache_tables, fallback=sentence)


def store_page(summary: dict[str, Any]) -> str:
    """The page for a `store_summary`."""
    source_files = [file for file in Cited(summary).get("source.files") or () if isinstance(file.value, dict)]
    return _page("store", summary, store_tables, files=source_files)


def event_page(summary: dict[str, Any]) -> str:
    """The page for an `event_store_summary` or `event_cache_summary`."""
    return _page("events", summary, event_tables, event_plots=event_plots)


def compare_page(compared: dict[str, Any]) -> str:
    """The page for what `pipelines.compare` returns."""
    caches = Cited(compared)["caches"]
    link_types = [kind for cache in caches for kind in cache["link_types"]]
    cache_of = Column("cache", lambda kind: caches[int(kind.path[1])]["cache"])
    bottlenecks = {row["cache"].value: 1e6 * row["bottleneck_seconds"].value for row in caches}
    loads = {row["cache"].value: row["work_share_max"].value for row in caches}
    bars = {"bottlenecks": bottlenecks, "loads": loads}
    return _page("compare", compared, cache_tables, link_types=link_types, cache_of=cache_of, **bars)


def run_page(summary: dict[str, Any]) -> str:
    """The page for a `run_summary`."""
    return _page("run", summary, run_tables, is_measured=is_measured(summary["by_rank"]))


@cache
def environment() -> Environment:
    """The templates, compiled once, with the formats as filters; they escape all text and its control characters."""
    templates = Environment(
        loader=PackageLoader("graphprep.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {format_.__name__: _filter(format_) for format_ in FORMATS}
    templates.filters |= {"bytes": _filter(format_bytes), "json": json.dumps, "name": _name, "sentence": _sentence}
    templates.globals |= {"Table": Table, "drawn": drawn, "plots": plots, "topology_of": _topology_of}
    return templates


def _page(template: str, summary: dict[str, Any], tables: ModuleType, **values: object) -> str:
    folder = files("graphprep.report")
    style, script = (Markup(folder.joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    page = environment().get_template(f"{template}.html.j2")
    return page.render(summary=Cited(summary), tables=tables, style=style, script=script, **values)


def _filter(format_: formats.Format) -> object:
    def to_html(cited: Cited) -> Markup:
        return cited.to_html(format_)

    return to_html


def _topology_of(form: Cited) -> Topology:
    return Topology.from_long_form(form.value)


def _name(text: str) -> Markup:
    """A name that a person, a file or a program gave to something."""
    return Cited(text).to_html()


def _sentence(text: str) -> str:
    """`text` with a capital at its beginning."""
    return text[:1].upper() + text[1:]
