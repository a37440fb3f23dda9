"""Edges in memory to sorted CSR: graphprep beside SciPy, PyG and pandas, on the same edges in one run.

All give rows of destinations with ascending columns and repeated edges summed. Prints medians and ratios, writes JSON
with --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def graphprep_way(src: np.ndarray, dst: np.ndarray, num_nodes: int) -> tuple[int, float]:
    from graphprep.core.csr import from_edges
    from graphprep.core.types import EdgeChunk, Treatment

    matrix, _ = from_edges(
        [EdgeChunk(src, dst)],
        num_rows=num_nodes,
        num_sources=num_nodes,
        treatment=Treatment(duplicates="sum"),
        name="random",
    )
    return matrix.num_edges, float(np.sum(matrix.indices[::997], dtype=np.float64))


def scipy_way(src: np.ndarray, dst: np.ndarray, num_nodes: int) -> tuple[int, float]:
    from scipy.sparse import coo_matrix

    matrix = coo_matrix((np.ones(len(src), np.float32), (dst, src)), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sum_duplicates()
    matrix.sort_indices()
    return matrix.nnz, float(np.sum(matrix.indices[::997], dtype=np.float64))


def pyg_way(src: np.ndarray, dst: np.ndarray, num_nodes: int) -> tuple[int, float]:
    import torch
    from torch_geometric.utils import coalesce
    from torch_geometric.utils.sparse import index2ptr

    edge_index = torch.stack([torch.from_numpy(dst), torch.from_numpy(src)])
    edge_index, _ = coalesce(edge_index, torch.ones(len(src)), num_nodes=num_nodes, reduce="sum")
    index2ptr(edge_index[0], num_nodes)
    return edge_index.shape[1], float(edge_index[1][::997].sum())


def pandas_way(src: np.ndarray, dst: np.ndarray, num_nodes: int) -> tuple[int, float]:
    import pandas as pd

    frame = pd.DataFrame({"dst": dst, "src": src})
    summed = frame.groupby(["dst", "src"], sort=True).size()
    columns = summed.index.get_level_values(1).to_numpy()
    np.concatenate([[0], np.cumsum(np.bincount(summed.index.get_level_values(0), minlength=num_nodes))])
    return len(columns), float(np.sum(columns[::997], dtype=np.float64))


WAYS: dict[str, Callable[..., Any]] = {
    "graphprep": graphprep_way,
    "scipy": scipy_way,
    "pyg": pyg_way,
    "pandas": pandas_way,
}


def main() -> int:
    """Returns 1 if the ways disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=50_000_000)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    src, dst = (rng.integers(0, arguments.nodes, arguments.edges) for _ in range(2))
    graphprep_way(src[:1000], dst[:1000], arguments.nodes)  # compiled before it is timed
    seconds: dict[str, list[float]] = {name: [] for name in arguments.ways}
    found = {}
    for repeat in range(arguments.repeats):
        for name in arguments.ways:
            if repeat and name in ("pyg", "pandas"):
                continue  # for the record; they take minutes
            started = time.perf_counter()
            found[name] = WAYS[name](src, dst, arguments.nodes)
            seconds[name].append(time.perf_counter() - started)
    ours = statistics.median(seconds["graphprep"])
    rows = {}
    for name, times in seconds.items():
        rows[name] = {"median_seconds": statistics.median(times), "times_graphprep": statistics.median(times) / ours}
        print(f"{name:10} {statistics.median(times):8.2f} s   {statistics.median(times) / ours:6.2f} x graphprep")
    agree = len(set(found.values())) == 1
    print("all agree" if agree else f"they disagree: {found}")
    if arguments.out:
        document = {"edges": arguments.edges, "nodes": arguments.nodes, "ways": rows, "agree": agree}
        arguments.out.write_text(json.dumps(document, indent=1))
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
