"""TGN and EdgeBank on a stream of events: AP and MRR of several seeds, on ranks that are divided in several ways.

    OMP_NUM_THREADS=1 python -m benchmarks.temporal.events CollegeMsg.txt --out docs/figures/temporal_events.json
    OMP_NUM_THREADS=1 python -m benchmarks.temporal.events CollegeMsg.txt --seeds 5 --parallel 1,1,1 1,1,4

The file has a line `source destination time` an event. Split 70/15/15 by time, batches of 200 events in all runs,
negatives of all nodes that are a destination, one an event for AP and 49 for MRR. The test has the weights of the epoch
whose validation AP is best. A seed decides the first weights and the negatives, so that divisions are compared seed by
seed. Of the seeds the mean and the standard deviation (of a sample) are given. `--out` is written after every run, so
that an interrupted one keeps what was measured. Ranks are processes of this machine, so seconds on more ranks than
cores say nothing. `--waiting SECONDS` also stops one rank of the last run for a while (SIGSTOP), and measures which
share of a core the others take meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measured import tree
from graphprep.system.files.atomic import published_file
from graphprep.temporal.write_cache import cache_of_arrays

PUBLIC_REFERENCE = {2: 83.9, 4: 85.0, 6: 86.3, 8: 87.4, 12: 87.7}
"""Test AP of a public implementation of TGN on CollegeMsg after as many epochs, by the same protocol."""
BATCH = 200


def make_cache(file: Path, folder: Path) -> Path:
    """An event cache of a file of edges with times."""
    rows = np.loadtxt(file, dtype=np.int64)
    _, ends = np.unique(rows[:, :2], return_inverse=True)
    ends = ends.reshape(-1, 2)
    return cache_of_arrays(folder, ends[:, 0], ends[:, 1], rows[:, 2], dataset=file.stem)


def train(cache: Path, numbers: str, *words: str, waiting: float = 0.0) -> dict[str, Any]:
    """A run on as many ranks as `numbers` say: its epochs, its result, and the shares of a core of waiting ranks."""
    ranks = int(np.prod([int(number) for number in numbers.split(",")]))
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    command = [sys.executable, *start, "-m", "trainer", str(cache), "--json", "-q", "--batch-size", str(BATCH), *words]
    shares: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        lines = []
        assert child.stdout is not None
        for text in child.stdout:
            lines.append(json.loads(text))
            if waiting and not shares and ranks > 1:
                shares = _waiting_shares(child.pid, waiting)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    *epochs, result = lines
    return {"ranks": ranks, "epochs": epochs, "result": result, "waiting": shares}


def _waiting_shares(supervisor: int, seconds: float) -> list[float]:
    """Stop the last rank for some seconds: the share of a core that each other one takes, without its first second."""
    *others, stopped = tree(supervisor)[1:]
    os.kill(stopped, signal.SIGSTOP)
    try:
        time.sleep(1.0)
        before = [_cpu_seconds(process) for process in others]
        time.sleep(seconds)
        return [(_cpu_seconds(process) - then) / seconds for process, then in zip(others, before, strict=True)]
    finally:
        os.kill(stopped, signal.SIGCONT)


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


DIVISIONS = ("1,1,1", "2,1,1", "1,1,2", "1,1,4", "1,4,1")
METRICS = ("val_ap", "val_mrr", "test_ap", "test_mrr")


def spread_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Mean and standard deviation of each metric over the seeds; no deviation of one seed."""
    return {
        name: {
            "mean": statistics.mean(row[name] for row in rows),
            "deviation": statistics.stdev(row[name] for row in rows) if len(rows) > 1 else None,
        }
        for name in METRICS
    }


def in_words(spread: Mapping[str, Mapping[str, float | None]], name: str) -> str:
    """Such as 92.1 +- 0.3."""
    deviation = spread[name]["deviation"]
    return f"{spread[name]['mean']:.1f}" + ("" if deviation is None else f" +- {deviation:.2f}")


