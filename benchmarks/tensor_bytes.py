"""Rows that all ranks send in one sum over in-neighbours, over the nodes of the graph: four ways to exchange them.

    boundary    each row once to each other part with an edge from it, on METIS's parts: (sum of V[p,q]) / N
    broadcast   each part's rows to all others, as CAGNET's 1D does: P - 1
    1.5D        CAGNET (Tripathy et al. 2020) with c copies of the features: ranks are P/c x c, each gets N/c rows for
                its share of the block columns, and the c ranks of a row all-reduce their sums as a ring. It sends
                P/c - 1 + 2 (c - 1), with the best c of which c^2 divides P; each rank keeps c times as many rows
    all         two all-to-alls between rows and columns of all nodes, as NeutronTP's: 2 (P - 1) / P
    tensor      the same of the rows at the ends of edges between parts, as `--exchange tensor` does

A row counts as wide as it is: where columns are shared out, values are counted. Nothing is sent; the counts are those
of `graphprep.traffic`. Prints a row a graph and number of parts, writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graphs
from benchmarks.partitioning.edge_cut import equal_links
from graphprep.core.types import Csr
from graphprep.partition.request import PartitionRequest
from graphprep.partition.search import partition
from graphprep.partition.typed_graph import WholeGraph
from graphprep.system import progress
from graphprep.traffic.tensor import CrossRows, tensor_bytes

GRAPHS = ("rmat", "hierarchical-sbm", "coauthor-cs")
PARTS = (8, 64)
MOST = {("rmat", 8): 0.72}
"""Of tensor over boundary."""


def replicated(parts: int) -> tuple[int, float]:
    """The number of copies with which 1.5D sends the least, and its rows over N."""
    copies = [c for c in range(1, parts + 1) if parts % (c * c) == 0]
    return min(((c, parts / c - 1 + 2 * (c - 1)) for c in copies), key=lambda found: found[1])


def counted(name: str, matrix: Csr, parts: int, width: int) -> dict[str, Any]:
    """The rows of each way for a sum of rows of `width` values."""
    with tempfile.TemporaryDirectory() as scratch:
        request = PartitionRequest(method="metis", effort="none")
        result, _ = partition(WholeGraph.of_one_type(matrix), equal_links(parts), request, scratch=Path(scratch))
    nodes = matrix.num_rows
    rows = CrossRows.of(matrix, result.assignment, parts)
    values = sum(int(bytes_PP.sum()) for bytes_PP in tensor_bytes(rows, width, value_bytes=1))
    copies, of_replication = replicated(parts)
    found = {
        "boundary": int(result.traffic.rows_PP.sum()) / nodes,
        "broadcast": float(parts - 1),
        "1.5D": of_replication,
        "all": 2 * (parts - 1) / parts,
        "tensor": values / width / nodes,
    }
    return {
        "graph": name,
        "nodes": nodes,
        "edges": matrix.num_edges,
        "parts": parts,
        "width": width,
        "rows_over_nodes": found,
        "copies": copies,
        "tensor_over_boundary": found["tensor"] / found["boundary"],
    }


def main() -> int:
    """Returns 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--parts", nargs="+", type=int, default=list(PARTS))
    parser.add_argument("--width", type=int, default=64, help="values of a row")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    progress.configure(quiet=True)
    rows = []
    for name in arguments.graphs:
        matrix = graphs.load(name)
        for parts in arguments.parts:
            rows.append(counted(name, matrix, parts, arguments.width))
            of_ways = ", ".join(f"{way} {number:.2f}" for way, number in rows[-1]["rows_over_nodes"].items())
            print(
                f"{name:18} {parts:3} parts: {of_ways} (1.5D with {rows[-1]['copies']} copies); "
                f"tensor over boundary {rows[-1]['tensor_over_boundary']:.2f}",
                flush=True,
            )
    if arguments.out:
        arguments.out.write_text(json.dumps({"cases": rows}, indent=1))
    return int(any(row["tensor_over_boundary"] > MOST.get((row["graph"], row["parts"]), np.inf) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
