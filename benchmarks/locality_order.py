"""How much faster a part's sparse product is in our order of its nodes than in others, on the same parts in one run.

A part is what `graphprep partition` makes with METIS k-way: its rows, and as columns its own nodes and then its halo,
by owner and in the owner's order. The product is torch's row-sum reduction over float32 rows. A random order has rows,
columns and halo shuffled. The orders take turns: a turn is one product of each part. A part has its own rows of memory,
the same ones in all orders, since the pages that a tensor happens to get can matter more than the order; so a product
begins with the cache as the part before has left it. With --warm all parts share one memory: parts of 25,000 rows then
stay in a last-level cache of 32 MB from one product to the next, and little is left to gain.

With --split the product is the trainer's: one over the part's own columns and one over the halo, added. What is printed
is the sum over parts of the medians. Writes JSON with --out after every graph.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from benchmarks import graphs
from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.partition.candidates import assign
from graphprep.partition.ordering.order import locality_order
from graphprep.partition.request import PartitionRequest

FEATURES = 128
CLUSTER_ROWS = 256
"""of the nested METIS clusters"""
RANDOM_SEED = 20_000
"""apart from the generators' seeds: a block model is shuffled by the first draw of its own, which must not be undone"""
BLOCK_MODELS = {
    "sbm": (200_000, 2_000_000, 8, 2),
    "plain-sbm": (200_000, 2_000_000, 64, 1),
    "large-sbm": (1_000_000, 10_000_000, 8, 3),
}
"""nodes, undirected edges, branching, levels; the first is what `graphprep generate sbm` makes unless told otherwise"""
GRAPHS = ("hierarchical-sbm", *BLOCK_MODELS, "rmat", "grid", "ego-twitter", "mdual")
NodesByPart = list[np.ndarray]


def load(name: str) -> tuple[Csr, np.ndarray | None]:
    """A graph, undirected and simple, and the block of each node where that is all there is to find."""
    if name not in BLOCK_MODELS:
        return csr.undirected_simple(graphs.load(name)), None
    from graphprep.datasets.generators import sbm
    from graphprep.datasets.generators.requests import SbmRequest

    nodes, edges, branching, levels = BLOCK_MODELS[name]
    request = SbmRequest(nodes=nodes, edges=edges, branching=branching, levels=levels, classes=branching**levels)
    with tempfile.TemporaryDirectory() as folder:
        raw = sbm.generate(request, folder=Path(folder))
    matrix, _ = csr.from_edges(
        raw.edges[0].chunks(), num_rows=nodes, num_sources=nodes, treatment=raw.treatment, name=name
    )
    return csr.undirected_simple(matrix), raw.nodes["node"].y


def dataset_order(clean: Csr, assignment: np.ndarray, num_parts: int) -> NodesByPart:  # noqa: ARG001
    return [np.flatnonzero(assignment == part) for part in range(num_parts)]


def random_order(clean: Csr, assignment: np.ndarray, num_parts: int) -> NodesByPart:
    rng = np.random.default_rng(RANDOM_SEED)
    return [rng.permutation(nodes) for nodes in dataset_order(clean, assignment, num_parts)]


def rcm_order(clean: Csr, assignment: np.ndarray, num_parts: int) -> NodesByPart:
    whole = as_scipy(clean)
    return [
        nodes[reverse_cuthill_mckee(whole[nodes][:, nodes], symmetric_mode=True)]
        for nodes in dataset_order(clean, assignment, num_parts)
    ]


def metis_order(clean: Csr, assignment: np.ndarray, num_parts: int) -> NodesByPart:
    """Recursive bisection down to clusters of CLUSTER_ROWS, one after another."""
    import pymetis

    whole, order = as_scipy(clean), []
    for nodes in dataset_order(clean, assignment, num_parts):
        own = whole[nodes][:, nodes]
        adjacency = pymetis.CSRAdjacency(own.indptr.astype(np.int64), own.indices.astype(np.int64))
        _, cluster = pymetis.part_graph(-(-len(nodes) // CLUSTER_ROWS), adjacency, recursive=True)
        order.append(nodes[np.argsort(cluster, kind="stable")])
    return order


ORDERS: dict[str, Callable[[Csr, np.ndarray, int], NodesByPart]] = {
    "random": random_order,
    "dataset": dataset_order,
    "rcm": rcm_order,
    "metis-clusters": metis_order,
    "graphprep": locality_order,
}


def as_scipy(clean: Csr) -> csr_matrix:
    ones = np.ones(clean.num_edges, np.float32)
    return csr_matrix((ones, clean.indices, clean.indptr), shape=(clean.num_rows, clean.num_rows))


def products(clean: Csr, assignment: np.ndarray, order: NodesByPart, *, shuffled: bool, split: bool) -> list[list[Any]]:
    """Each part's matrices as torch's: [n, n + H], or [n, n] and [n, H] if they are split."""
    whole, row_N = as_scipy(clean), np.empty(clean.num_rows, np.int64)
    for nodes in order:
        row_N[nodes] = np.arange(len(nodes))
    rng = np.random.default_rng(RANDOM_SEED + 1)
    parts = []
    for part, nodes in enumerate(order):
        rows = whole[nodes]
        needed = np.unique(rows.indices)
        halo = needed[assignment[needed] != part]
        halo = rng.permutation(halo) if shuffled else halo[np.lexsort((row_N[halo], assignment[halo]))]
        columns = [nodes, halo] if split and len(halo) else [np.concatenate([nodes, halo])]
        parts.append([as_torch(rows[:, some]) for some in columns])
    return parts


def as_torch(matrix: csr_matrix) -> torch.Tensor:
    matrix.sort_indices()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int32)),
            torch.from_numpy(matrix.indices.astype(np.int32)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            check_invariants=False,
        )


