"""What `nvidia-smi --query-gpu=name,pci.bus_id,memory.total --format=csv,noheader` prints: one line a GPU.

    NVIDIA A100-SXM4-40GB, 00000000:07:00.0, 40960 MiB

The tool lists GPUs in the order in which `topo -m` numbers them. Fields that a driver does not tell are in brackets
([N/A], [Not Supported]). The lines may stand anywhere in a text, so that one saved file can hold both outputs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"\s*(?P<name>[^,]+?)\s*,\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*,"
    r"\s*(?P<memory>.+?)\s*"
)
_MEMORY = re.compile(r"(\d+)\s*MiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU."""

    name: str
    bus: tuple[int, int, int, int]
    """PCI domain, bus, device and function: GPUs are ordered by it."""
    memory_gb: float | None
    """In units of 1e9 bytes; None if the driver does not tell."""


def parse(text: str) -> tuple[Gpu, ...]:
    """The GPUs that `text` lists, in its order; none if no line is one of the query's."""
    return tuple(_gpu(match) for match in map(_LINE.fullmatch, text.splitlines()) if match)


def _gpu(match: re.Match[str]) -> Gpu:
    domain, bus, device, function = (int(part, 16) for part in re.split(r"[:.]", match["bus"]))
    memory = _MEMORY.fullmatch(match["memory"])
    return Gpu(
        name=match["name"],
        bus=(domain, bus, device, function),
        memory_gb=round(int(memory[1]) * 2**20 / 1e9, 1) if memory and int(memory[1]) else None,
    )
