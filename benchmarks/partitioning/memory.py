"""How much memory a partition for 8 ranks takes: METIS alone, and ours with METIS as its start, beside the graph's CSR.

Each run has a process of its own, and what counts is the greatest sum of RssAnon and RssShmem over it and its children
(looked at every 20 ms), less what it held before the graph was read. So the interpreter, libraries and compiled code
are left out, but those of METIS's child processes are in. The graph is read into memory in all runs: for METIS
with the 64-bit numbers that pymetis takes without another copy.

"Ours alone" is the process that calls METIS, without it: the graph, its clean form, and refinement. With one core
starts and refinements come one after another; with more, several METIS run at a time where the memory is free.

Prints a row a run, and writes JSON with --out after each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graphs
from benchmarks.measured import measured, python

GRAPHS = ("ego-twitter", "hierarchical-sbm", "rmat")
TOPOLOGY, RANKS = "dgx-1-v100", 8
METIS = f"""
import numpy as np, pymetis
from graphprep.system import memory
before = memory.resident()
with np.load(FILE) as arrays:
    adjacency = pymetis.CSRAdjacency(arrays["indptr"], arrays["indices"].astype(np.int64))
pymetis.part_graph({RANKS}, adjacency=adjacency, recursive=False, options=pymetis.Options(seed=0, ufactor=50))
print(before)
"""
OURS = f"""
import os, tempfile
from pathlib import Path
import numpy as np
from graphprep.core import csr
from graphprep.system import memory, progress
from graphprep.core.types import Csr, EdgeChunk, Treatment
from graphprep.partition.search import partition
from graphprep.partition.request import PartitionRequest
from graphprep.partition.typed_graph import WholeGraph
from graphprep.topology import resolve

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
progress.configure(quiet=True)

def run(matrix):
    request = PartitionRequest(effort=EFFORT)
    with tempfile.TemporaryDirectory() as scratch:
        return partition(WholeGraph.of_one_type(matrix), resolve({TOPOLOGY!r}), request, scratch=Path(scratch))[0]

ring = np.arange(1000)
treatment = Treatment(undirected=True)
small, _ = csr.from_edges([EdgeChunk(ring, (ring + 1) % 1000)], num_rows=1000, num_sources=1000, treatment=treatment,
                          name="warm-up")
run(small)
memory.give_back()
before = memory.resident()
with np.load(FILE) as arrays:
    matrix = Csr(indptr=arrays["indptr"], indices=arrays["indices"], num_sources=len(arrays["indptr"]) - 1)
found = run(matrix)
print(before, found.quality.bottleneck_seconds)
"""


def script(text: str, **values: Any) -> list[str]:
    """The command that runs a script with these names set."""
    return python("".join(f"{name} = {value!r}\n" for name, value in values.items()) + text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--efforts", nargs="+", default=["default"], choices=["fast", "default", "best"])
    parser.add_argument("--cores", nargs="+", type=int, default=[1, len(os.sched_getaffinity(0))])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'graph':18}{'effort':9}{'cores':>5}{'CSR':>8}{'METIS':>8}{'all':>8}{'ours alone':>12}  (MB; x CSR)")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.graphs:
            matrix, file = graphs.load(name), Path(folder, f"{name}.npz")
            np.savez(file, indptr=matrix.indptr, indices=matrix.indices)
            csr_bytes = matrix.indptr.nbytes + matrix.indices.nbytes
            metis = measured(script(METIS, FILE=str(file)))
            metis_bytes = metis.peak_bytes - int(metis.output)
            for effort in arguments.efforts:
                for cores in arguments.cores:
                    ours = measured(script(OURS, FILE=str(file), EFFORT=effort, CORES=cores))
                    before, bottleneck = ours.output.split()
                    row = {
                        "graph": name,
                        "nodes": matrix.num_rows,
                        "edges": matrix.num_edges,
                        "effort": effort,
                        "cores": cores,
                        "csr_bytes": csr_bytes,
                        "metis_bytes": metis_bytes,
                        "all_bytes": ours.peak_bytes - int(before),
                        "ours_alone_bytes": ours.first_peak_bytes - int(before),
                        "bottleneck_seconds": float(bottleneck),
                        "metis_seconds": metis.seconds,
                        "seconds": ours.seconds,
                    }
                    row["beyond_metis_in_csr"] = (row["all_bytes"] - metis_bytes) / csr_bytes
                    row["ours_alone_in_csr"] = row["ours_alone_bytes"] / csr_bytes
                    rows.append(row)
                    print(
                        f"{name:18}{effort:9}{cores:5}{csr_bytes / 1e6:8.1f}{metis_bytes / 1e6:8.0f}"
                        f"{row['all_bytes'] / 1e6:8.0f}{row['ours_alone_bytes'] / 1e6:12.0f}  "
                        f"beyond METIS {row['beyond_metis_in_csr']:.1f} x, ours alone {row['ours_alone_in_csr']:.1f} x",
                        flush=True,
                    )
                    if arguments.out:
                        arguments.out.write_text(json.dumps({"topology": TOPOLOGY, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
