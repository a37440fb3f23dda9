"""`python -m graphprep.sampling REQUEST`: make the batches of one part for a trainer, in one process or several.

The trainer starts it with a JSON object as its argument, and with open files: the seeds, and for each process a ring
and two pipes (`graphprep.sampling.ring`):

    {"cache": FOLDER, "part": 0, "seeds": DESCRIPTOR, "rows_of_seeds": 2, "removed": DESCRIPTOR or null,
     "batch": {"batch_size": 1024, "fanouts": [15, 10], ...}, "epochs": [FIRST, LAST], "num_slots": 4,
     "timeout": 600, "quiet": false,
     "owners": {"listener": DESCRIPTOR, "key": DESCRIPTOR, "addresses": [["127.0.0.1", 4000], ...]} or null,
     "processes": [{"ring": ..., "filled": ..., "freed": ...}, ...]}

`seeds` has int64 numbers of nodes, or with `negatives` in `batch` the first nodes of pairs and then the second ones, as
`removed` has, and perhaps in a third row which of the edges between these nodes each pair is. The topology is in a file
that all processes of the machine map, or read once; further processes of the part are forks that share it. With
`owners` a part has the in-edges of its own nodes, and one more fork, which answers the samplers of other parts; `key`
has what all of them prove to have.
Process k of K makes batches k, k + K ... of the run, counted over all epochs. Each ends, saying nothing, when the
trainer has closed its pipes. What a trainer's user can mend is one sentence in the pipe.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphprep.system import progress
from graphprep.system.child_process import end_with_parent

if TYPE_CHECKING:
    from graphprep.sampling.owners.source import OwnerNetwork, Serve
    from graphprep.sampling.ring import RingWriter


def main(arguments: Sequence[str]) -> int:
    """Serve one request; returns the exit status."""
    end_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):  # the trainer, which gets them too, may finish an epoch first
        signal.signal(number, signal.SIG_IGN)
    request = json.loads(arguments[0])
    progress.configure(quiet=request["quiet"])
    try:
        import numpy as np

        from graphprep.cache.read import PartitionCache
        from graphprep.errors import GraphprepError
        from graphprep.sampling.batch_options import BatchOptions
        from graphprep.sampling.batches import part_batches
        from graphprep.sampling.neighbour_source import NeighbourSource, WholeGraph, mapped_graph
        from graphprep.sampling.owners.source import OwnedEdges
        from graphprep.sampling.ring import RingWriter, TrainerGoneError
    except ImportError as error:
        message = {"error": f"the sampler needs all of graphprep, and {error}; install graphprep beside the trainer"}
        os.write(request["processes"][0]["filled"], json.dumps(message).encode() + b"\n")
        return 1

    rings = [RingWriter(num_slots=request["num_slots"], **of_process) for of_process in request["processes"]]
    try:
        options = BatchOptions(**request["batch"])
        with open(request["seeds"], "rb") as file:
            seeds = np.frombuffer(file.read(), np.int64)
        seeds = seeds if options.negatives is None else seeds.reshape(request["rows_of_seeds"], -1)
        removed = None
        if request["removed"] is not None:
            with open(request["removed"], "rb") as file:
                removed = np.frombuffer(file.read(), np.int64).reshape(2, -1)
        first, last = request["epochs"]

        def neighbours(cache: PartitionCache) -> NeighbourSource:
            if request["owners"] is not None:
                network = _network(request["owners"], request["timeout"])
                weighted = options.sums is not None
                with network.listener:  # the fork has it
                    return OwnedEdges(
                        cache, request["part"], network, partial(_serve_beside, rings), removed, weighted=weighted
                    )
            graph = mapped_graph(cache, timeout=request["timeout"], times_of=options.times_of)
            return WholeGraph(graph, removed, numbered=options.edge_features is not None)

        batches = part_batches(
            Path(request["cache"]), request["part"], seeds, options, (first, last), removed, neighbours
        )
    except GraphprepError as error:
        rings[0].fail(str(error))
        return error.exit_status

    def run(number: int) -> int:
        ring = rings[number]
        for other in rings[:number] + rings[number + 1 :]:
            other.close()
        try:
            facts = {"steps": batches.steps, "num_kept": batches.num_kept, "miss_share": batches.miss_share}
            ring.open(batches.most_bytes(), facts)
            steps = itertools.product(range(first, last + 1), range(batches.steps))
            for epoch, step in itertools.islice(steps, number, None, len(rings)):
                started, bytes_before = time.perf_counter(), batches.num_bytes
                arrays = batches.make(epoch, step)
                times = {"started": started, "ended": time.perf_counter()}
                num_bytes = batches.num_bytes - bytes_before
                ring.put(arrays, {"epoch": epoch, "step": step, **times, "num_bytes": num_bytes})
            ring.wait_for_end()
        except GraphprepError as error:
            ring.fail(str(error))
            return error.exit_status
        except TrainerGoneError:
            pass
        return 0

    return _in_processes(run, len(rings))


def _in_processes(run: Callable[[int], int], number: int) -> int:
    """Do `run` for 0 .. number - 1, each in a process: 0 in this one, which gives the status, the others in forks."""
    parent = os.getpid()
    for child in range(1, number):
        if os.fork() == 0:
            status = 1
            try:
                _end_with(parent)
                status = run(child)
            except BaseException:  # noqa: BLE001 - the exit below would hide it
                traceback.print_exc()
            finally:
                os._exit(status)
    return run(0)


def _network(owners: Mapping[str, Any], timeout: float) -> OwnerNetwork:
    from graphprep.sampling.owners.source import OwnerNetwork

    with open(owners["key"], "rb") as file:
        key = file.read()
    addresses = [(host, port) for host, port in owners["addresses"]]
    listener = socket.socket(fileno=owners["listener"])
    return OwnerNetwork(listener=listener, addresses=addresses, key=key, timeout=timeout)


def _serve_beside(rings: Sequence[RingWriter], serve: Serve) -> None:
    """Serve other samplers in a fork of this process, which has none of its pipes and ends with it."""
    parent = os.getpid()
    if os.fork() == 0:
        try:
            _end_with(parent)
            for ring in rings:
                ring.close()
            serve(lambda: os.getppid() == parent)
        except BaseException:  # noqa: BLE001 - the exit below would hide it
            traceback.print_exc()
        finally:
            os._exit(1)


def _end_with(parent: int) -> None:
    """End this fork when the process is gone that it is a fork of."""
    end_with_parent(started_otherwise=True)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before this process could ask


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
