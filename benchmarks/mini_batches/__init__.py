"""Sampling of neighbours, and training on it."""
