"""Graphs that are awkward to cut, the ways to cut them, and the models that have to get them right."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.trainer.handmade_cache import HandmadeGraph, random_graph

WORLDS = (1, 2, 3, 4, 7)
EPOCHS = 3


def uneven(num_nodes: int, parts: int, seed: int = 1) -> np.ndarray:
    """A random assignment in which part p is about p + 1 times as large as part 0."""
    share = np.arange(1, parts + 1) / np.arange(1, parts + 1).sum()
    return np.random.default_rng(seed).choice(parts, num_nodes, p=share)


def graphs() -> dict[str, tuple[HandmadeGraph, Any]]:
    """Each graph with the assignment that it is cut by, a function of the number of parts."""
    undirected = random_graph(undirected=True, seed=1)
    weighted = random_graph(weighted=True, seed=2)
    loops = random_graph(loops_and_duplicates=True, weighted=True, seed=3)
    plain_loops = random_graph(loops_and_duplicates=True, seed=4)

    def training_ends_before_last(parts: int) -> np.ndarray:
        assignment = uneven(60, max(parts - 1, 1))
        assignment[~weighted.train & (np.arange(60) % 2 == 0)] = parts - 1
        return assignment

    # Nodes 45 .. 59 have edges among themselves only.
    apart = random_graph(num_edges=400, seed=5)
    stays = (apart.src >= 45) == (apart.dst >= 45)
    apart.src, apart.dst = apart.src[stays], apart.dst[stays]

    def last_is_apart(parts: int) -> np.ndarray:
        assignment = uneven(60, max(parts - 1, 1))
        assignment[45:] = parts - 1
        return assignment

    words = random_graph(num_features=200, seed=7)
    words.x *= np.random.default_rng(8).random(words.x.shape) < 1 / 40
    words.x[:9] = 0

    half = random_graph(seed=6)
    half.x = half.x.astype(np.float16)
    return {
        "undirected": (undirected, lambda parts: np.arange(60) * parts // 60),
        "directed, weighted, uneven": (weighted, lambda parts: uneven(60, parts)),
        "self-loops and duplicates, weighted": (loops, lambda parts: uneven(60, parts)),
        "self-loops and duplicates": (plain_loops, lambda parts: uneven(60, parts)),
        "a part without training nodes": (weighted, training_ends_before_last),
        "an empty part": (weighted, lambda parts: uneven(60, max(parts - 1, 1))),
        "a part without halo": (apart, last_is_apart),
        "few words a node": (words, lambda parts: uneven(60, max(parts - (parts > 3), 1))),
        "half-precision features": (half, lambda parts: uneven(60, parts)),
    }


SETTINGS: dict[str, dict[str, Any]] = {
    "gcn": {"model": "gcn"},
    "sage": {"model": "sage"},
    "deep gcn, batch norm": {"model": "gcn", "layers": 3, "hidden": 5, "norm": "batch"},
    "deep sage, layer norm": {"model": "sage", "layers": 3, "hidden": 5, "norm": "layer"},
    "one layer": {"layers": 1},
    "gcn on seven ranks": {"model": "gcn"},
    "gcn, broadcast": {"exchange": "broadcast"},
    "deep sage, broadcast, dropout": {
        "model": "sage",
        "layers": 3,
        "exchange": "broadcast",
        "dropout": 0.5,
        "input_dropout": 0.3,
    },
    "dropout, narrow": {"layers": 3, "hidden": 5, "dropout": 0.4},
    "dropout, wide": {"layers": 3, "hidden": 12, "dropout": 0.4},
    "kept halo, narrow": {"input_dropout": 1e-30, "hidden": 4},
    "kept halo, wide": {"input_dropout": 1e-30, "hidden": 12},
    "gin": {"model": "gin", "lr": 0.001},
    "sage, max": {"model": "sage", "aggregator": "max"},
    "gat": {"model": "gat", "heads": 2},
    "gatv2": {"model": "gatv2", "heads": 3, "layers": 3, "hidden": 4},
    "gat, residual, side by side": {"model": "gat", "heads": 2, "residual": True, "jumping": "cat"},
    "deep gcn, residual, greatest": {"layers": 3, "residual": True, "jumping": "max"},
    "gatv2, dropout": {"model": "gatv2", "heads": 2, "dropout": 0.4, "input_dropout": 0.2},
    "sage, max, dropout": {"model": "sage", "aggregator": "max", "dropout": 0.3},
    "gat, broadcast": {"model": "gat", "heads": 2, "exchange": "broadcast"},
    "gat, edge weights": {"model": "gat", "heads": 2, "edge_features": "weights"},
    "gatv2, edge weights, dropout": {"model": "gatv2", "heads": 2, "dropout": 0.4, "edge_features": "weights"},
    "gin, edge weights, dropout": {"model": "gin", "lr": 0.001, "dropout": 0.4, "edge_features": "weights"},
    "sage, edge weights, dropout": {"model": "sage", "hidden": 5, "dropout": 0.4, "edge_features": "weights"},
}
DENSE = (
    "gcn",
    "sage",
    "gin",
    "sage, max",
    "gat",
    "gatv2",
    "gat, residual, side by side",
    "deep gcn, residual, greatest",
)
"""Those that are compared with dense matrices: without dropout and normalisation."""
IN_TURN = (
    "gcn",
    "sage, max",
    "gat",
    "gatv2",
    "gatv2, dropout",
    "gatv2, edge weights, dropout",
    "gin, edge weights, dropout",
    "dropout, narrow",
    "dropout, wide",
    "sage, max, dropout",
)
"""Those that are also run with one peer after the other."""
TENSOR = (
    "gcn",
    "sage",
    "gin",
    "deep gcn, batch norm",
    "deep gcn, residual, greatest",
    "dropout, narrow",
    "dropout, wide",
)
"""Those that are also run with tensor-parallel layers."""
SETTINGS |= {f"{name}, sequential": {**SETTINGS[name], "exchange": "sequential"} for name in IN_TURN}
SETTINGS |= {f"{name}, tensor": {**SETTINGS[name], "exchange": "tensor"} for name in TENSOR}
"""An input dropout of 1e-30 drops nothing and scales by 1, but takes the way of the kept halo."""

WORDS = (
    "gcn",
    "sage",
    "gin",
    "gat",
    "gatv2, dropout",
    "dropout, wide",
    "deep sage, broadcast, dropout",
    "deep gcn, residual, greatest",
)
"""Those that are also run with features of which few are not 0, as sparse rows and as a matrix."""
SETTINGS |= {f"{name}, dense features": {**SETTINGS[name], "dense_features": True} for name in WORDS}

CASES = [(name, setting) for name in graphs() if name != "half-precision features" for setting in ("gcn", "sage")]
CASES += [("half-precision features", "gcn")]
OF_ANY_FEATURES = [name for name in SETTINGS if name not in ("gcn", "sage") and not name.endswith("dense features")]
CASES += [("directed, weighted, uneven", setting) for setting in OF_ANY_FEATURES]
CASES += [("few words a node", setting) for setting in (*WORDS[2:], "sage, max", "gcn, sequential")]
CASES += [("self-loops and duplicates, weighted", "gat, edge weights")]
CASES += [("few words a node", f"{setting}, dense features") for setting in WORDS]
CASES += [("an empty part", "deep gcn, batch norm"), ("undirected", "gcn on seven ranks")]
CASES += [(name, "gcn, tensor") for name in ("an empty part", "a part without halo", "self-loops and duplicates")]
CASES += [("undirected", "gcn, broadcast"), ("an empty part", "gcn, broadcast"), ("an empty part", "dropout, wide")]
CASES += [("self-loops and duplicates, weighted", setting) for setting in DENSE if setting not in ("gcn", "sage")]
CASES += [(name, "gat, sequential") for name in ("an empty part", "a part without halo")]


MAIN = "directed, weighted, uneven"


def worlds_of(name: str, setting: str) -> tuple[int, ...]:
    """On how many ranks a case runs: the two models on any number, on four for one graph; settings beyond on three."""
    if setting == "gcn on seven ranks":
        return (1, 7)
    if setting not in ("gcn", "sage", "gcn, tensor"):
        return (1, 3)
    return (1, 2, 3, 4) if name == MAIN else (1, 2, 3)