def seconds_of(part: list[Any], x: list[torch.Tensor]) -> float:
    """One product of one part; `x` holds the rows of each matrix."""
    started = time.perf_counter()
    sums = torch.sparse.mm(part[0], x[0], reduce="sum")
    for halo, rows in zip(part[1:], x[1:], strict=True):
        sums += torch.sparse.mm(halo, rows, reduce="sum")
    return time.perf_counter() - started


def rows_for(part: list[Any], x: torch.Tensor, begin: int) -> list[torch.Tensor]:
    """As many rows of `x` as each matrix of a part has columns, from row `begin` on."""
    ends = np.cumsum([begin, *(matrix.shape[1] for matrix in part)])
    return [x[start:end] for start, end in itertools.pairwise(ends)]


def compare(
    name: str, clean: Csr, block_N: np.ndarray | None, num_parts: int, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """All orders on one graph's parts, and where the blocks are known the one that has each block together."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        assignment = assign(
            "metis",
            clean,
            shares_P=np.full(num_parts, 1 / num_parts),
            request=PartitionRequest(method="metis", seed=0),
            scratch=Path(scratch),
        )
    metis_seconds = time.perf_counter() - started if num_parts > 1 else None
    locality_order(clean, assignment, num_parts)  # compiled before it is timed
    orders, made = {}, {}
    for way in arguments.orders:
        started = time.perf_counter()
        orders[way] = ORDERS[way](clean, assignment, num_parts)
        made[way] = time.perf_counter() - started
    if block_N is not None:
        in_dataset_order = dataset_order(clean, assignment, num_parts)
        orders["blocks"] = [nodes[np.argsort(block_N[nodes], kind="stable")] for nodes in in_dataset_order]
    parts = {
        way: products(clean, assignment, order, shuffled=way == "random", split=arguments.split)
        for way, order in orders.items()
    }
    widths = [sum(matrix.shape[1] for matrix in part) for part in parts["random"]]
    begins = [0] * num_parts if arguments.warm else np.cumsum([0, *widths[:-1]]).tolist()
    memory = torch.rand(max(map(sum, zip(begins, widths, strict=True))), FEATURES)
    x = [rows_for(part, memory, begin) for part, begin in zip(parts["random"], begins, strict=True)]
    seconds: dict[str, list[list[float]]] = {way: [[] for _ in range(num_parts)] for way in parts}
    for repeat in range(arguments.repeats + 1):
        for way, group in parts.items():
            for part in range(num_parts):
                taken = seconds_of(group[part], x[part])
                if repeat:
                    seconds[way][part].append(taken)
    median = {way: sum(map(statistics.median, taken)) for way, taken in seconds.items()}
    least = {way: sum(map(min, taken)) for way, taken in seconds.items()}
    return [
        {
            "graph": name,
            "nodes": clean.num_rows,
            "edges": clean.num_edges,
            "parts": num_parts,
            "order": way,
            "seconds_to_make": round(made[way], 4) if way in made else None,
            "metis_k_way_seconds": metis_seconds and round(metis_seconds, 3),
            "spmm_ms_median": round(median[way] * 1e3, 2),
            "spmm_ms_least": round(least[way] * 1e3, 2),
            "times_random": round(median["random"] / median[way], 3),
        }
        for way in parts
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS[:6]), choices=GRAPHS)
    parser.add_argument("--parts", nargs="+", type=int, default=[8, 1])
    parser.add_argument("--orders", nargs="+", default=list(ORDERS), choices=list(ORDERS))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--split", action="store_true", help="one product over own columns and one over the halo")
    parser.add_argument("--warm", action="store_true", help="all parts read the same rows of memory")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    arguments.orders = ["random", *(way for way in arguments.orders if way != "random")]
    torch.set_num_threads(arguments.threads)
    document: dict[str, Any] = {
        "features": FEATURES,
        "threads": arguments.threads,
        "split": arguments.split,
        "warm": arguments.warm,
        "repeats": arguments.repeats,
        "torch": torch.__version__,
        "cases": [],
    }
    print(f"{'graph':18}{'parts':>6}  {'order':15}{'to make':>9}{'product':>12}{'least':>12}  x random")
    for name in arguments.graphs:
        clean, block_N = load(name)
        for num_parts in arguments.parts:
            rows = compare(name, clean, block_N, num_parts, arguments)
            for row in rows:
                to_make = "" if row["seconds_to_make"] is None else f"{row['seconds_to_make']:.2f} s"
                print(
                    f"{name:18}{num_parts:6}  {row['order']:15}{to_make:>9}"
                    f"{row['spmm_ms_median']:9.1f} ms{row['spmm_ms_least']:9.1f} ms  {row['times_random']:8.2f}"
                )
            partitioned = "" if num_parts == 1 else f"METIS k-way {rows[0]['metis_k_way_seconds']:.2f} s, "
            print(f"{'':26}{partitioned}load {os.getloadavg()[0]:.1f}", flush=True)
            document["cases"] += [{**row, "load": round(os.getloadavg()[0], 1)} for row in rows]
        if arguments.out:
            arguments.out.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
