"""The models: plain torch Modules over a `Graph`, one file a family.

    gcn     A' H W + b, with GCN's A'
    sage    H W_self + A' H W_neighbours + b, with A' the mean; or the maximum over in-neighbours
    gat     attention with several heads, with GAT's scores or GATv2's
    gin     MLP((1 + epsilon) H + sum over in-neighbours)
    rgcn    H W_self + the sum over relations of A_r H W_r, with A_r the mean; for node types and relations, as are
    rgat    H W_self + the sum over relations of attention within a relation
    hgt     attention over all relations together, with weights by node type and relation
    stacked layers of one family, with what is between them: norm, activation, residuals, jumping connections
    own     a class from a file of the user's

A model says by `sums` what each in-edge counts in a neighbour sum: `gcn`, `mean` or `sum`, or None where it makes none.
Biases and activations change products in place: on 200,000 x 256 rows each copy less is 0.2 GB less to move.

Every rank has all weights, but for learnt rows of nodes, which their owner has. Weights are drawn on the CPU from the
run's seed, so that they do not depend on the number of ranks, nor on their devices.
"""

from trainer.models.network import Network, model_type, sums_of

__all__ = ["Network", "model_type", "sums_of"]
