"""From PyTorch Geometric's `Data` to predictions, in Python: `from_pyg`, `partition`, `train`.

Zachary's karate club is divided between two ranks on this machine, and every member's group is predicted from one label
a group.
"""

from __future__ import annotations

import torch
from torch_geometric.datasets import KarateClub

import graphprep as gp


def main() -> None:
    """Train GCN on two ranks, and print the members whose group was mistaken."""
    data = KarateClub()[0]
    data.val_mask = torch.zeros_like(data.train_mask)
    data.test_mask = ~data.train_mask

    store = gp.from_pyg(data, name="karate-of-pyg")
    cache = gp.partition(store, parts=2)
    run = gp.train(cache, model="gcn", hidden=16, epochs=100, device="cpu")

    loss = run.history["loss"]
    print(f"loss {loss[0]:.2f} in the first epoch, {loss[-1]:.2f} in the last of {len(loss)}")
    table = run.prediction_table()
    pairs = zip(table["id"].tolist(), table["prediction"].tolist(), strict=True)
    mistaken = [member for member, group in pairs if group != data.y[member]]
    print(f"test accuracy {run.metrics['test_accuracy']:.2f}; mistaken members: {mistaken}")


if __name__ == "__main__":
    main()
