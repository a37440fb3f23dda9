"""How large the slots of a ring have to be for the batches of a part."""

from __future__ import annotations

from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.graph import SamplingGraph


def most_bytes(options: BatchOptions, graph: SamplingGraph, *, width: int) -> int:
    """More bytes than any batch has.

    Args:
        options: of the batches.
        graph: whose nodes and edges they have.
        width: numbers that are features of an edge.
    """
    counts = graph.num_nodes
    pairs = 0 if options.negatives is None else options.batch_size * (1 + options.negatives)
    # With times each seed has a tree, and a tree at most the nodes and edges of the graph.
    seeds = 2 * pairs or options.batch_size
    trees = 1 if options.times_of is None else seeds
    nodes = dict.fromkeys(counts, 0) | {options.node_type: min(seeds, trees * counts[options.node_type])}
    total = 24 * pairs
    for fanout in options.fanouts:
        after = dict(nodes)
        for kind, matrix in graph.edges.items():
            drawn = num_edges = trees * int(matrix.indptr[-1])
            if fanout >= 0 and options.sampler == "neighbour":
                drawn = nodes[kind.destination] * fanout
                drawn = drawn if options.draw == "replacement" else min(drawn, num_edges)
            after[kind.source] += drawn
            of_edge = (24 if options.roots else 16) + 4 * width
            total += of_edge * drawn + (32 + 4 * width) * nodes[kind.destination]
        nodes = {name: min(after[name], trees * counts[name]) for name in counts}
    arrays_of_a_node = 128 if options.histories else 72
    return total + arrays_of_a_node * sum(nodes.values()) + (1 << 16)