def row_of(numbers: str, run: dict[str, Any], num_batches: int) -> dict[str, Any]:
    """What the figure has of one run."""
    result, epochs = run["result"], run["epochs"]
    _, j, _ = (int(number) for number in numbers.split(","))
    rounds = len(epochs)
    return {
        "iterations": rounds * num_batches + j - 1,
        "val_ap_by_epoch": {line["epoch"]: 100 * line["val_ap"] for line in epochs},
        "seconds_a_step": sum(line["seconds"] for line in epochs) / (rounds * num_batches),
        "best_epoch": result["best_epoch"],
        "bytes_sent": result["bytes_sent"],
        **{name: 100 * result[name] for name in METRICS},
        "waiting_shares_of_a_core": run["waiting"],
    }


def write(out: Path | None, figure: Mapping[str, Any]) -> None:
    """Write what has been measured so far; the file is whole at every time."""
    if out is not None:
        with published_file(out) as file:
            file.write((json.dumps(figure, indent=1) + "\n").encode())


def main() -> None:
    """Measure EdgeBank and each division of the ranks with each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edges", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--parallel", nargs="+", default=DIVISIONS)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    parser.add_argument("--waiting", type=float, default=0.0, help="seconds to stop one rank of the last run")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        parser.error("--seeds has to be at least 1")
    figure: dict[str, Any] = {
        "epochs": arguments.epochs,
        "batch_size": BATCH,
        "seeds": arguments.seeds,
        "public_reference_test_ap": PUBLIC_REFERENCE,
        "edgebank": {"runs": []},
        "tgn": [{"parallel": [int(one) for one in numbers.split(",")], "runs": []} for numbers in arguments.parallel],
    }
    with tempfile.TemporaryDirectory() as folder:
        cache = make_cache(arguments.edges, Path(folder, "cache"))
        root = json.loads((cache / "zarr.json").read_text())["attributes"]
        num_batches = -(-root["split"][0] // BATCH)
        for seed in range(arguments.seeds):
            bank = train(cache, "1,1,1", "--model", "edgebank", "--seed", str(seed))["result"]
            figure["edgebank"]["runs"].append({"seed": seed, **{name: 100 * bank[name] for name in METRICS}})
            figure["environment"] = bank["environment"]
        spread = figure["edgebank"]["over_seeds"] = spread_of(figure["edgebank"]["runs"])
        print(f"EdgeBank: test AP {in_words(spread, 'test_ap')}, MRR {in_words(spread, 'test_mrr')}", flush=True)
        # Seed by seed, so that an interrupted measurement compares all divisions.
        for seed in range(arguments.seeds):
            for place, numbers in enumerate(arguments.parallel):
                is_last = (seed, place) == (arguments.seeds - 1, len(arguments.parallel) - 1)
                words = ["--model", "tgn", "--parallel", numbers, "--epochs", str(arguments.epochs)]
                run = train(cache, numbers, *words, "--seed", str(seed), waiting=arguments.waiting if is_last else 0.0)
                row = {"seed": seed, **row_of(numbers, run, num_batches)}
                of_division = figure["tgn"][place]
                of_division["runs"].append(row)
                of_division["over_seeds"] = spread_of(of_division["runs"])
                write(arguments.out, figure)
                by_epoch = ", ".join(f"{epoch}: {ap:.1f}" for epoch, ap in row["val_ap_by_epoch"].items())
                print(
                    f"TGN {numbers}, seed {seed}: test AP {row['test_ap']:.1f}, MRR {row['test_mrr']:.1f} after "
                    f"{row['iterations']} iterations, {1000 * row['seconds_a_step']:.0f} ms each; validation AP by "
                    f"epoch {by_epoch}",
                    flush=True,
                )
    for numbers, of_division in zip(arguments.parallel, figure["tgn"], strict=True):
        spread = of_division["over_seeds"]
        print(
            f"TGN {numbers}, {arguments.seeds} seed(s): test AP {in_words(spread, 'test_ap')}, MRR "
            f"{in_words(spread, 'test_mrr')}"
        )
    print("a public TGN, test AP by epoch:", ", ".join(f"{epoch}: {ap}" for epoch, ap in PUBLIC_REFERENCE.items()))


if __name__ == "__main__":
    main()
