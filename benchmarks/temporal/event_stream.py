"""Seconds and peak memory of a generated stream of events: generated, sorted and stored, then prepared for training.

    python -m benchmarks.temporal.event_stream --events 20000000 --memory 1GB --out docs/figures/event_stream.json

Every step is the command itself in a process of its own, with `--memory`; what counts is its anonymous and shared
memory (mapped files are the page cache's). Events come out of order, so the store is made by runs that are merged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measured import measured
from graphprep.system.memory import parse


def step(home: Path, memory: str, *words: str) -> dict[str, Any]:
    """Run a command of graphprep; returns its seconds, its peak of memory and what it printed."""
    environment = {"GRAPHPREP_HOME": str(home), "TMPDIR": str(home)}
    command = [sys.executable, "-m", "cli", *words, "--json", "-q", *(["--memory", memory] if memory else [])]
    ran = measured(command, environment)
    return {"seconds": round(ran.seconds, 1), "peak_bytes": ran.peak_bytes, "result": json.loads(ran.output)}


def main() -> None:
    """Prepare the stream and print a line a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=256)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--memory", default="1GB", help="of every step")
    parser.add_argument("--out", type=Path, help="file of JSON")
    arguments = parser.parse_args()
    steps: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        warm = [*("--nodes", "50"), *("--events", "2000"), *("--groups", "4")]
        step(home, "", "generate", "events", "--name", "warm", *warm)  # compiles the loops
        step(home, "", "partition", "warm", "--for", "snapshots", "--window", "1d", "--parts", "2")
        sizes = [f"--{name}={getattr(arguments, name)}" for name in ("events", "nodes", "groups")]
        steps["store"] = step(home, arguments.memory, "generate", "events", "--name", "stream", *sizes)
        parts = ["--parts", str(arguments.parts)]
        steps["events"] = step(home, arguments.memory, "partition", "stream", "--for", "events", *parts)
        windows = ["--for", "snapshots", "--window", "1d", *parts]
        steps["snapshots"] = step(home, arguments.memory, "partition", "stream", *windows)
        steps["verify"] = step(home, "", "verify", "stream/events-" + str(arguments.parts))
    for name, row in steps.items():
        print(f"{name:9}: {row['seconds']:.1f} s, peak {row['peak_bytes'] / 1e6:,.0f} MB")
        result = row.pop("result")
        if name in ("events", "snapshots"):
            ranks = result["quality"]["ranks"]
            row |= {key: ranks[key] for key in ("crossing_share", "imbalance", "imbalance_over_time")}
    document = {
        **{name: getattr(arguments, name) for name in ("events", "nodes", "groups", "parts")},
        "memory_limit_bytes": parse(arguments.memory),
        "bytes_of_a_sorted_copy": 24 * arguments.events,
        "steps": steps,
    }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
