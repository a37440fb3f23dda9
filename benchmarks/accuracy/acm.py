"""Test accuracy of R-GCN, R-GAT and HGT on ACM (papers, authors, subjects; three classes of papers, 20 labelled each).

Mean over seeds on 1 and on 4 parts, R-GCN with a weight a relation and with 2 bases. Prints a table, writes JSON with
--out.

    python -m benchmarks.accuracy.acm FOLDER        with pa.txt, ps.txt, p_feat.npz, a_feat.npz, labels.npy, *_20.npy
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.command import graphprep
from benchmarks.rank_group import train_all

SCHEMA = """\
nodes:
  paper: {{features: {0}/p_feat.npz, labels: {0}/labels.npy, train: {0}/train_20.npy, val: {0}/val_20.npy,
          test: {0}/test_20.npy}}
  author: {{features: {0}/a_feat.npz}}
  subject: {{}}
edges:
  - {{source: paper, relation: by, destination: author, files: [{0}/pa.txt], reverse: writes}}
  - {{source: paper, relation: about, destination: subject, files: [{0}/ps.txt], reverse: of}}
"""
COMMON: dict[str, Any] = {"model": "rgcn", "epochs": 100, "patience": 30, "eval_every": 2}
MODELS: dict[str, dict[str, Any]] = {
    "a weight a relation": {},
    "2 bases": {"bases": 2},
    "R-GAT": {"model": "rgat", "heads": 4, "hidden": 16},
    "HGT": {"model": "hgt", "heads": 4, "hidden": 16, "lr": 0.005},
}


def main() -> None:
    """Import, partition, train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="ACM's files")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--epochs", type=int, default=COMMON["epochs"])
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        home, schema = Path(folder), Path(folder, "acm.yaml")
        schema.write_text(SCHEMA.format(arguments.folder.absolute()))
        graphprep("import", "--schema", str(schema), "--name", "acm", "-q", home=home)
        for parts in arguments.parts:
            cache = json.loads(graphprep("partition", "acm", "--parts", str(parts), "-q", "--json", home=home))["cache"]
            runs = [
                {**COMMON, "epochs": arguments.epochs, "seed": seed, **of}
                for of in MODELS.values()
                for seed in range(arguments.seeds)
            ]
            results = train_all(cache, parts, runs)
            for number, model in enumerate(MODELS):
                of_model = results[number * arguments.seeds : (number + 1) * arguments.seeds]
                accuracies = [100 * result["test_accuracy"] for result in of_model]
                row = {
                    "parts": parts,
                    "model": model,
                    "mean": statistics.mean(accuracies),
                    "deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0,
                    "accuracies": accuracies,
                    "parameters": of_model[0]["parameters"],
                    "median_row_bytes_sent": statistics.median(result["row_bytes_sent"] for result in of_model),
                    "seconds_an_epoch": statistics.median(r["seconds"] / r["epochs"] for r in of_model),
                }
                rows.append(row)
                print(
                    f"{parts} parts, {model}: {row['mean']:.2f} +- {row['deviation']:.2f} % over {len(accuracies)} "
                    f"seeds, {row['median_row_bytes_sent'] / 1e6:.1f} MB of rows sent, "
                    f"{row['seconds_an_epoch']:.2f} s an epoch",
                    flush=True,
                )
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
