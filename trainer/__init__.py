"""Full-graph GNN training from a partition cache: one rank a part, torch and the standard library only.

The way through the package is the way of a run:

    options, objective   what was asked for; task and metric                              (no torch yet)
    command_line, config where that comes from                                           (no torch yet)
    seat                 which rank of how many this process is                           (no torch yet)
    manifest, cache      the cache's files, checked; its root attributes                  (no torch yet)
    combinations         options that do not go together                                  (no torch yet)
    preflight            what is refused before ranks wait for each other                 (no torch yet)
    part                 one part's arrays, mapped into memory
    ranks, meeting       how ranks talk, and find each other
    placement            where they run
    adjacency, normalise the part's blocks as sparse matrices with their weights and transposes
    edges                the same as patterns, walked through in blocks, for what is no sum
    lanes, courier       which rows go where; whether they go in this epoch, or a kept copy stands for them
    policies, wire       when rows are sent again; in what form
    sampling, draws      which rows are left out; numbers that belong to nodes
    exchange             rows to and from the peers, in rounds
    aggregate, maximum   sums and maxima over in-neighbours on all ranks, with gradients
    attention, scores    a softmax over in-edges on all ranks, with gradients
    passes, precision    what a pass is; the type of rows, and the scale of the loss
    inputs, graph        what a layer reads; what a model sees
    models/              the models, one file a family, and the user's own
    dense                their products with weights
    norms, dropout       what lies between the layers
    inductive            the part of the training nodes' own graph
    labels, losses       the labelled rows; what is made small
    metrics              how good scores are, over all ranks
    agreement, memory    what all ranks have to agree on before they train; whether they will fit
    optimiser, schedule  the steps and their size
    fit, run             the epochs; everything above joined
    checkpoint, stop     the state of training in files; leaving in good order
    whole_file           files that are whole or not there
    outputs, node_rows   what a run leaves: options, result, rows of all nodes
    accounting, links    bytes and seconds; which type of link is the slow one between two ranks
    report, curves       lines for people and for programs; TensorBoard
    trace                what a rank did when
    interfaces           whether the network interfaces that were named can be used
    reachability         whether machines reach each other at the addresses that will be used
    folder_lock          one run at a time in a folder
    child_process        processes that import from no current folder and end with their parent
    rank_processes       all ranks on this machine, on loopback alone
    launch, quiet        starts the ranks on this machine; keeps torch's asides from the user

Letters: N nodes, n rows of this rank's part, E directed edges, P parts (= ranks), F features, C classes, H halo rows,
R rows sent to peers (a row that two peers need counts twice), L layers, S splits.
"""
