"""Nodes of the ranks that share a group of snapshots: halo rows by METIS, by the stream partitioner, and at random.

    python -m benchmarks.temporal.snapshot_members --edges CollegeMsg.txt --out docs/figures/snapshot_members.json

Halo rows are rows of other ranks that all ranks need for one product in all snapshots; rows are those of a rank in all
snapshots, the most over the mean.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from graphprep.cache.array_writer import FolderWriter
from graphprep.temporal.events import EventArrays
from graphprep.temporal.format import TIME
from graphprep.temporal.snapshot_members import assessed_members, rows_of_nodes
from graphprep.temporal.stream_partition import assign_nodes, random_ranks
from graphprep.temporal.time_index import write_time_index
from graphprep.temporal.windows import snapshot_offsets
from pipelines.events.snapshot_members import members_by_metis

ENTRY_BYTES = 1 << 28
MEMORY = 4_000_000_000


def main() -> None:
    """Compare the methods on each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=Path, required=True, help="source, destination and time in columns")
    parser.add_argument("--window", type=float, default=86_400.0, help="of a snapshot, in the unit of the times")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], help="that share a group")
    parser.add_argument("--out", type=Path, help="file of JSON")
    arguments = parser.parse_args()
    table = np.loadtxt(arguments.edges, dtype=np.int64)
    _, ids = np.unique(table[:, :2], return_inverse=True)
    source, destination = ids.reshape(-1, 2).T
    events = EventArrays.of(source, destination, table[:, 2])
    offsets_T = snapshot_offsets(events.arrays[TIME], arguments.window)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        index = write_time_index(FolderWriter(Path(folder)), events, entry_bytes=ENTRY_BYTES)
        rows_N = rows_of_nodes(index, offsets_T, entry_bytes=ENTRY_BYTES)
        for number in arguments.ranks:
            of_methods = {
                "random": random_ranks(events, number, seed=0).rank_of_N,
                "stream": assign_nodes(events, index, number).rank_of_N,
                "metis": members_by_metis(events, offsets_T, rows_N, number, 0, Path(folder), MEMORY),
            }
            for method, member_of_N in of_methods.items():
                assert member_of_N is not None
                members = assessed_members(events, offsets_T, rows_N, member_of_N, number, method)
                rows.append({"ranks": number, **members.figures()})
                print(
                    f"{number:2} {method:8} {members.halo_rows:9,} halo rows, rows {members.imbalance:.3f} of the mean"
                )
    if arguments.out is not None:
        content = {"stream": arguments.edges.stem, "window": arguments.window, "rows": rows}
        arguments.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
