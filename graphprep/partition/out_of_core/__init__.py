"""A multilevel partitioner for graphs that are larger than memory: a few numbers a node in memory, edges in files.

    propagation     nodes are drawn together into clusters of bounded weight, by labels that pass along edges
    contraction     clusters become nodes; edges between two of them are sorted and summed by way of the disk
    levels          the two in turn, until METIS can take the rest
    coarsest        METIS divides it, its parts are laid on ranks and refined in memory
    streamed        back on every finer level, nodes move by what that changes of link seconds
    mapped_graph    a store as files that are read by ranges of rows

Edges are only read front to back, by ranges of rows that do not depend on the number of threads, so a file that does
not fit in memory is read at the disk's speed, and the result is one for any number of threads.

Meyerhenke, Sanders, Schulz: Partitioning complex networks via size-constrained clustering, SEA 2014; Akhremtsev,
Sanders, Schulz: (Semi-)external algorithms for graph partitioning and clustering, ALENEX 2015.
"""
