"""What ranks exchange for layer 1 of mini-batches, by rows of features and by columns of them (`--features-by`).

By rows, features of other ranks' nodes travel, and nothing of layer 1 after that. By columns each rank keeps F / P
features of all nodes: then each rank's nodes and edges of layer 1 go to all others ahead of the step, and in the step
itself, which waits for them, the rows that layer 1 computes, of its output's width, from every rank, and their
gradients back.

Letters: P parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.traffic import LinkModel
from graphprep.traffic.batch_figures import ID_BYTES

NODE_BYTES, ROW_BYTES, EDGE_BYTES = 4, 8, 8
"""of a message that says what layer 1 of a batch is: of each node, of each computed row and of each edge"""


def ways_to_features(
    model: LinkModel,
    *,
    requested_PP: NDArray[np.float64],
    computed_P: NDArray[np.float64],
    nodes_P: NDArray[np.float64],
    edges_P: NDArray[np.float64],
    row_bytes: int,
    hidden_bytes: int,
    num_nodes: int,
    fetch_seconds: float,
    stage_seconds: tuple[float, float],
) -> list[dict[str, Any]]:
    """A step by either way, as plain JSON values.

    Args:
        model: of the links.
        requested_PP: rows of part p that part q requests.
        computed_P: rows that layer 1 computes on each rank.
        nodes_P: that it reads.
        edges_P: that it sums over.
        row_bytes: of a node's features.
        hidden_bytes: of a row that layer 1 computes.
        num_nodes: of the graph.
        fetch_seconds: what fetching takes by rows.
        stage_seconds: of sampling, and of copying and training together.
    """
    others = 1 - np.eye(model.num_ranks)
    message_bytes_P = NODE_BYTES * nodes_P + ROW_BYTES * computed_P + EDGE_BYTES * edges_P
    layers_PP = message_bytes_P[:, None] * others
    hidden_PP = computed_P[None, :] * others
    layers, hidden, back = (
        float(model.seconds(units_PP, size).max(initial=0.0))
        for units_PP, size in ((layers_PP, 1), (hidden_PP, hidden_bytes), (hidden_PP.T, hidden_bytes))
    )
    sampled, trained = stage_seconds
    return [
        {
            "features_by": "rows",
            "bytes": float(requested_PP.sum()) * (row_bytes + ID_BYTES),
            "ahead_seconds": fetch_seconds,
            "waited_seconds": 0.0,
            "step_seconds": max(sampled, fetch_seconds, trained),
            "memory_bytes": 0,
        },
        {
            "features_by": "columns",
            "bytes": float(layers_PP.sum() + 2 * hidden_PP.sum() * hidden_bytes),
            "ahead_seconds": layers,
            "waited_seconds": hidden + back,
            "step_seconds": max(sampled, layers, trained + hidden + back),
            "memory_bytes": -(-num_nodes * row_bytes // model.num_ranks),
        },
    ]
