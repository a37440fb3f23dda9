"""Train GraphSAGE on mini-batches of sampled neighbours in a loop of your own, and evaluate it on the whole graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

import graphprep as gp

EPOCHS = 10


class Sage(nn.Module):
    """Two layers; of a batch each computes only the rows that the next one needs."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(num_features, 64), SAGEConv(64, num_classes)])

    def forward(self, x: Tensor, edge_index: Tensor, nodes: list[int], edges: list[int]) -> Tensor:
        for layer, conv in enumerate(self.convs):
            x, edge_index, _ = trim_to_layer(layer, nodes, edges, x, edge_index)
            x = conv(x, edge_index)
            x = F.dropout(x.relu(), 0.5, self.training) if layer == 0 else x
        return x


def accuracy(model: Sage, loader: gp.BatchLoader) -> float:
    """The share of seeds that get the right class."""
    model.eval()
    right = seeds = 0
    for batch in loader:
        with torch.no_grad():
            scores = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
        mine = slice(batch.batch_size)
        right += int((scores[mine].argmax(1) == batch.y[mine]).sum())
        seeds += batch.batch_size
    return right / seeds


def main() -> None:
    """Train on four neighbours a node and hop; evaluate with all of them."""
    cache = gp.partition(gp.fetch("digits"), topology="2x2")
    train = gp.loader(cache, num_neighbors=[4, 4], batch_size=64, arrays=["x", "y"])
    test = gp.loader(cache, num_neighbors=[-1, -1], batch_size=512, input_nodes="test", arrays=["x", "y"])
    torch.manual_seed(0)
    model = Sage(num_features=64, num_classes=10)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(EPOCHS):
        model.train()
        for batch in train:
            scores = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            loss = F.cross_entropy(scores[: batch.batch_size], batch.y[: batch.batch_size])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    print(f"test accuracy {accuracy(model, test):.3f} with all neighbours, {len(train)} batches an epoch")


if __name__ == "__main__":
    main()
