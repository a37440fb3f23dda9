"""Measure the links between the ranks of a run, and infer the topology from the results.

    alone      every pair of ranks, no other pair sending: a line of seconds over bytes          (fit)
    levels     pairs that are much faster than a network of switches could make them           (levels)
    together   two pairs of four ranks at once: if they slow each other down, they share a link (sharing)
    crossing   as many pairs as there are across each group: what its shared link carries      (groups)
    build      ranks, switches and links with these figures                                    (build)

`survey` does this in order. It takes measurements from an `Instrument` and does not depend on torch: the ranks of a
torchrun are one (`coordinator`), a simulated network in tests is another. `python -m graphprep.topology.probe` is one
rank; `launch` starts all ranks of this machine. Only `rendezvous`, `run` and `launch` import torch, in functions.
"""
