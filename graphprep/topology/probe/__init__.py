"""Measuring the links between the ranks of a run, and inferring from the figures what joins them.

    alone      every pair of ranks, nobody else sending: a line of seconds over bytes          (fit)
    levels     pairs that are much faster than a network of switches could make them           (levels)
    together   two pairs of four ranks at once: if they slow each other down, they share a link (sharing)
    crossing   as many pairs as there are across each group: what its shared link carries      (groups)
    build      ranks, switches and links with these figures                                    (build)

`survey` does this in order. It asks an `Instrument` for figures and knows nothing of torch: the ranks of a torchrun are
one (`conductor`), a simulated network another. `python -m graphprep.topology.probe` is one rank; `launch` starts all
ranks of this machine. Only `meeting`, `exchange` and `launch` import torch, inside their functions.
"""
