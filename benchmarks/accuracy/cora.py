"""Test accuracy of GCN on Cora, mean of 10 seeds, on 1, 2 and 4 parts; published: 81.5 %.

Prints a table, writes JSON with --out. Needs --mirror (or the network).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from benchmarks.command import graphprep


def main() -> int:
    """Returns 1 if some mean is below 80.5 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take Cora from")
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    graphprep("fetch", "cora", "-q", *(["--mirror", arguments.mirror] if arguments.mirror else []))
    rows = []
    for parts in arguments.parts:
        cache = json.loads(graphprep("partition", "cora", "--parts", str(parts), "-q", "--json"))["cache"]
        results = []
        for seed in range(arguments.seeds):
            training = ("train", cache, "--model", arguments.model, "--seed", str(seed), "-q", "--json")
            results.append(json.loads(graphprep(*training).splitlines()[-1]))
        accuracies = [100 * result["test_accuracy"] for result in results]
        row = {
            "parts": parts,
            "mean": statistics.mean(accuracies),
            "deviation": statistics.stdev(accuracies),
            "accuracies": accuracies,
            "median_row_bytes_sent": statistics.median(result["row_bytes_sent"] for result in results),
            "median_bytes_whole_block_broadcast": statistics.median(
                result["bytes_whole_block_broadcast"] for result in results
            ),
        }
        rows.append(row)
        print(
            f"{parts} parts: {row['mean']:.2f} +- {row['deviation']:.2f} % over {arguments.seeds} seeds, "
            f"{row['median_row_bytes_sent'] / 1e6:.2f} MB of rows sent",
            flush=True,
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(min(row["mean"] for row in rows) < 80.5)


if __name__ == "__main__":
    sys.exit(main())
