"""Readers of files of events: edges with times, and the layouts of JODIE, TGN and the Temporal Graph Benchmark."""
