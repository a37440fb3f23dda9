"""What becomes of a training when the network fails.

Two machines of one rank train Cora. Each case is a run of its own, beside a calm one with the same seed:

    loss        1 % of all frames are lost
    jitter      every frame takes up to 200 ms longer
    flap        the cable goes down for 10 s in the middle of the run
    cut         the cable stays down: all ranks have to end within their timeout and say why; then the run is resumed
                from its checkpoint on a network that is whole

A run that goes on has to have the calm run's losses to the last digit, since a network can delay rows and not change
them; so has the resumed one. After each case no process and no namespace may be left. Prints a row a case, writes JSON
with --out, and returns 1 if one did not come out as it should.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.network import needs
from benchmarks.network.cases import Links, cache_of, store_of
from benchmarks.network.laboratory import Laboratory, Weather, laboratory
from benchmarks.network.namespaces import existing
from benchmarks.network.ranks import Run, train
from graphprep.partition.request import PartitionRequest

LINKS = Links(name="two-machines", ranks_each=1, mbits=(100, 100))
LOSS, JITTER_S, DOWN_S = 0.01, 0.2, 10.0
EPOCHS, FAILS_AFTER = 30, 10
"""Epochs of a run, and the one after which cables go down."""
TIMEOUT_S = 20.0
"""The trainer's, in the run whose cable stays down."""
GRACE_S = 30.0
"""In which torchrun ends after that, on a busy machine."""
OPTIONS = ["--epochs", str(EPOCHS), "--patience", "0", "--hidden", "16", "-q"]
CASES = ("loss", "jitter", "flap", "cut")


def losses(run: Run) -> list[float]:
    """Of the reported epochs."""
    return [line["loss"] for line in run.lines]


def when_reached(epoch: int, act: Callable[[], None]) -> Callable[[dict[str, Any]], None]:
    """For `train`: call `act` once, when that epoch is reported."""
    done = threading.Event()

    def look(line: dict[str, Any]) -> None:
        if line.get("epoch", 0) >= epoch and not done.is_set():
            done.set()
            act()

    return look


def flap(lab: Laboratory) -> Callable[[dict[str, Any]], None]:
    """Take the first cable down for DOWN_S seconds, after FAILS_AFTER epochs."""

    def down_and_up() -> None:
        lab.unplug(0)
        timer = threading.Timer(DOWN_S, lab.plug, (0,))
        timer.daemon = True
        timer.start()

    return when_reached(FAILS_AFTER, down_and_up)


def as_calm(run: Run, calm: Run) -> dict[str, Any]:
    """A row of a run that has to go on."""
    return {
        "good": run.statuses == (0, 0) and losses(run) == losses(calm),
        "statuses": run.statuses,
        "same_losses": losses(run) == losses(calm),
        "training_seconds": run.result["seconds"] if run.result else None,
        "test_accuracy": run.result["test_accuracy"] if run.result else None,
        "messages": run.messages() if any(run.statuses) else [],
    }


def survived(case: str, cache: Path, calm: Run, patience_s: float) -> dict[str, Any]:
    """Run a case; its row."""
    weather = {"loss": {0: Weather(loss=LOSS)}, "jitter": {0: Weather(jitter_s=JITTER_S)}}.get(case)
    with laboratory(LINKS.topology, weather) as lab:
        if case != "cut":
            on_line = flap(lab) if case == "flap" else None
            return as_calm(train(lab, cache, OPTIONS, patience_s=patience_s, on_line=on_line), calm)
        with tempfile.TemporaryDirectory() as folder:
            kept = [*OPTIONS, "--checkpoint", folder, "--checkpoint-every", "1"]
            cut: list[float] = []

            def cut_it() -> None:
                lab.unplug(0)
                cut.append(time.monotonic())

            on_line = when_reached(FAILS_AFTER, cut_it)
            given_up = train(lab, cache, [*kept, "--timeout", str(TIMEOUT_S)], patience_s=patience_s, on_line=on_line)
            took = time.monotonic() - cut[0] if cut else None
            lab.plug(0)
            resumed = train(lab, cache, [*kept, "--resume"], patience_s=patience_s)
    said = given_up.messages()
    same = losses(calm)[-len(resumed.lines) :] == losses(resumed) if resumed.lines else False
    return {
        "good": all(given_up.statuses) and took is not None and took <= TIMEOUT_S + GRACE_S and bool(said) and same,
        "statuses": given_up.statuses,
        "seconds_to_end": took,
        "messages": said,
        "resumed_statuses": resumed.statuses,
        "resumed_after": resumed.result["resumed_after"] if resumed.result else None,
        "same_losses": same,
        "test_accuracy": resumed.result["test_accuracy"] if resumed.result else None,
    }


def main() -> int:
    """Returns 1 if a case did not come out as it should, 2 where namespaces cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for the store and the cache; used again")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--patience", type=float, default=400.0, help="seconds for one run")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    needs.require()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    cache = cache_of(store_of("cora", arguments.folder), LINKS, PartitionRequest(), "ours", arguments.folder)
    with laboratory(LINKS.topology) as lab:
        calm = train(lab, cache, OPTIONS, patience_s=arguments.patience)
    rows: dict[str, dict[str, Any]] = {"calm": as_calm(calm, calm)}
    print(f"calm     {json.dumps(rows['calm'])}", flush=True)
    for case in arguments.cases:
        rows[case] = survived(case, cache, calm, arguments.patience)
        mine = f"-{os.getpid()}-"
        left = [name for name in existing() if mine in name]
        rows[case] |= {"left_behind": left, "good": rows[case]["good"] and not left}
        print(f"{case:8} {json.dumps(rows[case])}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(not all(row["good"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
