"""Graphs of any size from a seed: block models, R-MAT, grids."""
