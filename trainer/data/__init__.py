"""A cache and one part of it, as tensors that map its files."""
