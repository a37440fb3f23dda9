"""Partitions beside each other: the figures are those of the caches, and what does not compare is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.errors import CacheError, UsageError
from graphprep.report.pages import compare_page
from graphprep.topology import Topology, resolve
from pipelines.compare import compare
from tests.graphs import labelled_graph
from tests.report.pages import Page, at, number_in
from tests.stores import make_cache, make_store


@pytest.fixture
def caches(tmp_path: Path) -> dict[str, PartitionCache]:
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 400, undirected=True))
    machines = {"a": resolve("2x2"), "b": Topology.flat(4), "c": Topology.flat(2)}
    return {name: make_cache(store, machine, tmp_path / name) for name, machine in machines.items()}


def test_each_row_is_its_cache(caches: dict[str, PartitionCache]) -> None:
    """Guards against rows that are mixed up, and against a best that is not."""
    folders = [str(cache.folder) for cache in caches.values()]
    compared = json.loads(json.dumps(compare(folders), allow_nan=False))
    for row, cache in zip(compared["caches"], caches.values(), strict=True):
        for name in ("bottleneck_seconds", "sum_seconds", "cut_edges", "halo_rows"):
            assert row[name] == cache.quality[name]
        assert row["work_share_max"] == max(rank["work_share"] for rank in cache.quality["ranks"])
    best = min(row["bottleneck_seconds"] for row in compared["caches"])
    assert [row["bottleneck_seconds"] for row in compared["caches"] if row["is_best"]] == [best]
    on_one = compare(folders[:2], topology="2x2", row_bytes=1024)["caches"]
    assert on_one[0]["bottleneck_seconds"] == caches["a"].quality["bottleneck_seconds"]
    assert {row["topology"] for row in on_one} == {"2x2"}


@pytest.mark.slow
def test_the_page_shows_the_json(caches: dict[str, PartitionCache]) -> None:
    """Guards against a page with numbers of its own."""
    compared = compare([str(cache.folder) for cache in caches.values()])
    page = Page(compare_page(compared))
    assert len(page.figures) > 30
    for path, value, shown in page.figures:
        assert value == at(compared, path)
        assert number_in(shown) == pytest.approx(value, rel=0.06, abs=6e-4)
    assert [words for words in page.words if re.search(r"\d", words)] == []


@pytest.mark.slow
def test_what_does_not_compare(caches: dict[str, PartitionCache], tmp_path: Path) -> None:
    """Guards against seconds of different graphs side by side."""
    other = make_store(labelled_graph(np.random.default_rng(1), 80, 400), name="other")
    make_cache(other, Topology.flat(2), tmp_path / "other")
    first = str(caches["a"].folder)
    with pytest.raises(UsageError, match="at least two"):
        compare([first])
    with pytest.raises(UsageError, match="of another graph"):
        compare([first, str(tmp_path / "other")])
    with pytest.raises(UsageError, match="cache split"):
        compare([first, str(caches["c"].folder)], topology="2x2")
    with pytest.raises(CacheError, match="NAME/LABEL"):
        compare([first, "nothing/here"])
