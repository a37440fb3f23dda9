"""Neighbours drawn by the samplers of the parts that own them, where the whole topology does not fit into a machine.

Each part's sampler holds the in-edges of the part's nodes. In each hop it sends the nodes of other parts to their
samplers (`source.py`), which draw by the same hashes and answer with what they drew (`server.py`). `connection.py` is
how they talk: TCP, each end sure that the other one has the run's key. What is sent is not encrypted.
"""
