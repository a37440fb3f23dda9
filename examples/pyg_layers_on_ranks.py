"""Train a PyTorch Geometric model on four ranks in a loop of your own, and use its weights on one device.

The file starts itself with torchrun: the part of it that each rank runs is `train`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn import functional
from torch_geometric.nn import GraphSAGE

import graphprep
from trainer.distributed_graph import DistributedGraph

EPOCHS, HIDDEN, LAYERS = 60, 32, 2


def run(*words: str) -> None:
    """Run a graphprep command, as `graphprep WORDS` would."""
    print("$ graphprep", *words, flush=True)
    subprocess.run([sys.executable, "-m", "graphprep", *words], check=True)


def train(cache: str, weights: str) -> None:
    """What each rank does with its part."""
    with DistributedGraph.open(cache, device="cpu") as graph:
        model = GraphSAGE(graph.num_features, HIDDEN, LAYERS, graph.num_classes, dropout=0.5)
        graph.distribute(model)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        num_train, num_test = graph.total(graph.train_mask.sum()), graph.total(graph.test_mask.sum())
        for epoch in range(1, EPOCHS + 1):
            graph.begin_epoch(epoch)
            optimiser.zero_grad()
            scores = model(graph.x, graph.edge_index)[graph.train_mask]
            loss = functional.cross_entropy(scores, graph.y[graph.train_mask], reduction="sum") / num_train
            loss.backward()  # type: ignore[no-untyped-call]
            graph.sum_gradients(model)
            optimiser.step()
        model.eval()
        with torch.no_grad():
            right = model(graph.x, graph.edge_index).argmax(1) == graph.y
        accuracy = graph.total((right & graph.test_mask).sum()) / num_test
        if graph.rank == 0:
            print(f"{graph.world_size} ranks: test accuracy {100 * accuracy:.1f} %", flush=True)
            torch.save(model.state_dict(), weights)


def main() -> None:
    """Partition handwritten digits, joined to those that look most like them, train, and compute the scores again."""
    run("fetch", "digits")
    run("partition", "digits", "--topology", "2x2")
    cache = graphprep.open_cache("digits/2x2")
    with tempfile.TemporaryDirectory() as folder:
        weights = str(Path(folder, "weights.pt"))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
        subprocess.run([*command, __file__, str(cache.folder), weights], check=True)
        whole = cache.to_pyg()
        model = GraphSAGE(whole.num_features, HIDDEN, LAYERS, int(whole.y.max()) + 1)
        model.load_state_dict(torch.load(weights))
    model.eval()
    with torch.no_grad():
        right = model(whole.x, whole.edge_index).argmax(1) == whole.y
    print(f"one device, the same weights: {100 * float(right[whole.test_mask].float().mean()):.1f} %")


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(*sys.argv[1:])
    else:
        main()
