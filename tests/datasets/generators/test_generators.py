"""Generated graphs: the same from the same seed, readable twice, with the structure that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, RawGraph
from graphprep.datasets.generators import chunks, grid, rmat, sbm
from graphprep.datasets.generators.requests import GridRequest, RmatRequest, SbmRequest
from graphprep.errors import UsageError
from graphprep.store.store import GraphStore
from tests.end_to_end.test_cli import refused, run
from tests.stores import make_store

MAKERS: dict[str, Callable[[int, Path], RawGraph]] = {
    "sbm": lambda seed, folder: sbm.generate(
        SbmRequest(nodes=1000, edges=9000, branching=4, levels=2, features=8, seed=seed), folder=folder
    ),
    "rmat": lambda seed, folder: rmat.generate(
        RmatRequest(scale=10, edges=9000, features=8, dtype="float16", seed=seed), folder=folder
    ),
    "grid": lambda seed, folder: grid.generate(GridRequest(sides=(10, 11, 12), features=8, seed=seed), folder=folder),
}


def arrays(raw: RawGraph) -> list[np.ndarray]:
    nodes = raw.nodes[HOMOGENEOUS_NODE]
    assert nodes.x is not None
    assert nodes.y is not None
    edges = [np.concatenate(parts) for parts in zip(*((c.src, c.dst) for c in raw.edges[0].chunks()), strict=True)]
    return [np.array(nodes.x), nodes.y, *edges]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_seed_repeats(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against benchmarks whose graph differs from run to run, and against streams that can be read only once."""
    monkeypatch.setattr(chunks, "EDGES_AT_A_TIME", 1000)
    raw = MAKERS[kind](3, tmp_path / "a")
    first, again = arrays(raw), arrays(raw)
    other = arrays(MAKERS[kind](3, tmp_path / "b"))
    for one, two, three in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
    different = arrays(MAKERS[kind](4, tmp_path / "c"))
    assert not np.array_equal(first[0], different[0])


@pytest.mark.parametrize("kind", MAKERS)
def test_it_becomes_a_store(kind: str, tmp_path: Path) -> None:
    """Guards against generated graphs that conversion refuses or finds directed."""
    store = make_store(MAKERS[kind](0, tmp_path))
    store.check()
    assert not store.directed
    counts = store.attributes["edge_counts"][HOMOGENEOUS_EDGE.key]
    removed = counts["self_loops_dropped"] + counts["duplicates_removed"]
    assert counts["edges"] == counts["given"] + counts["reversed_added"] - removed == store.num_edges[HOMOGENEOUS_EDGE]


def test_blocks_hold_most_edges_and_features_tell_classes(tmp_path: Path) -> None:
    """Guards against a block model without blocks."""
    raw = MAKERS["sbm"](0, tmp_path)
    x, y, src, dst = arrays(raw)
    assert (y[src] == y[dst]).mean() > 0.75
    assert np.bincount(y).max() == np.bincount(y).min()
    centres = np.stack([x[y == label].mean(axis=0) for label in range(8)])
    nearest = ((x[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == y).mean() > 0.5


def test_rmat_has_hubs(tmp_path: Path) -> None:
    """Guards against quadrant probabilities that make a uniform graph."""
    _, _, src, dst = arrays(MAKERS["rmat"](0, tmp_path))
    degree = np.bincount(np.concatenate([src, dst]), minlength=1024)
    assert degree.max() > 15 * degree.mean()


def test_a_grid_has_its_edges(tmp_path: Path) -> None:
    """Guards against edges that wrap around, or are missing at the border."""
    _, _, src, dst = arrays(MAKERS["grid"](0, tmp_path))
    assert len(src) == 9 * 11 * 12 + 10 * 10 * 12 + 10 * 11 * 11
    here, there = np.stack(np.unravel_index(src, (10, 11, 12))), np.stack(np.unravel_index(dst, (10, 11, 12)))
    assert (np.abs(here - there).sum(axis=0) == 1).all()


@pytest.mark.parametrize(
    ("request_type", "wrong"),
    [
        (SbmRequest, {"nodes": 10, "edges": 5}),
        (SbmRequest, {"nodes": 1000, "edges": 5, "inside": 1.5}),
        (SbmRequest, {"nodes": 1000, "edges": 5, "classes": 65}),
        (SbmRequest, {"nodes": 1000, "edges": 5, "branching": 1}),
        (RmatRequest, {"scale": 0, "edges": 5}),
        (RmatRequest, {"scale": 5, "edges": 5, "a": 0.9, "b": 0.2}),
        (GridRequest, {"sides": (0, 3)}),
        (GridRequest, {"sides": (5, 3), "classes": 6}),
    ],
)
def test_impossible_parameters_are_named(request_type: Any, wrong: dict[str, Any]) -> None:
    """Guards against parameters that fail deep inside NumPy."""
    with pytest.raises(UsageError, match="--"):
        request_type(**wrong)


@pytest.mark.slow
def test_generate_commands(graphprep_home: Path) -> None:
    """Guards against options that do not reach their generator."""
    words = ("generate", "sbm", "--name", "s", "--nodes", "500", "--edges", "2000", "--features", "4", "--json")
    done = run(*words, "--memory", "16GB")  # this process counts too
    document = json.loads(done.stdout)
    assert document["nodes"] == {"node": 500}
    assert document["reused"] is False
    assert json.loads(run(*words).stdout)["reused"] is True
    assert "--replace" in refused(3, *words[:-1], "--seed", "1")
    assert not (graphprep_home / "raw" / "s" / "x.npy").exists()
    assert run("generate", "grid", "--name", "g", "--sides", "8x5").returncode == 0
    assert GraphStore(graphprep_home / "stores" / "g.zarr").num_nodes == {"node": 40}
    assert run("generate", "rmat", "--name", "r", "--scale", "6", "--edges", "100").returncode == 0
    assert "--sides" in run("generate", "grid", "--name", "g", "--sides", "8by5").stderr
    assert "--memory" in run("generate", "grid", "--name", "h", "--sides", "8", "--memory", "lots").stderr
