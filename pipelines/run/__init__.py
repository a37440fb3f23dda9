"""Whole runs from a file: datasets, topologies and options, and what is made of each combination of them."""
