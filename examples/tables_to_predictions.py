"""From two tables as they come out of a bank's database to a prediction for each account, by its own id.

Accounts have words for ids and for the label, which some of them lack; the split is a column whose words are the bank's
own; the transfers between accounts have an amount, a channel and a date. Three commands import, partition and train; a
fourth writes the table of predictions.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SCHEMA = """
nodes:
  account:
    file: accounts.csv
    id_column: account
    label: kind
    split_column: use
    split_values: {train: fit, val: tune, test: hold-out}
    features:
      - {column: income, fill: mean, normalise: standard}
      - city
      - {column: about, as: hash, width: 16}
edges:
  - source: account
    relation: pays
    destination: account
    file: transfers.csv
    source_column: payer
    target_column: payee
    time_column: date
    features:
      - {column: amount, normalise: standard}
      - channel
"""
KINDS = ("business", "private", "charity")
CHANNELS = ("invoice", "card", "gift")


def run(folder: Path, *words: str) -> None:
    """Run a graphprep command in a folder, as `graphprep WORDS` would."""
    print("$ graphprep", *words, flush=True)
    root = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "graphprep", *words]
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": root})


def write_tables(folder: Path, accounts: int = 300) -> None:
    """Accounts of three kinds, and transfers, most of which arrive by the channel of the payee's kind."""
    random = np.random.default_rng(0)
    kind = random.integers(0, 3, accounts)
    ids = [f"DE-{number:06d}" for number in random.choice(10**6, accounts, replace=False)]
    use = random.choice(["fit", "tune", "hold-out", ""], accounts, p=[0.4, 0.2, 0.3, 0.1])
    with (folder / "accounts.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["account", "kind", "use", "income", "city", "about"])
        for row in range(accounts):
            table.writerow(
                [
                    ids[row],
                    KINDS[kind[row]] if use[row] else "",
                    use[row],
                    "" if random.random() < 0.1 else int(random.gamma(3, 10_000)),
                    random.choice(["Bern", "Oslo", "Rome"]),
                    " ".join(random.choice(["loan", "savings, shared", "card", "old"], 2)),
                ]
            )
    with (folder / "transfers.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["payer", "payee", "amount", "channel", "date"])
        for payer, payee in random.integers(0, accounts, (8 * accounts, 2)):
            channel = CHANNELS[kind[payee] if random.random() < 0.7 else random.integers(3)]
            day = np.datetime64("2024-01-01") + int(random.integers(366))
            table.writerow([ids[payer], ids[payee], round(random.gamma(2, 40), 2), channel, day])


def main() -> None:
    """Write the tables, run the commands, and show the first predictions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        (folder / "bank.yaml").write_text(SCHEMA)
        run(folder, "import", "--schema", "bank.yaml", "--name", "bank", "--replace")
        run(folder, "partition", "bank", "--parts", "2", "--replace")
        options = ("--model", "gatv2", "--edge-features", "features", "--epochs", "100", "--seed", "1")
        run(folder, "train", "bank/flat-2", *options, "--save-predictions", "scores.npy")
        run(folder, "evaluate", "bank/flat-2", "scores.npy", "--table", "predictions.csv")
        print(*(folder / "predictions.csv").read_text(encoding="utf-8").splitlines()[:4], sep="\n")


if __name__ == "__main__":
    main()
