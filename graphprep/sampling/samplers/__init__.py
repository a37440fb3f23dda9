"""Samplers: one module for each way to draw the nodes of a batch, and the numba loops of these."""
