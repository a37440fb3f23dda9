"""Conversion in bounded memory: generated edges to a store under --memory, and the same for float16 features.

Half as many edges are drawn, and each gets its reverse.

Prints time an edge and the peak memory of the whole process tree (RssAnon + RssShmem) for a small and a large graph,
writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.measured import measured


def generate(home: str, name: str, memory: str, *options: str) -> dict[str, float]:
    """Generate one graph; returns seconds and peak gigabytes."""
    command = [sys.executable, "-m", "cli", "generate", "sbm", "--name", name, "--memory", memory, "-q", *options]
    ran = measured(command, {"GRAPHPREP_HOME": home})
    return {"seconds": ran.seconds, "peak_gb": ran.peak_bytes / 1e9}


def main() -> int:
    """Returns 1 if the memory limit was exceeded by a quarter, or an edge takes twice as long in the large graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--limit-gb", type=float, default=2.5)
    parser.add_argument("--small", type=int, default=50_000_000, help="directed edges of the small graph")
    parser.add_argument("--large", type=int, default=300_000_000, help="directed edges of the large graph")
    parser.add_argument("--rows", type=int, default=10_000_000, help="nodes of the graph with features")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    document: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for name in ("small", "large"):
            edges = getattr(arguments, name)
            row = generate(home, name, arguments.memory, "--nodes", str(edges // 20), "--edges", str(edges // 2))
            row["nanoseconds_an_edge"] = row["seconds"] / edges * 1e9
            document[name] = {"edges": edges, **row}
            print(
                f"{edges:>13,} edges: {row['seconds']:7.1f} s, {row['nanoseconds_an_edge']:6.1f} ns an edge, "
                f"peak {row['peak_gb']:.2f} GB",
                flush=True,
            )
        shape = ("--nodes", str(arguments.rows), "--edges", "1000000", "--features", "64", "--dtype", "float16")
        document["features"] = {"rows": arguments.rows, **generate(home, "features", arguments.memory, *shape)}
        print(
            f"{arguments.rows:>13,} x 64 float16: {document['features']['seconds']:.1f} s, "
            f"peak {document['features']['peak_gb']:.2f} GB"
        )
    ratio = document["large"]["nanoseconds_an_edge"] / document["small"]["nanoseconds_an_edge"]
    print(f"an edge of the large graph takes {ratio:.2f} times as long")
    if arguments.out:
        arguments.out.write_text(json.dumps(document | {"ratio": {"large_to_small": ratio}}, indent=1))
    return int(ratio > 2 or max(row["peak_gb"] for row in document.values()) > arguments.limit_gb)


if __name__ == "__main__":
    sys.exit(main())
