"""A graph in memory as objects of other libraries: SciPy, PyTorch Geometric, NetworkX."""
