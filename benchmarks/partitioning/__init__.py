"""Partitions: cut, seconds on the links, memory and time, beside METIS and others."""
