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
from trainer.temporal.events.queries import AT_A_TIME
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tgn import Tgn

_COPIES_OF_WEIGHTS = 9
"""Weights, their decay, two vectors of the optimiser, gradients three times, and the best weights with a copy."""
_NUMBERS_A_NODE = 5
"""int64: owner, place, order of the nodes by owner, and two while these are made."""
_TRAINED_WIDTHS, _SCORED_WIDTHS = 12, 10
"""Rows as wide as a state for each neighbour: of what gradients need, and of what scores need; both as measured."""
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
    # A validation needs each of several copies twice, and a checkpoint gathers them.
    times = 1 if copies == 1 else 2 if options.checkpoint is None else 3
    needed = copies * resources.memory_bytes * times
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
    """Of the larger of training and scoring: the rows that were read, and what is computed of neighbours and nodes."""
    ranks = parallelism.shares * parallelism.epochs * parallelism.copies
    negatives = 1 if options.task == "classes" else options.negatives
    trained = -(-parallelism.batch_size // parallelism.shares) * (2 + negatives)
    scored = -(-parallelism.batch_size // ranks) * (2 + options.eval_negatives)
    return max(
        _bytes_of_queries(options, stream, trained, at_a_time=trained, widths=_TRAINED_WIDTHS, kept=parallelism.epochs),
        _bytes_of_queries(options, stream, scored, at_a_time=AT_A_TIME, widths=_SCORED_WIDTHS, kept=1),
    )


def _bytes_of_queries(
    options: Options, stream: EventStream, queries: int, *, at_a_time: int, widths: int, kept: int
) -> int:
    """Bytes of queries.

    Args:
        options: of the run.
        stream: the events.
        queries: of a batch.
        at_a_time: whose neighbours are in memory.
        widths: rows as wide as a state that are in memory for each neighbour.
        kept: epochs whose queries are kept.
    """
    width, features, number = options.hidden, stream.num_features, options.neighbours
    nodes = min(queries * (1 + number), stream.num_nodes)
    rows = min(nodes * kept, stream.num_nodes) * row_bytes(width, features)
    of_neighbours = min(queries, at_a_time) * number * (widths * width + features) * _FLOAT
    of_nodes = nodes * (12 * width + features) * _FLOAT + queries * 8 * width * _FLOAT
    return rows + of_neighbours + of_nodes + kept * queries * number * 4 * _INT


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
