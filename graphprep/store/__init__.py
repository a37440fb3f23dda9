"""The graph store: one Zarr group a graph, written from edges that are sorted in memory or by way of the disk."""
