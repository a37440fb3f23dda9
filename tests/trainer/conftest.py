"""Caches and runs that several test modules look at, made once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.trainer.handmade_cache import HandmadeGraph, make_cache, random_graph
from tests.trainer.parity_cases import CASES, EPOCHS, SETTINGS, WORLDS, graphs, worlds_of
from tests.trainer.rank_group import Run, among_ranks, train_once

HERE = Path(__file__).parent


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that share trained runs are in one process of pytest-xdist, so that these are trained once."""
    if isinstance(item, pytest.Function) and item.path.is_relative_to(HERE):
        scopes = {name: found[-1].scope for name, found in item._fixtureinfo.name2fixturedefs.items()}
        if scopes.get("runs") == "session":
            item.add_marker(pytest.mark.xdist_group("trainer runs"))
        elif "module" in scopes.values():
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


class _Caches(dict[tuple[str, int], Path]):
    """The cache of each graph of the parity cases, by name and number of parts; made when it is first asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root, self._graphs = root, graphs()

    def __missing__(self, key: tuple[str, int]) -> Path:
        name, parts = key
        graph, assign = self._graphs[name]
        index_dtype = "int64" if name == "undirected" else "int32"
        self[key] = make_cache(self._root / f"{name}-{parts}", graph, assign(parts), parts, index_dtype=index_dtype)
        return self[key]


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    return _Caches(tmp_path_factory.mktemp("caches"))


@pytest.fixture(scope="session")
def runs(caches: dict[tuple[str, int], Path]) -> dict[tuple[str, str, int], Run]:
    """The training run of every parity case, by graph, setting and number of ranks."""
    found = {}
    for world in WORLDS:
        cases = [case for case in CASES if world in worlds_of(*case)]
        tasks = [
            partial(train_once, cache=str(caches[name, world]), epochs=EPOCHS, **SETTINGS[setting])
            for name, setting in cases
        ]
        for (name, setting), run in zip(cases, among_ranks(world, tasks), strict=True):
            found[name, setting, world] = run
    return found


@pytest.fixture
def graph() -> HandmadeGraph:
    """A small directed, weighted graph."""
    return random_graph(weighted=True)
