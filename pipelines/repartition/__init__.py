"""Caches of the same graph in other parts, made from a cache, without partitioning the graph anew."""
