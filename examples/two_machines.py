"""Partition a graph for two machines of two GPUs, and see which link is the bottleneck."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import graphprep

TOPOLOGY = """
name: two-machines
machines:
  - {count: 2, gpus: 2, nvlink: {gbytes_per_s: 25, pairs: [[0, 1]]}, pcie: {gbytes_per_s: 12},
     network: {gbytes_per_s: 1.25, latency_us: 20}}
"""
"""Two GPUs in each machine, joined by NVLink; 10 Gbit/s between the machines."""


def run(*words: str) -> None:
    """Run a graphprep command, as `graphprep WORDS` would."""
    print("$ graphprep", *words, flush=True)
    subprocess.run([sys.executable, "-m", "graphprep", *words], check=True)


def main() -> None:
    """Fetch a small graph, partition it for the topology, and read the cache's figures."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "two-machines.yaml"
        file.write_text(TOPOLOGY)
        run("fetch", "digits")
        run("topology", "show", str(file), "--table")
        run("partition", "digits", "--topology", str(file))

    quality = graphprep.open_cache("digits/two-machines").quality
    links = sorted(quality["links"], key=lambda link: -link["seconds"])
    print(f"\n{quality['cut_edges']} edges join nodes of two ranks; the slowest link directions are:")
    for link in links[:4]:
        print(f"  {link['type']:8} {link['name']:24} {link['rows']:5} rows  {1e6 * link['seconds']:7.1f} us")


if __name__ == "__main__":
    main()
