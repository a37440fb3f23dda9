"""Features of which few are not 0, held by these entries, beside the same run with --dense-features.

2-layer GCN, 64 hidden features, 4 ranks of one thread on this machine, on bags of words: with input dropout, for which
masks are drawn in each epoch, and without it, where the dense run makes the sums A X once. Seconds are the median epoch
with its validation; memory is the greatest anonymous and shared memory of all processes together, libraries included;
bytes are those in which the halo's features come.

Prints a table, writes JSON with --out. Needs --mirror (or the network).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.measured import measured
from benchmarks.staleness import cache_of

FORMS = ("by entries", "dense")


def trained(cache: Path, *options: str) -> dict[str, Any]:
    """What a run took."""
    words = ["--device", "cpu", "--patience", "0", "--eval-every", "1", "-q", "--json", *options]
    run = measured([sys.executable, "-m", "trainer.launch", str(cache), *words], {"OMP_NUM_THREADS": "1"})
    *epochs, result = map(json.loads, run.output.splitlines())
    features = [row for row in result["exchanges"] if (row["layer"], row["direction"]) == (1, "forward")]
    return {
        "epoch_seconds": statistics.median(line["seconds"] for line in epochs),
        "setup_seconds": result["setup_seconds"],
        "feature_bytes": features[0]["bytes_sent"],
        "peak_bytes": run.peak_bytes,
        "test_accuracy": result["test_accuracy"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take the graphs from")
    parser.add_argument("--datasets", nargs="+", default=["cora", "coauthor-cs"])
    parser.add_argument("--input-dropout", type=float, nargs="+", default=[0.5, 0.0])
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3, help="in turn; the median counts")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    rows = []
    for dataset in arguments.datasets:
        cache = cache_of(dataset, arguments.parts, arguments.mirror)
        for share in arguments.input_dropout:
            common = ["--epochs", str(arguments.epochs), "--input-dropout", str(share)]
            runs: dict[str, list[dict[str, Any]]] = {form: [] for form in FORMS}
            for _ in range(arguments.repeats):
                for form in FORMS:
                    runs[form].append(trained(cache, *common, *(["--dense-features"] if form == "dense" else [])))
            medians = {
                form: {name: statistics.median(run[name] for run in found) for name in found[0]}
                for form, found in runs.items()
            }
            for form in FORMS:
                figures = medians[form]
                seconds, megabytes = figures["setup_seconds"], figures["feature_bytes"] / 1e6
                rows.append({"dataset": dataset, "input_dropout": share, "form": form, **figures})
                print(
                    f"{dataset:12} input dropout {share:3}, {form:10}: {1e3 * figures['epoch_seconds']:7.1f} ms an "
                    f"epoch, ready after {seconds:5.2f} s, features {megabytes:7.2f} MB, "
                    f"peak {figures['peak_bytes'] / 1e6:6.0f} MB, {figures['test_accuracy']:.2%}",
                    flush=True,
                )
            ratios = {name: medians[FORMS[0]][name] / medians[FORMS[1]][name] for name in medians[FORMS[0]]}
            print("  by entries over dense: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
