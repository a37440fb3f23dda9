"""Training on sampled neighbourhoods: batches of a sampler process, rows of their nodes, and the graph of a batch."""
