"""Messages with times: an event store, its windows and splits, and what two ranks train on."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import graphprep as gp

PEOPLE, MESSAGES, DAYS = 120, 6000, 30


def write_messages(path: Path) -> None:
    """Messages of people, most of them to two friends, more of them by day than by night, as a CSV file in no order."""
    rng = np.random.default_rng(0)
    day = rng.integers(0, DAYS, MESSAGES)
    second = 43_200 + 10_000 * rng.standard_normal(MESSAGES)
    time = (1_700_000_000 + 86_400 * day + second).astype(np.int64)
    sender = rng.integers(0, PEOPLE, MESSAGES)
    friend = (sender + 6 * rng.integers(1, 3, MESSAGES)) % PEOPLE
    receiver = np.where(rng.random(MESSAGES) < 0.9, friend, rng.integers(0, PEOPLE, MESSAGES))
    rows = [f"person-{one},person-{other},{when}" for one, other, when in zip(sender, receiver, time, strict=True)]
    path.write_text("\n".join(["sender,receiver,time", *rows]))


def main() -> None:
    """Import the messages, look at windows of them, and train."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "messages.csv"
        write_messages(file)
        columns = {"ids": "words", "source": "sender", "target": "receiver", "time": "time"}
        store = gp.import_events(file, name="messages", **columns)  # type: ignore[arg-type]
    days = store.snapshots("1d")
    train, val, test = store.split()
    print(f"{len(store)} messages in {len(days)} days; the busiest day has {max(map(len, days))}")
    print(f"{len(train)} to train, {len(val)} to validate, {len(test)} to test; the last to train at {train.time[-1]}")
    snapshots = gp.partition_events(store, parts=2, purpose="snapshots", window="1d")
    groups = snapshots.quality["snapshots"]
    print(f"snapshots of each rank: {groups['count']}, the largest group costs {groups['imbalance']:.2f} of the mean")
    stream = gp.partition_events(store, parts=2)
    print(f"{stream.quality['ranks']['crossing_share']:.0%} of the messages go from one rank's people to the other's")
    # EdgeBank learns nothing: it predicts pairs that have had an event. `--model tgn` has to do better than that.
    command = ["train", str(stream.folder), "--model", "edgebank"]
    subprocess.run([sys.executable, "-m", "graphprep", *command], check=True)


if __name__ == "__main__":
    main()
