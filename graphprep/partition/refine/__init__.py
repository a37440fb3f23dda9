"""Refinement by the cost model: parts are mapped to ranks and nodes moved until the slowest link is quicker."""
