"""What the memory of a rank holds in training on a stream, and how the ranks are divided by it.

The events and their time index are mapped files, which the ranks of a machine share and the system frees when it needs
their pages; what a rank holds beside them is its own.

Letters: N nodes, W width of a state, F features of an event, q queries of a batch, K neighbours of each.
"""

from __future__ import annotations

import torch

from trainer.base.errors import TrainingError
from trainer.config.options import Options
from trainer.config.parallel import parse_parallel
from trainer.temporal.events.memory import row_bytes
from trainer.temporal.events.parallelism import Parallelism, Resources, choose_parallelism, lost_mail
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tgn import Tgn

_COPIES_OF_WEIGHTS = 9
"""Weights, their decay, two vectors of the optimiser, gradients three times, and the best weights with a copy."""
_NUMBERS_A_NODE = 5
"""int64: owner, place, order of the nodes by owner, and two while these are made."""
_FLOAT, _INT = 4, 8


def parallelism_of(options: Options, stream: EventStream, *, ranks: int, available_bytes: int) -> Parallelism:
    """The division of the ranks that was requested, or the one that suits the stream and the memory.

    Args:
        options: of the run.
        stream: the events.
        ranks: of the run.
        available_bytes: of all machines.

    Raises:
        TrainingError: the requested numbers do not give the number of ranks.
    """
    return choose_parallelism(parse_parallel(options.parallel), _resources(options, stream, ranks, available_bytes))


def check_memory(
    options: Options, stream: EventStream, parallelism: Parallelism, *, ranks: int, available_bytes: int
) -> None:
    """Refuse a division whose node memory does not fit.

    Raises:
        TrainingError: it does not, and --anyway is not given.
    """
    resources = _resources(options, stream, ranks, available_bytes)
    copies = parallelism.copies
    needed = copies * resources.memory_bytes * (2 if copies > 1 else 1)
    if needed > resources.available_bytes and not options.anyway:
        raise TrainingError(
            f"the node memory takes {needed / 1e9:.2f} GB beside the weights and {resources.available_bytes / 1e9:.2f} "
            "GB are available to it; use a smaller --hidden, fewer copies in --parallel, more machines, or --anyway"
        )


def num_parameters(options: Options, stream: EventStream, num_classes: int) -> int:
    """The weights of the model, without making them."""
    with torch.device("meta"):
        model = Tgn(
            stream,
            width=options.hidden,
            heads=options.heads,
            num_classes=num_classes,
            node_vectors=options.node_vectors,
        )
    return sum(parameter.numel() for parameter in model.parameters())


def memory_by_purpose(
    options: Options, stream: EventStream, parallelism: Parallelism, *, owned_nodes: int, parameters: int
) -> dict[str, int]:
    """Bytes of a rank by purpose.

    Args:
        options: of the run.
        stream: the events.
        parallelism: how the ranks are divided.
        owned_nodes: nodes whose memory the rank has.
        parameters: weights of the model.
    """
    width, features = options.hidden, stream.num_features
    # Validation keeps the rows of the training beside its own, where copies begin within the stream.
    times = 2 if parallelism.copies > 1 else 1
    mail = (2 * width + features) * _FLOAT
    state = row_bytes(width, features) - mail
    mapped = [stream.source_M, stream.destination_M, stream.time_M, stream.offset_N1, stream.event_2M]
    mapped += [stream.neighbour_2M, *(one for one in (stream.x_MF, stream.y_M, stream.x_NF) if one is not None)]
    if stream.changing is not None:
        mapped += [stream.changing.offsets, stream.changing.time, stream.changing.x]
    return {
        "states of nodes": times * owned_nodes * state,
        "mail": times * owned_nodes * mail,
        "numbers of nodes": stream.num_nodes * _NUMBERS_A_NODE * _INT,
        "batch": _batch_bytes(options, stream, parallelism),
        "weights": parameters * _FLOAT,
        "optimiser and gradients": (_COPIES_OF_WEIGHTS - 1) * parameters * _FLOAT,
        "events, mapped": sum(one.numel() * one.element_size() for one in mapped),
    }


def _batch_bytes(options: Options, stream: EventStream, parallelism: Parallelism) -> int:
    """Of the largest of training and scoring: the rows that were read, and what the gradients of a batch need."""
    width, features, number = options.hidden, stream.num_features, options.neighbours
    share = -(-parallelism.batch_size // parallelism.shares)
    queries = share * (2 + options.negatives)
    nodes = min(queries * (1 + number), stream.num_nodes)
    rows = min(nodes * parallelism.epochs, stream.num_nodes) * row_bytes(width, features)
    # Of a neighbour: its encoded time before and after the cosine, keys, values, their products, features; indices.
    of_neighbours = queries * number * ((6 * width + features) * _FLOAT + 4 * _INT * parallelism.epochs)
    of_nodes = nodes * (12 * width + features) * _FLOAT
    return rows + of_neighbours + of_nodes + queries * 8 * width * _FLOAT


def _resources(options: Options, stream: EventStream, ranks: int, available_bytes: int) -> Resources:
    vectors = options.node_vectors and not stream.num_node_features
    weights = _COPIES_OF_WEIGHTS * _FLOAT * (stream.num_nodes if vectors else 0) * options.hidden
    return Resources(
        ranks=ranks,
        epochs=options.epochs,
        batch_size=options.batch_size,
        lost_mail=lambda size: lost_mail(stream, size),
        tolerance=options.lost_mail,
        memory_bytes=stream.num_nodes * row_bytes(options.hidden, stream.num_features),
        available_bytes=max(available_bytes - weights * ranks, 0),
    )
