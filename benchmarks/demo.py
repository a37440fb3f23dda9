"""The demo behind `make demo`: every step is a command that a person could type, shown before it runs.

Handwritten digits, joined to the digits that look most like them, are partitioned for two machines of two GPUs each and
trained by four ranks on this machine's CPU.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

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
        status = subprocess.run(shlex.split(step), check=False).returncode
        if status:
            return status
    print(f"\n$ {TRAINING}", flush=True)
    training = subprocess.run(shlex.split(TRAINING), check=False, stdout=subprocess.PIPE, text=True)
    if training.returncode:
        return training.returncode
    result = json.loads(training.stdout.splitlines()[-1])
    sent, whole_block = result["bytes_sent"], result["bytes_whole_block_broadcast"]
    print(
        f"\ntest accuracy   {100 * result['test_accuracy']:.1f} % after {result['epochs']} epochs on 4 ranks"
        f"\ntraffic saved   {100 * (1 - sent / whole_block):.1f} %: {sent / 1e6:.1f} MB sent where broadcasting whole "
        f"blocks would have sent {whole_block / 1e6:.1f} MB"
        f"\nHTML reports    {DATA_REPORT}, {REPORT}"
        f"\nall steps took  {time.monotonic() - started:.0f} s"
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("demo: stopped by Ctrl-C; run `make demo` again and it goes on", file=sys.stderr)
        sys.exit(130)
