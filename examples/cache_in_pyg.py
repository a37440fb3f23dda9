"""Read the parts of a cache as PyTorch Geometric's `Data`, and compute a layer part by part.

A part comes with its halo: the nodes of other parts with an edge into this one. So one layer over a part gives its own
nodes what one layer over the whole graph gives them.
"""

from __future__ import annotations

import subprocess
import sys

import torch
from torch_geometric.nn import SAGEConv

import graphprep


def run(*words: str) -> None:
    """Run a graphprep command, as `graphprep WORDS` would."""
    print("$ graphprep", *words, flush=True)
    subprocess.run([sys.executable, "-m", "graphprep", *words], check=True)


def main() -> None:
    """Compute one GraphSAGE layer on the whole graph and on four parts."""
    run("fetch", "digits")
    run("partition", "digits", "--topology", "2x2")

    cache = graphprep.open_cache("digits/2x2")
    whole = cache.to_pyg()
    torch.manual_seed(0)
    layer = SAGEConv(whole.num_features, 16)
    with torch.no_grad():
        expected = layer(whole.x, whole.edge_index)
        found = torch.zeros_like(expected)
        for part in range(cache.num_parts):
            data = cache.to_pyg(part)
            out = layer(data.x, data.edge_index)
            found[data.n_id[data.own_mask]] = out[data.own_mask]
            print(f"part {part}: {int(data.own_mask.sum())} own nodes, {int((~data.own_mask).sum())} of the halo")
    difference = float((found - expected).abs().max())
    print(f"greatest difference between the parts and the whole graph: {difference:.1e}")
    assert difference < 1e-4


if __name__ == "__main__":
    main()
