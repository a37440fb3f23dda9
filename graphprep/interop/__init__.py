"""A graph in memory in the words of other libraries: SciPy, PyTorch Geometric, NetworkX."""
