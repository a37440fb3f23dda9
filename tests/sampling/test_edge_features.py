"""Features of drawn edges: each edge of each layer has its own, whichever part and file has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import part_batches
from tests.trainer.handmade_cache import make_cache, random_graph

NODES = 40
REMOVED = np.array([[1, 7, 9], [2, 8, 9]])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of two parts whose edges say in two ways where they begin and end."""
    graph = random_graph(num_nodes=NODES, num_edges=300, weighted=True, loops_and_duplicates=True)
    graph.src[:3], graph.dst[:3] = REMOVED
    graph.edge_attr = np.stack([graph.src, graph.dst], 1).astype(np.float16)
    graph.edge_arrays = {"code": (graph.src * NODES + graph.dst).astype(np.int64)}
    graph.weight = (1 + graph.edge_arrays["code"]).astype(np.float32)
    assignment = np.random.default_rng(0).integers(0, 2, NODES)
    return make_cache(tmp_path_factory.mktemp("features") / "c", graph, assignment, 2)


def expected(name: str, source: int, destination: int) -> list[float]:
    """The features of an edge of the graph."""
    code = source * NODES + destination
    return {"edge_attr": [source, destination], "code": [code], "weights": [1 + code]}[name]


@pytest.mark.parametrize(
    ("name", "removed", "options"),
    [
        ("edge_attr", None, {}),
        ("code", REMOVED, {}),
        ("weights", REMOVED, {"sums": "gcn"}),
        ("edge_attr", None, {"sampler": "ladies"}),
        ("edge_attr", None, {"draw": "weighted", "sums": "messages"}),
    ],
)
def test_each_drawn_edge_has_its_own(cache: Path, name: str, removed: Any, options: dict[str, Any]) -> None:
    """Guards against features of another edge, of one that was removed, or of a self-loop that has none."""
    common = {"batch_size": 8, "fanouts": [3, 2], "seed": 1, "is_typed": False, "node_type": "node", "sums": "mean"}
    made = BatchOptions(edge_features=name, **{**common, **options})
    batches = part_batches(cache, 1, np.arange(NODES), made, (1, 1), removed)
    gone, num_edges, num_loops = {frozenset(pair) for pair in REMOVED.T.tolist() if pair[0] != pair[1]}, 0, 0
    for step in range(batches.steps):
        arrays = batches.make(1, step)
        ids, counts = arrays["ids/node"], arrays["counts"][:, 0]
        for layer in (1, 2):
            num_own = counts[2 - layer]
            for side, first in (("own", 0), ("halo", num_own)):
                of = {
                    key: arrays[f"layer/{layer}/{side}_{key}"] for key in ("indptr", "indices", "weights", "features")
                }
                assert len(of["features"]) == len(of["indices"])
                for row, column, values in zip(
                    np.repeat(np.arange(num_own), np.diff(of["indptr"])), of["indices"], of["features"], strict=True
                ):
                    source, destination = int(ids[column + first]), int(ids[row])
                    assert removed is None or frozenset((source, destination)) not in gone
                    if source == destination and not values.any():
                        num_loops += 1
                        continue
                    num_edges += 1
                    assert values.tolist() == expected(name, source, destination)
        assert sum(values.nbytes for values in arrays.values()) < batches.most_bytes()
    assert num_edges > 50
    assert (num_loops > 0) == (options.get("sums") == "gcn")
