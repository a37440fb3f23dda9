"""Ranks of the nodes of streams: events that cross ranks, and load over time, beside random and static METIS parts.

    python -m benchmarks.temporal.stream_partition --edges CollegeMsg.txt --out docs/figures/stream_partition.json

METIS divides the graph of all events, with events between a pair as the weight of its edge and ends of events as the
weight of a node; it knows nothing of time. Load is ends of events of a rank over the mean, in each of 64 stretches of
as many events. A generated stream, whose groups are active one after the other, is the other case.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymetis
from numpy.typing import NDArray
from scipy.sparse import coo_array

from graphprep.cache.array_writer import FolderWriter
from graphprep.datasets.generators.event_stream import GeneratedEvents
from graphprep.datasets.generators.events import EventsRequest
from graphprep.temporal.events import EventArrays
from graphprep.temporal.format import DESTINATION, SOURCE
from graphprep.temporal.stream_partition import NodeRanks, assessed, assign_nodes, random_ranks
from graphprep.temporal.time_index import write_time_index

SHOWN = ("crossing_share", "imbalance", "imbalance_over_time", "imbalance_at_worst")


def static_metis(events: EventArrays, num_parts: int) -> NDArray[np.int16]:
    """METIS' parts of the graph of all events."""
    source, destination = events.arrays[SOURCE], events.arrays[DESTINATION]
    size = (events.num_nodes, events.num_nodes)
    graph = coo_array((np.ones(len(source)), (source, destination)), shape=size).tocsr()
    graph = (graph + graph.T).tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    ends = np.bincount(np.concatenate([source, destination]), minlength=events.num_nodes)
    _, part_N = pymetis.part_graph(
        num_parts, pymetis.CSRAdjacency(graph.indptr, graph.indices), eweights=graph.data.astype(int), vweights=ends
    )
    return np.array(part_N, np.int16)


def methods(events: EventArrays, folder: Path, num_parts: int) -> dict[str, Callable[[], NodeRanks]]:
    """What is compared; `first pass` is the stream partitioner without moves afterwards."""
    index = write_time_index(FolderWriter(folder), events, entry_bytes=1 << 28)
    return {
        "random": lambda: random_ranks(events, num_parts, seed=0),
        "static METIS": lambda: assessed(events, static_metis(events, num_parts), num_parts, "metis"),
        "first pass": lambda: assign_nodes(events, index, num_parts, passes=0),
        "stream": lambda: assign_nodes(events, index, num_parts),
    }


def compare(name: str, events: EventArrays, num_parts: int) -> list[dict[str, Any]]:
    """One row a method."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for method, assign in methods(events, Path(folder), num_parts).items():
            start = time.perf_counter()
            ranks = assign()
            quality = ranks.quality()
            row = {"stream": name, "parts": num_parts, "method": method, **{key: quality[key] for key in SHOWN}}
            rows.append(row | {"nodes": quality["nodes"], "seconds": round(time.perf_counter() - start, 2)})
            figures = ", ".join(f"{key.replace('_', ' ')} {row[key]:.3f}" for key in SHOWN)
            print(f"{name:10} {num_parts:2} {method:12} {figures}")
    return rows


def main() -> None:
    """Compare all methods on 2, 4 and 8 ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=Path, help="source, destination and time in columns")
    parser.add_argument("--nodes", type=int, default=20_000, help="of the generated stream")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--out", type=Path, help="file of JSON")
    arguments = parser.parse_args()
    streams: dict[str, EventArrays] = {}
    if arguments.edges is not None:
        table = np.loadtxt(arguments.edges, dtype=np.int64)
        _, ids = np.unique(table[:, :2], return_inverse=True)
        source, destination = ids.reshape(-1, 2).T
        streams[arguments.edges.stem] = EventArrays.of(source, destination, table[:, 2])
    request = EventsRequest(nodes=arguments.nodes, events=arguments.events)
    pieces = list(GeneratedEvents(request).rows())
    columns = [np.concatenate([rows[column] for rows in pieces]) for column in range(3)]
    streams["generated"] = EventArrays.of(*columns, num_nodes=request.nodes)
    rows = [
        row for name, events in streams.items() for parts in arguments.parts for row in compare(name, events, parts)
    ]
    if arguments.out is not None:
        arguments.out.write_text(json.dumps({"buckets": 64, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
