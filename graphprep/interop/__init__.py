"""Graphs as objects of other libraries, and back: arrays, SciPy, PyTorch Geometric, DGL, NetworkX; training runs."""
