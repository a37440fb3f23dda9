"""The demo behind `make demo`: every step is a command that a person could type, shown before it runs.

Handwritten digits, joined to the digits that look most like them, are partitioned for two machines of two GPUs each and
trained by four ranks on this machine's CPU.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOME = Path(os.environ.get("GRAPHPREP_HOME", ".demo"))
DATA_REPORT, REPORT = HOME / "digits.html", HOME / "digits-2x2.html"
STEPS = (
    "graphprep fetch digits",
    "graphprep partition digits --topology 2x2",
    "graphprep inspect digits/2x2",
    f"graphprep inspect digits --html {shlex.quote(str(DATA_REPORT))}",
    f"graphprep inspect digits/2x2 --html {shlex.quote(str(REPORT))}",
)
TRAINING = "graphprep train digits/2x2 --model gcn --seed 0 --patience 20 --quiet --json"


def main() -> int:
    """Run the steps; returns the exit status of the first that fails, else 0."""
    HOME.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    for step in STEPS:
        print(f"\n$ {step}", flush=True)
        status, _ = _run(step)
        if status:
            return status
    print(f"\n$ {TRAINING}", flush=True)
    status, printed = _run(TRAINING, stdout=subprocess.PIPE)
    if status:
        return status
    result = json.loads(printed.splitlines()[-1])
    rows, weights, other = (result[f"{kind}_bytes_sent"] / 1e6 for kind in ("row", "weight", "other"))
    blocks = result["bytes_whole_block_broadcast"] / 1e6
    all_sent, all_blocks = rows + weights + other, blocks + weights + other
    print(
        f"\ntest accuracy   {100 * result['test_accuracy']:.1f} % after {result['epochs']} epochs on 4 ranks"
        f"\ntraffic saved   {100 * (1 - all_sent / all_blocks):.1f} % of all bytes: {all_sent:.1f} MB sent where "
        f"broadcasting whole blocks would have sent {all_blocks:.1f} MB"
        f"\n  of rows       {100 * (1 - rows / blocks):.1f} %: {rows:.1f} of {blocks:.1f} MB; weights' gradients take "
        f"{weights:.1f} MB either way, all else {other:.1f} MB"
        f"\nHTML reports    {DATA_REPORT}, {REPORT}"
        f"\nall steps took  {time.monotonic() - started:.0f} s"
    )
    return 0


def _run(step: str, **settings: Any) -> tuple[int, str]:
    """Run a step to its end; its exit status and what it printed, if that was asked for.

    It has a session of its own, so that Ctrl-C comes here first: SIGTERM then ends it also while Python starts, where
    Ctrl-C would be a traceback.
    """
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))  # none is lost while it starts
    with subprocess.Popen(shlex.split(step), text=True, start_new_session=True, **settings) as running:
        try:
            signal.signal(signal.SIGINT, before)
            if interrupts:
                raise KeyboardInterrupt
            printed, _ = running.communicate()
        except BaseException:
            running.terminate()
            raise
    return running.returncode, printed or ""


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("demo: stopped; run `make demo` again and it goes on", file=sys.stderr)
        sys.exit(130)
