"""What DGL itself makes of an exported folder: run by an interpreter that has dgl, with NumPy and torch beside it.

    python dgl_reader.py FOLDER WEIGHTS.npz RESULT.npz

RESULT has for each part and edge type the ends of all edges in the store's numbers, for each part its counts, and on a
graph of one type the layer that dgl.nn.SAGEConv computes with WEIGHTS (neighbours, itself, bias) over its own nodes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["DGL_DIST_DEBUG"] = "1"  # load_partition compares each graph with the partition book

import dgl.distributed
import dgl.nn
import numpy as np
import torch
from dgl.data.utils import load_tensors


def main(folder: Path, weights: Path, result: Path) -> None:
    book = dgl.distributed.load_partition_book(str(folder / "part_config.json"), 0)[0]
    parts = [
        dgl.distributed.load_partition(str(folder / "part_config.json"), part) for part in range(book.num_partitions())
    ]
    node_types, edge_types = parts[0][5:7]
    nodes = [load_tensors(str(folder / f"part{part}" / "orig_nids.dgl")) for part in range(len(parts))]
    original = [torch.cat([found[name] for found in nodes]) for name in node_types]
    found: dict[str, torch.Tensor] = {}
    for part, (graph, feats, edge_feats, *_) in enumerate(parts):
        own = int(graph.ndata["inner_node"].sum())
        found[f"counts/{part}"] = torch.tensor([own, graph.num_nodes(), graph.num_edges()])
        kind_of, row = book.map_to_per_ntype(graph.ndata["_ID"])
        edge_kind = book.map_to_per_etype(graph.edata["_ID"])[0]
        number = torch.empty(graph.num_nodes(), dtype=torch.int64)
        for kind, ids in enumerate(original):
            number[kind_of == kind] = ids[row[kind_of == kind]]
        source, destination = graph.edges(order="eid")
        for kind, edge_type in enumerate(edge_types):
            these = edge_kind == kind
            ends = torch.stack([number[source[these]], number[destination[these]]])
            found[f"ends/{part}/{'__'.join(edge_type)}"] = ends
        for name, tensor in load_tensors(str(folder / f"part{part}" / "orig_eids.dgl")).items():
            found[f"e_id/{part}/{name.replace(':', '__')}"] = tensor
        for name, tensor in {**feats, **edge_feats}.items():
            found[f"feats/{part}/{name}"] = tensor
        if len(node_types) == len(edge_types) == 1:
            x = torch.cat([other[1]["_N/x"] for other in parts])[row]
            found[f"layer/{part}"] = sage(weights)(graph, x)[:own].detach()
            found[f"n_id/{part}"] = number[:own]
    np.savez(result, **{name: tensor.numpy() for name, tensor in found.items()})


def sage(weights: Path) -> dgl.nn.SAGEConv:
    """The layer with given weights."""
    given = {name: torch.from_numpy(array) for name, array in np.load(weights).items()}
    layer = dgl.nn.SAGEConv(given["itself"].shape[1], given["itself"].shape[0], "mean")
    with torch.no_grad():
        layer.fc_neigh.weight.copy_(given["neighbours"])
        layer.fc_self.weight.copy_(given["itself"])
        (layer.bias if hasattr(layer, "bias") and layer.bias is not None else layer.fc_self.bias).copy_(given["bias"])
    return layer


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
