"""Does the loss depend on the number of ranks? The first 20 epochs, no dropout, float32, on 1 to 4 parts.

Three graphs: Cora; a directed graph with parts of unequal size (ranks of unequal speed); a graph in which one part has
no training node. Prints a table, writes JSON with --out. Cora needs --mirror (or the network).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import graphprep

EPOCHS = 20
TRAINING = f"--dropout 0 --epochs {EPOCHS} --patience 0 --seed 0 --device cpu -q --json".split()


def losses(name: str, topology: Path, model: str, folder: Path) -> list[float]:
    """The losses of the first epochs of dataset `name` on the ranks of `topology`."""
    cache = folder / f"{name}-{topology.stem}"
    if not cache.exists():
        graphprep("partition", name, "--topology", str(topology), "--out", str(cache), "-q")
    lines = [json.loads(line) for line in graphprep("train", str(cache), "--model", model, *TRAINING).splitlines()]
    return [line["loss"] for line in lines if "epoch" in line][:EPOCHS]


def write_topology(folder: Path, speeds: list[float]) -> Path:
    """Ranks of the given speeds on one switch."""
    path = folder / f"ranks-{len(speeds)}-{'even' if len(set(speeds)) == 1 else 'uneven'}.yaml"
    ranks = [f"  - {{name: r{rank}, machine: m0, speed: {speed}}}" for rank, speed in enumerate(speeds)]
    links = [
        f"  - {{ends: [r{rank}, switch], type: pcie, gbytes_per_s: 12, latency_us: 3}}" for rank in range(len(speeds))
    ]
    path.write_text("\n".join([f"name: {path.stem}", "ranks:", *ranks, "switches: [switch]", "links:", *links]) + "\n")
    return path


def write_graph(folder: Path, name: str, *, train: np.ndarray, seed: int) -> None:
    """Import a random directed graph of 600 nodes in four loose groups, training on the given nodes."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, 600, 5000)
    near = src // 150 * 150 + rng.integers(0, 150, 5000)
    dst = np.where(rng.random(5000) < 0.8, near, rng.integers(0, 600, 5000))
    np.savetxt(folder / f"{name}.txt", np.stack([src, dst], axis=1), fmt="%d")
    labels = rng.integers(0, 5, 600)
    np.save(folder / f"{name}-y.npy", labels)
    np.save(folder / f"{name}-x.npy", rng.standard_normal((600, 24)).astype(np.float32) + labels[:, None] / 5)
    others = np.setdiff1d(np.arange(600), train)
    splits = []
    for split, rows in (("train", train), ("val", others[::2]), ("test", others[1::2])):
        np.save(folder / f"{name}-{split}.npy", rows)
        splits += [f"--{split}", str(folder / f"{name}-{split}.npy")]
    files = ["--features", str(folder / f"{name}-x.npy"), "--labels", str(folder / f"{name}-y.npy"), *splits]
    graphprep("import", str(folder / f"{name}.txt"), "--name", name, *files, "--replace", "-q")


def main() -> int:
    """Returns 1 if some loss differs by more than 1e-4, relative."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take Cora from")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graphprep("fetch", "cora", "-q", *(["--mirror", arguments.mirror] if arguments.mirror else []))
        write_graph(folder, "directed-unequal", train=np.arange(0, 600, 3), seed=1)
        write_graph(folder, "one-group-trains", train=np.arange(0, 100), seed=2)
        speeds = {"directed-unequal": [4.0, 1.0, 2.0, 1.0]}
        for dataset in ("cora", "directed-unequal", "one-group-trains"):
            for model in ("gcn", "sage"):
                alone: list[float] = []
                for parts in (1, 2, 3, 4):
                    topology = write_topology(folder, speeds.get(dataset, [1.0] * 4)[:parts])
                    found = losses(dataset, topology, model, folder)
                    alone = alone or found
                    worst = max(abs(a - b) / abs(b) for a, b in zip(found, alone, strict=True))
                    cache = json.loads(graphprep("inspect", str(folder / f"{dataset}-{topology.stem}"), "--json", "-q"))
                    row: dict[str, Any] = {
                        "dataset": dataset,
                        "model": model,
                        "parts": parts,
                        "nodes": [rank["nodes"] for rank in cache["quality"]["ranks"]],
                        "training_nodes": [rank["training_nodes"] for rank in cache["quality"]["ranks"]],
                        "first_loss": found[0],
                        "last_loss": found[-1],
                        "largest_relative_difference": worst,
                    }
                    rows.append(row)
                    print(
                        f"{dataset:18} {model:5} {parts} parts  nodes {row['nodes']}  "
                        f"training {row['training_nodes']}  "
                        f"loss {found[0]:.6f} -> {found[-1]:.6f}  largest difference {worst:.1e}",
                        flush=True,
                    )
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(max(row["largest_relative_difference"] for row in rows) > 1e-4)


if __name__ == "__main__":
    sys.exit(main())
