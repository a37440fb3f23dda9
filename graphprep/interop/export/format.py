"""What every export format is: a name, how much disk it takes, and how a cache is written into a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from graphprep.cache.read import PartitionCache
from graphprep.core.bfloat16 import is_bfloat16
from graphprep.core.types import row_bytes

WEIGHT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSizes:
    """What a cache holds, counted over all parts and types; all that the disk an export takes depends on."""

    parts: int
    nodes: int
    halo: int
    """rows that some part receives"""
    edges: int
    node_bytes: int
    """of the store's own arrays: features, labels, masks"""
    halo_bytes: int
    """of those arrays if the halo had them too"""
    weight_bytes: int

    @classmethod
    def of(cls, cache: PartitionCache, *, bfloat16_bytes: int = 2) -> ExportSizes:
        """Count.

        Args:
            bfloat16_bytes: what a bfloat16 takes in the export.
        """
        halo = halo_bytes = node_bytes = 0
        for node_type, count in cache.node_types.items():
            arrays = [cache.node_array(0, node_type, name) for name in cache.node_arrays(0, node_type)]
            bytes_a_row = sum(
                row_bytes(array) * (bfloat16_bytes // 2 if is_bfloat16(array.dtype) else 1) for array in arrays
            )
            received = sum(
                len(cache.node_array(part, node_type, f"recv_{peer}"))
                for part in range(cache.num_parts)
                for peer in range(cache.num_parts)
                if peer != part
            )
            halo += received
            halo_bytes += received * bytes_a_row
            node_bytes += count * bytes_a_row
        counts = cache.attributes["edge_types"]
        weighted = [kind.key for kind in cache.edge_types if cache.block(0, kind, 0).data is not None]
        return cls(
            parts=cache.num_parts,
            nodes=sum(cache.node_types.values()),
            halo=halo,
            edges=sum(counts.values()),
            node_bytes=node_bytes,
            halo_bytes=halo_bytes,
            weight_bytes=WEIGHT_BYTES * sum(counts[key] for key in weighted),
        )


class ExportFormat(Protocol):
    """One format. A cache is written part by part, so that memory is that of one part."""

    @property
    def name(self) -> str:
        """What --format calls it."""

    @property
    def bfloat16_bytes(self) -> int:
        """What a bfloat16 takes in its files: 2, or 4 where they cannot hold it and it becomes float32."""

    def expected_bytes(self, sizes: ExportSizes) -> int:
        """Disk that the export takes, more or less."""

    def write(self, cache: PartitionCache, folder: Path, advance: Callable[[], None]) -> None:
        """Write all files into an empty folder that the caller publishes.

        Args:
            cache: whole, of any node and edge types.
            folder: where.
            advance: called after each part.
        """
