"""`graphprep inspect` of a store of 100 million edges: seconds and memory, for two graphs of one size.

A block model and an R-MAT graph are generated once under --folder (some 2 GB) and looked at. Compared are the time that
reading and looking took beside that of only reading and decompressing the same edges, and the greatest anonymous and
shared memory of the process beside what the edges alone would take. Prints a table, writes JSON with
--out; ends with 1 if an inspection took more than 20 s of the processor or 1 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measured import measured, python

MOST_SECONDS, MOST_BYTES = 20.0, 1_000_000_000
GRAPHS = {
    "block model": ["sbm", "--nodes", "5000000", "--edges", "50000000", "--features", "32", "--dtype", "float16"],
    "R-MAT": ["rmat", "--scale", "22", "--edges", "52000000"],
}
READ = """
import sys, resource
from graphprep.report.summary.edge_scan import EDGES_AT_A_TIME, ROWS_AT_A_TIME
from graphprep.core.row_ranges import row_ranges
from graphprep.store.store import GraphStore
store = GraphStore(sys.argv[1])
for kind in store.num_edges:
    for start, stop in row_ranges(store.indptr(kind), EDGES_AT_A_TIME, ROWS_AT_A_TIME):
        store.csr_rows(kind, start, stop)
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
LOOK = """
import sys, resource, json
from pipelines.look import summarise
_, found = summarise(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, found["num_nodes"], found["num_edges"]]))
"""


def look_at(name: str, words: list[str], folder: Path) -> dict[str, Any]:
    """Generate a graph if it is not there yet, and inspect it twice; the second run has its kernels compiled."""
    store = folder / f"{words[0]}.zarr"
    command = [
        sys.executable,
        "-m",
        "cli",
        "generate",
        *words,
        "--classes",
        "16",
        "--name",
        words[0],
        "--out",
        str(store),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    read = measured([*python(READ), str(store)])
    for _ in range(2):
        looked = measured([*python(LOOK), str(store)])
    cpu, nodes, edges = json.loads(looked.output.splitlines()[-1])
    row = {
        "graph": name,
        "nodes": nodes,
        "edges": edges,
        "read_seconds": read.seconds,
        "read_cpu_seconds": float(read.output),
        "seconds": looked.seconds,
        "cpu_seconds": cpu,
        "peak_bytes": looked.peak_bytes,
        "edge_bytes": 4 * edges,
    }
    print(
        f"{name:12} {nodes:>10,} nodes {edges:>12,} edges: reading {row['read_seconds']:.1f} s "
        f"({row['read_cpu_seconds']:.1f} s of a core), inspecting {row['seconds']:.1f} s ({cpu:.1f} s of a core), "
        f"peak {row['peak_bytes'] / 1e6:.0f} MB where the edges alone are {row['edge_bytes'] / 1e6:.0f} MB",
        flush=True,
    )
    return row


def main() -> int:
    """Returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for the generated stores")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ["GRAPHPREP_HOME"] = str(arguments.folder)
    rows = [look_at(name, words, arguments.folder) for name, words in GRAPHS.items()]
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(any(row["cpu_seconds"] > MOST_SECONDS or row["peak_bytes"] > MOST_BYTES for row in rows))


if __name__ == "__main__":
    sys.exit(main())
