"""Sparse and dense products of one rank, with their gradients."""
