"""Peak memory of a rank in GAT training: all peers' rows at once (boundary) against one peer's at a time (sequential).

GAT with 4 heads x 64 and 3 layers on the hierarchical block model of benchmarks/graphs.py, 200,000 nodes and 4 million
directed edges, 64 features, in 8 parts, full gradient steps. All ranks run on this machine, one thread each. Memory is
the greatest anonymous and shared memory (RssAnon + RssShmem) of the process of each rank, libraries included; `above
the start` leaves out what the same rank takes for a model of one narrow layer: Python, torch, its part, its edges.

Prints a table, writes JSON with --out. Returns 1 if sequential takes more than half.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import graphprep
from benchmarks.graphs import hierarchical_sbm
from benchmarks.measured import SECONDS_BETWEEN_LOOKS, held_by, tree

EDGES_A_NODE, FEATURES, CLASSES = 10, 64, 16
TRAINING = ["--epochs", "2", "--eval-every", "2", "--patience", "0", "--device", "cpu", "-q", "--json"]
GAT = ["--model", "gat", "--heads", "4", "--hidden", "64", "--layers", "3"]
# Large tensors get pages of their own, which go back when they are freed: what is measured is what is held.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "1048576"}
START = ["--model", "gcn", "--layers", "1"]


def cache_of(parts: int, method: str, nodes: int) -> Path:
    """Write, import and partition the graph."""
    csr = hierarchical_sbm(nodes, nodes * EDGES_A_NODE, seed=0)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        dst = np.arange(nodes).repeat(np.diff(csr.indptr))
        np.save(Path(folder, "edges.npy"), np.stack([np.asarray(csr.indices, np.int64), dst]))
        np.save(Path(folder, "x.npy"), rng.normal(size=(nodes, FEATURES)).astype(np.float32))
        np.save(Path(folder, "y.npy"), rng.integers(0, CLASSES, nodes))
        files = [f"{folder}/edges.npy", "--features", f"{folder}/x.npy", "--labels", f"{folder}/y.npy"]
        graphprep("import", *files, "--name", "attention-memory", "--replace", "-q")
    partition = ("partition", "attention-memory", "--parts", str(parts), "--method", method, "--effort", "none")
    return Path(json.loads(graphprep(*partition, "--replace", "-q", "--json"))["cache"])


def peaks(cache: Path, options: list[str]) -> tuple[list[int], dict[str, Any]]:
    """The greatest memory of every rank in bytes, the largest first, and the run's result."""
    words = [sys.executable, "-m", "trainer.launch", str(cache), *TRAINING, *options]
    by_process: dict[int, int] = {}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}) as run:
        while run.poll() is None:
            for process in tree(run.pid)[1:]:
                by_process[process] = max(by_process.get(process, 0), held_by(process))
            time.sleep(SECONDS_BETWEEN_LOOKS)
        output = run.stdout.read() if run.stdout else ""
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, words)
    return sorted(by_process.values(), reverse=True), json.loads(output.splitlines()[-1])


def main() -> int:
    """Returns 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, nargs="+", default=[8], help="several show whether peers count")
    parser.add_argument("--nodes", type=int, default=200_000, help="with ten undirected edges each")
    parser.add_argument("--method", default="metis", help="of partitioning; random makes halos as large as they get")
    parser.add_argument("--model", default="gat", choices=["gat", "gatv2"])
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    rows, shares = [], []
    for parts in arguments.parts:
        cache = cache_of(parts, arguments.method, arguments.nodes)
        start = peaks(cache, START)[0][0]
        found = {}
        for exchange in ("boundary", "sequential"):
            measured, result = peaks(cache, [*GAT, "--model", arguments.model, "--exchange", exchange])
            found[exchange] = measured[0]
            row = {
                "parts": parts,
                "method": arguments.method,
                "nodes": arguments.nodes,
                "exchange": exchange,
                "peak_mb": measured[0] / 1e6,
                "above_start_mb": (measured[0] - start) / 1e6,
                "ranks_mb": [peak / 1e6 for peak in measured[:parts]],
                "seconds": result["seconds"],
                "row_bytes_sent": result["row_bytes_sent"],
            }
            rows.append(row)
            print(
                f"{parts} parts, {exchange:10}: peak of a rank {row['peak_mb']:.0f} MB, {row['above_start_mb']:.0f} MB "
                f"above the start; {row['seconds']:.0f} s, {row['row_bytes_sent'] / 1e6:.0f} MB of rows sent",
                flush=True,
            )
        shares.append(found["sequential"] / found["boundary"])
        above = (found["sequential"] - start) / (found["boundary"] - start)
        print(f"{parts} parts: sequential is {shares[-1]:.2f} of boundary, {above:.2f} above the start", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(max(shares) > 0.5)


if __name__ == "__main__":
    sys.exit(main())
