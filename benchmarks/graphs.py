"""The graphs that partitioners are compared on, by name: real ones from a folder of test data, and generated ones.

All are undirected and simple. The real ones are found through GRAPHPREP_TEST_DATA; see its README for their origins.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from graphprep.core import csr
from graphprep.core.types import Csr, EdgeChunk, RawGraph, Treatment

SIMPLE = Treatment(undirected=True, duplicates="drop", self_loops="drop")
DEPTHS = (0.03, 0.05, 0.07, 0.15, 0.3, 0.4)
"""of the hierarchical SBM: the share of edges that stay within a block of each depth, the whole graph first"""
BRANCHES = 4
FILES = {
    "ego-twitter": "edges/ego-twitter.txt.gz",
    **{name: f"graphs/{name}.graph" for name in ("wing", "mdual", "4elt", "fe_body", "finan512", "vibrobox")},
    **{name: f"graphs/{name}.graph" for name in ("add20", "t60k", "bcsstk29")},
}
FETCHED = ("tolokers", "coauthor-cs", "amazon-computers")
GENERATED = ("hierarchical-sbm", "rmat", "grid")


def load(name: str) -> Csr:
    """One graph.

    Raises:
        SystemExit: it is a real one, and GRAPHPREP_TEST_DATA does not say where it is.
    """
    match name:
        case "hierarchical-sbm":
            return hierarchical_sbm(200_000, 2_000_000, seed=0)
        case "rmat" | "grid":
            return _generated(name)
    data = os.environ.get("GRAPHPREP_TEST_DATA")
    if data is None:
        raise SystemExit(f"the graph {name} is read from the folder that GRAPHPREP_TEST_DATA names")
    with tempfile.TemporaryDirectory() as home:
        if name in FILES:
            from graphprep.datasets.importing.import_request import ImportRequest
            from graphprep.datasets.importing.user_files import read_files

            os.environ["GRAPHPREP_HOME"] = home
            return _simple(read_files(ImportRequest.of_one_type((Path(data) / FILES[name],))))
        from graphprep.datasets import readers, registry
        from graphprep.datasets.download.download import download

        entry = registry.entry(name)
        download(readers.remote_files(entry), Path(home), mirror=str(Path(data) / "mirror"), title=name)
        return _simple(readers.read(Path(home), entry))


def hierarchical_sbm(num_nodes: int, num_edges: int, *, seed: int) -> Csr:
    """Blocks in blocks, each of BRANCHES smaller ones; an edge stays within the block of a drawn depth. Shuffled."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, num_nodes, num_edges)
    size = (num_nodes / BRANCHES ** np.arange(len(DEPTHS)))[rng.choice(len(DEPTHS), num_edges, p=DEPTHS)]
    dst = np.minimum(np.floor(src / size) * size + rng.random(num_edges) * size, num_nodes - 1).astype(np.int64)
    place = rng.permutation(num_nodes)
    return _sorted(place[src], place[dst], num_nodes)


def _generated(name: str) -> Csr:
    from graphprep.datasets.generators import grid, rmat
    from graphprep.datasets.generators.requests import GridRequest, RmatRequest

    with tempfile.TemporaryDirectory() as folder:
        if name == "rmat":
            request = RmatRequest(scale=18, edges=2_000_000)
            return _simple(rmat.generate(request, folder=Path(folder)))
        mesh = GridRequest(sides=(80, 80, 80))
        return _simple(grid.generate(mesh, folder=Path(folder)))


def _simple(raw: RawGraph) -> Csr:
    chunks = list(raw.edges[0].chunks())
    return _sorted(
        np.concatenate([chunk.src for chunk in chunks]),
        np.concatenate([chunk.dst for chunk in chunks]),
        raw.nodes["node"].num_nodes,
    )


def _sorted(src: np.ndarray, dst: np.ndarray, num_nodes: int) -> Csr:
    matrix, _ = csr.from_edges(
        [EdgeChunk(src, dst)], num_rows=num_nodes, num_sources=num_nodes, treatment=SIMPLE, name="edges"
    )
    return matrix
