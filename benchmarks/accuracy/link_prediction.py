"""Link prediction on Cora, 85/5/10: the AUC and the average precision of ours and of PyG's GAE on the same splits.

The encoder is that of PyG's examples/autoencoder.py: GCN of 32 and 16 columns, dot product, features divided by their
sums, Adam with 0.01, 200 epochs, no dropout, no weight decay, the test by the weights of the last epoch. PyG's own
GAE, negative sampling and scikit-learn's metrics compute the other figures, on the split of ours and from the same
graph without validation and test edges; both are tested on the same pairs. The losses of ours on 1 and on 4 ranks are
compared too. Prints a table, writes JSON with --out. Needs torch_geometric, scikit-learn and --mirror (or the network).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import graphprep
from benchmarks.rank_group import train_all
from trainer.base.traffic_log import Clock
from trainer.config.options import Options
from trainer.data.cache import open_cache
from trainer.data.edge_split import HASH_END, Pairs, PartEdges
from trainer.data.negatives import Negatives
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.exchange.edge_split import find_split

COMMON: dict[str, Any] = {
    "task": "links",
    "hidden": 32,
    "embedding": 16,
    "dropout": 0.0,
    "weight_decay": 0.0,
    "patience": 0,
    "eval_negatives": 0,
}
COMPARED_EPOCHS, LOSSES_DIFFER = 50, 1e-4
"""Epochs of which the losses on 1 and on 4 ranks are compared, and the largest relative difference that is allowed."""


def pyg_gae(cache: str, seed: int, epochs: int) -> dict[str, float]:
    """AUC and average precision of PyG's GAE on the split and the pairs of `seed`."""
    from torch_geometric.nn import GAE, GCNConv

    options = Options(cache=cache, seed=seed, **COMMON)
    opened, cpu = open_cache(cache), torch.device("cpu")
    part = load_part(opened, 0, split=0)
    edges = PartEdges(part, num_nodes=opened.num_nodes, seed=seed, is_undirected=opened.is_undirected)
    with Communicator(RankInfo(), cpu, timeout=60.0, clock=Clock(cpu)) as communicator:
        split = find_split(options, edges.hash_k, communicator)
    message = split.message_part(part)
    assert part.x_nF is not None
    x = part.x_nF.float()
    edge_index = torch.stack([message.local.indices.long(), message.local.row_E.long()])
    row_of = torch.empty_like(part.ids_n).scatter_(0, part.ids_n, torch.arange(len(part.ids_n)))

    def indices(pairs: Pairs) -> torch.Tensor:
        return torch.stack([row_of[pairs.source_k], pairs.row_k])

    test = edges.between(split.val_end, split.test_end)
    random = Negatives(edges, seed).random("test", 0, len(test))
    positive, negative = indices(test), indices(random.between(0, len(random)))
    learnt = indices(edges.between(split.test_end, HASH_END))

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = GCNConv(x.shape[1], 32, cached=True), GCNConv(32, 16, cached=True)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            rows: torch.Tensor = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
            return rows

    torch.manual_seed(seed)
    model = GAE(Encoder())
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        model.train()
        optimiser.zero_grad()
        model.recon_loss(model.encode(x, edge_index), learnt).backward()
        optimiser.step()
    model.eval()
    with torch.no_grad():
        auc, ap = model.test(model.encode(x, edge_index), positive, negative)
    return {"roc_auc": float(auc), "ap": float(ap)}


def main() -> int:
    """Returns 1 if the mean AUC is below PyG's, or losses depend on the number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take Cora from")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    # Validated once, at the end, whose weights are tested then, as in PyG's example.
    runs = [
        {**COMMON, "seed": seed, "epochs": arguments.epochs, "eval_every": arguments.epochs}
        for seed in range(arguments.seeds)
    ]
    compared = {**COMMON, "seed": 0, "epochs": min(arguments.epochs, COMPARED_EPOCHS)}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        graphprep("fetch", "cora", "-q", *(["--mirror", arguments.mirror] if arguments.mirror else []), home=home)
        for parts in (4, 1):
            words = ("partition", "cora", "--parts", str(parts), "--scale-features", "rows", "-q", "--json")
            cache = json.loads(graphprep(*words, home=home))["cache"]
            results[parts] = train_all(cache, parts, [*runs, compared])
        pyg = [pyg_gae(cache, seed, arguments.epochs) for seed in range(arguments.seeds)]
    losses = [[line["loss"] for line in results[parts].pop()["lines"]] for parts in (1, 4)]
    difference = max(abs(one - other) / one for one, other in zip(*losses, strict=True))
    rows = []
    for name in ("roc_auc", "ap"):
        columns = {f"{parts} rank(s)": [100 * one[f"test_{name}"] for one in results[parts]] for parts in (1, 4)}
        columns["PyG's GAE"] = [100 * one[name] for one in pyg]
        for by, values in columns.items():
            deviation = statistics.stdev(values) if len(values) > 1 else 0.0
            rows.append(
                {"metric": name, "by": by, "mean": statistics.mean(values), "deviation": deviation, "values": values}
            )
            print(f"{name:8} {by:10} {rows[-1]['mean']:.2f} +- {deviation:.2f} over {len(values)} seeds")
    print(f"losses of {len(losses[0])} epochs on 1 and on 4 ranks differ by {difference:.1e} at most")
    if arguments.out:
        figures = {"seeds": arguments.seeds, "epochs": arguments.epochs, "rows": rows, "losses_differ": difference}
        arguments.out.write_text(json.dumps(figures, indent=1))
    auc = {row["by"]: row["mean"] for row in rows if row["metric"] == "roc_auc"}
    below = min(auc["1 rank(s)"], auc["4 rank(s)"]) < auc["PyG's GAE"]
    return int(below or difference > LOSSES_DIFFER)


if __name__ == "__main__":
    sys.exit(main())
