"""Partition one graph in three ways and compare what an exchange takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import graphprep

WAYS = {
    "random": ("--method", "random", "--effort", "none"),
    "metis": ("--method", "metis", "--effort", "none"),
    "graphprep": (),
}
"""Random parts; METIS's parts in METIS's own order; parts for the links, which is what graphprep does by itself."""


def run(*words: str) -> None:
    """Run a graphprep command, as `graphprep WORDS` would."""
    print("$ graphprep", *words, flush=True)
    subprocess.run([sys.executable, "-m", "graphprep", *words], check=True)


def main() -> None:
    """Make the three caches, let `graphprep compare` show them, and read them from Python."""
    run("fetch", "digits")
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: Path(folder) / name for name in WAYS}
        for name, options in WAYS.items():
            run("partition", "digits", "--topology", "2x2-10gbe", "--out", str(caches[name]), *options)
        run("compare", *map(str, caches.values()))
        print("\nmicroseconds of the bottleneck, edges between parts:")
        for name, cache in caches.items():
            quality = graphprep.open_cache(cache).quality
            print(f"  {name:10} {1e6 * quality['bottleneck_seconds']:8.1f} us {quality['cut_edges']:6} edges")


if __name__ == "__main__":
    main()
