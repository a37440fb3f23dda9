"""What nvidia-smi printed on machines of several kinds, kept as files with their tabs and escape codes."""

from __future__ import annotations

from pathlib import Path

from graphprep.topology import Topology
from graphprep.topology.detect import detected, read_saved

SAVED = Path(__file__).parent / "saved"
NAMES = tuple(sorted(path.stem for path in SAVED.glob("*.txt")))


def text_of(name: str) -> str:
    """A saved output."""
    return (SAVED / f"{name}.txt").read_text(encoding="utf-8")


def topology_of(name: str) -> Topology:
    """What is detected from a saved output."""
    return detected(read_saved(SAVED / f"{name}.txt"), name=name).topology


def links_of(topology: Topology, type: str) -> dict[tuple[str, str], float]:
    """Ends and bandwidth of all links of a type."""
    return {link.ends: link.gbytes_per_s for link in topology.links if link.type == type}
