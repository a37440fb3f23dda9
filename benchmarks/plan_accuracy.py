"""The plan's seconds an epoch beside measured ones, on this machine's CPU: three graphs, 1 and 2 ranks, GCN.

For 2 ranks the link is measured first (`topology probe` with gloo), and the plan judges the parts on that. Plan and
training run in turn and several times, and medians count, so that a busy minute does not fall on one of them alone. An
epoch is the difference of two runs of unequal length by the epochs between them. Prints both sides, writes JSON with
--out, and ends with 1 if a plan is off by more than 30 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.command import graphprep

SHORT, LONG = 2, 8
FAR = 0.30
GRAPHS = {
    "sbm-50k": "generate sbm --nodes 50000 --edges 500000 --features 64 --classes 16",
    "rmat-15": "generate rmat --scale 15 --edges 500000 --features 128 --classes 16",
    "grid-64k": "generate grid --sides 40x40x40 --features 64 --classes 8",
}
OPTIONS = ["--hidden", "128", "--eval-every", "1000"]


def probed(folder: Path) -> Path:
    """The topology of two ranks on this machine, measured once."""
    path = folder / "probed.yaml"
    if not path.exists():
        words = "topology probe --nproc 2 --backend gloo --seconds 15 -q --out"
        graphprep(*words.split(), str(path))
    return path


def trained(cache: str, epochs: int) -> float:
    """Seconds of training for so many epochs."""
    fixed = ["--patience", "0", "--device", "cpu", "-q", "--json", "--epochs", str(epochs)]
    command = [sys.executable, "-m", "trainer.launch", cache, *OPTIONS, *fixed]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def compared(name: str, words: str, parts: int, repeats: int, folder: Path) -> dict[str, Any]:
    """Plan and train in turn."""
    graphprep(*words.split(), "--name", name, "-q")
    out = str(folder / "caches" / f"{name}-{parts}")
    made = graphprep(
        "partition", name, "--parts", str(parts), "--method", "metis", "--effort", "none", "--out", out, "-q", "--json"
    )
    cache = json.loads(made)["cache"]
    elsewhere = ["--topology", str(probed(folder))] if parts > 1 else []
    plans, epochs = [], []
    for _ in range(repeats):
        plans.append(json.loads(graphprep("plan", cache, *OPTIONS, *elsewhere, "-q", "--json")))
        epochs.append((trained(cache, LONG) - trained(cache, SHORT)) / (LONG - SHORT))
    planned, measured = statistics.median(plan["epoch_seconds"] for plan in plans), statistics.median(epochs)
    row = {
        "graph": name,
        "ranks": parts,
        "planned_seconds": planned,
        "measured_seconds": measured,
        "ratio": planned / measured,
        "planned_runs": [plan["epoch_seconds"] for plan in plans],
        "measured_runs": epochs,
        "communication_seconds": plans[0]["communication_seconds"],
    }
    print(
        f"{name:10} {parts} rank(s): planned {planned:.3f} s, measured {measured:.3f} s an epoch, ratio "
        f"{row['ratio']:.2f} (links {row['communication_seconds']:.4f} s)",
        flush=True,
    )
    return row


def main() -> int:
    """Returns 1 if a plan is too far off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for the generated stores and caches")
    parser.add_argument("--repeats", type=int, default=3, help="the medians count")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ["GRAPHPREP_HOME"] = str(arguments.folder)
    rows = [
        compared(name, words, parts, arguments.repeats, arguments.folder)
        for name, words in GRAPHS.items()
        for parts in (1, 2)
    ]
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(any(abs(row["ratio"] - 1) > FAR for row in rows))


if __name__ == "__main__":
    sys.exit(main())
