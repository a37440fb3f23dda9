"""Mini-batches: which nodes and edges a batch of seed nodes needs, and their rows.

`graph.py` has the topology of a store or cache in memory, `samplers/` draws the nodes of a batch: `neighbour.py` each
node's neighbours, `weighted.py`, `ladies.py` and `vertices.py` in other ways, by kernels of numba.
`neighbour_source.py` says where in-edges are found: in memory, mapped, or with the samplers of other parts (`owners/`).
`edge_weights.py` and `temporal_weights.py` say what drawn edges count, `edge_features.py` what they bring along.
`schedule.py` says which seeds make which batch, `rows.py` gathers the rows of nodes.
`graphprep.interop.batch_loader` makes PyTorch Geometric's objects of all that.
"""
