"""Node memory against a loop over the events, and on several ranks."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from tests.trainer.rank_group import among_ranks
from tests.trainer.temporal.events.streams import random_stream
from trainer.dist.communicator import Communicator
from trainer.temporal.events.evaluation import batches_of
from trainer.temporal.events.memory import NodeMemory, NodeRows
from trainer.temporal.events.stream import EventStream

WIDTH = 3


def states(rows: NodeRows) -> Tensor:
    """A function of state, mail and times in place of the GRU."""
    passed_n1 = (rows.mail_time_n - rows.state_time_n).float().unsqueeze(1)
    taken_in = rows.state_nW / 2 + rows.mail_nX[:, :WIDTH] / 3 + rows.mail_nX[:, -WIDTH:] / 5 + passed_n1 / 50 + 1
    return torch.where(rows.has_mail_n.unsqueeze(1), taken_in, rows.state_nW)


def written(communicator: Communicator, *, stream: EventStream, sizes: int) -> NodeRows:
    """All rows after all events, in batches."""
    communicator.connect()
    ranks = range(communicator.world)
    memory = NodeMemory(stream, WIDTH, communicator, ranks, stream.owner_N(communicator.world))
    memory.write(states, 0, 1)
    memory.reset()
    for first, end in batches_of(0, stream.num_events, sizes):
        memory.write(states, first, end)
    memory.read(torch.zeros(0, dtype=torch.int64) if communicator.rank else torch.tensor([1, 4]))
    return memory.read(torch.arange(stream.num_nodes))


def walked(stream: EventStream, size: int) -> list[dict[str, object]]:
    """The same, one event after the other, with dictionaries."""
    start = float(stream.time_M[0])
    zero = [0.0] * WIDTH
    nodes = [{"state": zero, "state_time": start, "mail": None, "mail_time": start} for _ in range(stream.num_nodes)]
    for first, end in batches_of(0, stream.num_events, size):
        used = {}
        for node in {*stream.source_M[first:end].tolist(), *stream.destination_M[first:end].tolist()}:
            row = nodes[node]
            used[node] = row["state"]
            if row["mail"] is not None:
                used[node] = [
                    state / 2 + near / 3 + far / 5 + (row["mail_time"] - row["state_time"]) / 50 + 1
                    for state, near, far in zip(row["state"], row["mail"][:WIDTH], row["mail"][-WIDTH:], strict=True)
                ]
        for node, state in used.items():
            nodes[node] |= {"state": state, "state_time": nodes[node]["mail_time"]}
        for event in range(first, end):
            source, destination = int(stream.source_M[event]), int(stream.destination_M[event])
            features = [] if stream.x_MF is None else stream.x_MF[event].tolist()
            for node, other in ((source, destination), (destination, source)):
                nodes[node] |= {
                    "mail": [*used[node], *used[other], *features],
                    "mail_time": float(stream.time_M[event]),
                }
    return nodes


def test_memory_is_that_of_a_loop_over_events() -> None:
    """Guards against another event than a node's last one, states after this batch in its mail, and wrong times; on
    several ranks against rows of other nodes."""
    for num_features in (0, 2):
        stream = random_stream(num_features=num_features)
        for world in (1, 3):
            [rows] = among_ranks(world, [partial(written, stream=stream, sizes=16)])
            for node, expected in enumerate(walked(stream, 16)):
                mail = expected["mail"]
                assert bool(rows.has_mail_n[node]) == (mail is not None)
                torch.testing.assert_close(rows.state_nW[node], torch.tensor(expected["state"]))
                if mail is not None:
                    torch.testing.assert_close(rows.mail_nX[node], torch.tensor(mail))
                assert float(rows.state_time_n[node]) == expected["state_time"]
                assert float(rows.mail_time_n[node]) == expected["mail_time"]
