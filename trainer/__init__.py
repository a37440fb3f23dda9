"""Full-graph GNN training from a partition cache: one rank a part, torch and the standard library only.

A run goes through the rooms in this order. A room imports only from those below it in the list of pyproject.toml.

    __main__     one rank: options, cache and checks, before torch is imported; then run
    launch       starts all ranks on this machine
    run          one run: everything below joined
    distributed_graph   the part of a rank for a training loop of one's own, with PyTorch Geometric's layers
    config/      options, each described once; the command line, TOML files and tables made of them; which exclude each
                 other; the formulas of staleness policies and learning rates                         (without torch)
    data/        the cache's manifest and root attributes (without torch); one part as tensors that map its files;
                 labels, and what is learnt from them
    dist/        rank and world size, devices, rendezvous, the process group and its collectives
    startup/     preflight checks (without torch), the handshake of the ranks, the memory estimate, folder locks
    sparse/      sparse and dense products of one rank with their gradients; dropout, attention scores
    exchange/    which rows are sent to which peer, when, in which type, and the gradients back
    layers/      sums, maxima and attention over in-neighbours on all ranks; norms; inputs; what a model sees
    models/      the models, one file a family, and the user's own
    training/    epochs, losses, metrics, checkpoints, early termination
    reporting/   lines for people and programs, TensorBoard, traces, output files
    base/        errors, optimisers, random numbers by node, whole files, child processes, counts of bytes and seconds

Letters: N nodes, n rows of this rank's part, E directed edges, P parts (= ranks), F features, C classes, H halo rows,
R rows sent to peers (a row that two peers need counts twice), L layers, S splits.
"""
