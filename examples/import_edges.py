"""Import your own edges and nodes, and look at the store from Python.

The edges are a CSV of people who know each other, the nodes a CSV with two features, a label and a split.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import graphprep


def run(*words: str) -> None:
    """Run a graphprep command, as `graphprep WORDS` would."""
    print("$ graphprep", *words, flush=True)
    subprocess.run([sys.executable, "-m", "graphprep", *words], check=True)


def write_files(folder: Path) -> None:
    """Sixty people in two clubs, who mostly know people of their own club."""
    random = np.random.default_rng(0)
    people = [f"person-{number:02d}" for number in range(60)]
    club = np.arange(60) % 2
    part = random.permutation(["train"] * 20 + ["val"] * 10 + ["test"] * 30)
    nodes = ["name,age,visits,club,part"]
    for row, name in enumerate(people):
        nodes.append(f"{name},{random.integers(18, 70)},{random.integers(0, 9)},{club[row]},{part[row]}")
    edges = ["source,target"]
    for one, other in random.integers(0, 60, (400, 2)):
        if one != other and (club[one] == club[other] or random.random() < 0.2):
            edges.append(f"{people[one]},{people[other]}")
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")


def main() -> None:
    """Write the files, import them, and open the store."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        nodes = str(folder / "nodes.csv")
        run(
            *("import", str(folder / "edges.csv"), "--name", "people", "--ids", "words", "--undirected"),
            *("--duplicates", "drop", "--features", nodes, "--id-column", "name", "--label", "club"),
            *("--split-column", "part", "--replace"),
        )
    run("inspect", "people")

    store = graphprep.open_store("people")
    ids = store.original_ids("node")
    assert ids is not None
    row = ids.row_of("person-07")
    assert row is not None
    graph = store.to_scipy()
    known = [str(ids[int(neighbour)]) for neighbour in graph[[row]].indices]
    print(f"\nperson-07 is row {row} and knows {', '.join(known)}")
    print(store.to_pyg())


if __name__ == "__main__":
    main()
