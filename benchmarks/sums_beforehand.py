"""Start of a run with sums of features from the cache, beside one that fetches features and makes the sums itself.

A block model of 200,000 nodes and 4 million directed edges with 128 features, dealt at random to 2 parts, so that each
part needs nearly every row of the other. Both caches hold the features; one has been made with --aggregate-features.
2 ranks of one thread train 1 epoch without input dropout. Seconds are from the start of a rank to its first epoch, the
median of several runs in turn; memory is the greatest anonymous and shared memory of all processes.

Prints a table, writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measured import Measured, measured

RULES = {"gcn": "gcn", "sage": "mean"}


def graphprep(folder: Path, *words: str) -> Measured:
    return measured([sys.executable, "-m", "cli", *words, "-q"], {"GRAPHPREP_HOME": str(folder)})


def trained(folder: Path, cache: str, model: str) -> dict[str, Any]:
    """The result line of a run, and its peak memory."""
    options = ["--model", model, "--epochs", "1", "--input-dropout", "0", "--hidden", "64", "--device", "cpu"]
    command = [sys.executable, "-m", "trainer.launch", str(folder / cache), *options, "-q", "--json"]
    run = measured(command, {"OMP_NUM_THREADS": "1"})
    return {**json.loads(run.output.splitlines()[-1]), "peak_bytes": run.peak_bytes}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=4_000_000, help="directed edges")
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3, help="the median counts")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = f"--nodes {arguments.nodes} --edges {arguments.edges // 2} --features {arguments.features}"
        graphprep(folder, "generate", "sbm", "--name", "graph", *shape.split())
        for rule in ("none", *RULES.values()):
            words = f"--parts 2 --method random --effort none --aggregate-features {rule} --out {folder / rule}"
            found[f"writing, {rule}"] = graphprep(folder, "partition", "graph", *words.split()).seconds
        for model, rule in RULES.items():
            runs = [(trained(folder, "none", model), trained(folder, rule, model)) for _ in range(arguments.repeats)]
            for name_of_way, results in zip(("made at start", "from the cache"), zip(*runs, strict=True), strict=True):
                found[f"{model}, {name_of_way}"] = {
                    "setup_seconds": statistics.median(result["setup_seconds"] for result in results),
                    "peak_bytes": statistics.median(result["peak_bytes"] for result in results),
                    "row_bytes_sent": results[0]["row_bytes_sent"],
                }
    for what, figures in found.items():
        if isinstance(figures, dict):
            print(
                f"{what:22} ready after {figures['setup_seconds']:6.2f} s, peak {figures['peak_bytes'] / 1e6:6.0f} MB, "
                f"{figures['row_bytes_sent'] / 1e6:6.0f} MB of rows sent in one epoch"
            )
        else:
            print(f"{what:22} {figures:6.1f} s")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
