"""Several machines on one: network namespaces joined by throttled cables, and runs across them.

A topology file says what is built (`cabling`): its links of type `network` become cables, whatever its other links join
is one machine, a network namespace of its own, and a switch between cables is a namespace with a bridge. `tc` holds
each end of a cable to the link's bandwidth, so both directions have it in full. `laboratory` builds all that and takes
it down again; `ranks` runs torchrun across it and gathers what the ranks report.

Measurements, each a program of its own:

    python -m benchmarks.network.probing       does `topology probe` find the links that are there
    python -m benchmarks.network.parts         measured beside predicted seconds of exchanges; METIS beside our parts
    python -m benchmarks.network.copies        kept copies and narrow wires beside exact and whole-block exchanges
    python -m benchmarks.network.relays        relayed exchange beside direct sends, measured and predicted
    python -m benchmarks.network.faults        loss, jitter, links that go down; checkpoints
    python -m benchmarks.network.layers        boundary, tensor-parallel and automatic exchanges beside each other

They need Linux, root and iproute2, and say so elsewhere. Nothing outside the namespaces is changed.
"""
