"""A SNAP text file to a store, beside the usual ways to get as far as a CSR: read by pandas, pyarrow or NumPy, sorted
by SciPy. Each in a process of its own; seconds and the greatest memory of the process tree (RssAnon + RssShmem).

Prints medians and ratios, writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measured import Measured, measured, python

SCIPY = """
import numpy as np
from scipy.sparse import coo_matrix
n = int(max(src.max(), dst.max())) + 1
matrix = coo_matrix((np.ones(len(src), np.float32), (dst, src)), shape=(n, n)).tocsr()
matrix.sum_duplicates()
print(matrix.nnz)
"""
READERS = {
    "pandas": """
import pandas as pd
frame = pd.read_csv({path!r}, sep="\\t", comment="#", header=None, names=["src", "dst"])
src, dst = frame["src"].to_numpy(), frame["dst"].to_numpy()
""",
    "pandas with pyarrow": """
import pandas as pd
frame = pd.read_csv({path!r}, sep="\\t", skiprows=2, header=None, names=["src", "dst"], engine="pyarrow")
src, dst = frame["src"].to_numpy(), frame["dst"].to_numpy()
""",
    "pyarrow": """
from pyarrow import csv
table = csv.read_csv({path!r}, read_options=csv.ReadOptions(skip_rows=2, column_names=["src", "dst"]),
                     parse_options=csv.ParseOptions(delimiter="\\t"))
src, dst = table["src"].to_numpy(), table["dst"].to_numpy()
""",
    "numpy": """
import numpy as np
edges = np.loadtxt({path!r}, dtype=np.int64, comments="#")
src, dst = edges[:, 0], edges[:, 1]
""",
}


def write_text(path: Path, num_edges: int) -> None:
    """A tab-separated edge list as SNAP writes them, its ids 0 .. N-1 all used."""
    import pyarrow as pa
    from pyarrow import csv

    num_nodes = num_edges // 25
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(f"# {num_nodes} nodes {num_edges} edges\n# FromNodeId\tToNodeId\n".encode())
        options = csv.WriteOptions(include_header=False, delimiter="\t")
        for start in range(0, num_edges, 1 << 22):
            count = min(1 << 22, num_edges - start)
            src, dst = rng.integers(0, num_nodes, count), rng.integers(0, num_nodes, count)
            first = np.arange(start, min(start + count, num_nodes))
            src[: len(first)] = first
            csv.write_csv(pa.table({"src": src, "dst": dst}), file, options)


def main() -> int:
    """Returns 0; whether the figures are good enough is for people to say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=50_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--readers", nargs="+", default=[name for name in READERS if name != "numpy"], choices=READERS)
    parser.add_argument("--memory", help="as in `graphprep import --memory`")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    found: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / "edges.txt"
        write_text(text, arguments.edges)
        limit = ["--memory", arguments.memory] if arguments.memory else []
        command = [sys.executable, "-m", "cli", "import", str(text), "--name", "edges", "--replace", "-q", *limit]
        for repeat in range(arguments.repeats):
            run = measured(command, {"GRAPHPREP_HOME": f"{name}/home-{repeat}"})
            found.setdefault("graphprep", []).append(run)
            for reader in arguments.readers:
                script = READERS[reader].format(path=os.fspath(text)) + SCIPY
                found.setdefault(reader, []).append(measured(python(script)))
    rows = {
        way: {
            "median_seconds": statistics.median(run.seconds for run in runs),
            "median_peak_gb": statistics.median(run.peak_bytes for run in runs) / 1e9,
        }
        for way, runs in found.items()
    }
    ours = rows["graphprep"]
    for way, row in rows.items():
        slower, larger = (row[name] / ours[name] for name in ("median_seconds", "median_peak_gb"))
        print(
            f"{way:22} {row['median_seconds']:7.2f} s ({slower:5.2f} x graphprep)"
            f"   peak {row['median_peak_gb']:5.2f} GB ({larger:5.2f} x)"
        )
    if arguments.out:
        arguments.out.write_text(json.dumps({"edges": arguments.edges, "ways": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
