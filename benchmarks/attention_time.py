"""Seconds an epoch of attention: this trainer against an earlier commit's and against PyG, on one graph and two cores.

GAT and GATv2 of 2 layers with 4 heads x 64 on the hierarchical block model of 50,000 nodes and a million directed edges
(PyG keeps a row of all heads an edge, several times: with 200,000 nodes more than 20 GB), 128 features and 16 classes,
dropout 0.5 before both layers and of the coefficients. The trainers run 2 ranks of 1 thread each; PyG runs GATConv and
GATv2Conv on 2 threads. The earlier trainer comes from `git archive`. A GCN as wide as all heads together (256) trains
beside them.

An epoch is the difference of two runs of unequal length, divided by the epochs between them; seconds by kind are
likewise. So are processor seconds, of all ranks together, which other programs on the machine change less; only these
have a target. Runs take turns, and medians count. Prints a table, writes JSON with --out. Returns 1 if the target is
missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import graphprep
from benchmarks.measured import measured

SHORT, LONG = 1, 6
EARLIER = "5093c20"
"""The last commit whose attention gathers rows by CSR products and copies."""
REPOSITORY = Path(__file__).resolve().parents[1]
TRAINING = ["--patience", "0", "--eval-every", "1000", "--device", "cpu", "-q", "--json"]
MODELS = {
    "gat": ["--model", "gat", "--heads", "4", "--hidden", "64"],
    "gatv2": ["--model", "gatv2", "--heads", "4", "--hidden", "64"],
    "gcn": ["--model", "gcn", "--hidden", "256"],
}
SHARE_OF_EARLIER = 0.35
"""Of the earlier GAT epoch: the target."""
PYG = """
import sys, time, torch, warnings
warnings.filterwarnings("ignore")
from torch.nn import functional
from torch_geometric.nn import GATConv, GATv2Conv
from graphprep.store.store import GraphStore

location, model, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(2)
torch.manual_seed(0)
store = GraphStore(location)
[edge_type], [node_type] = store.num_edges, store.num_nodes
csr = store.csr(edge_type)
dst = torch.arange(len(csr.indptr) - 1).repeat_interleave(torch.from_numpy(csr.indptr).diff())
edges = torch.stack([torch.from_numpy(csr.indices).long(), dst])
x, y = (torch.from_numpy(store.node_array(node_type, name)[:]) for name in ("x", "y"))
train = torch.from_numpy(store.node_array(node_type, "train_mask")[:, 0])
del store, csr, dst
layer = {"gat": GATConv, "gatv2": GATv2Conv}[model]
one, two = layer(128, 64, heads=4, dropout=0.5), layer(256, 16, heads=4, concat=False, dropout=0.5)
adam = torch.optim.Adam([*one.parameters(), *two.parameters()], lr=0.01)
started = time.perf_counter()
for epoch in range(epochs):
    adam.zero_grad()
    hidden = functional.elu(one(functional.dropout(x, 0.5), edges))
    scores = two(functional.dropout(hidden, 0.5), edges)
    functional.cross_entropy(scores[train], y[train]).backward()
    adam.step()
print(time.perf_counter() - started)
"""


def processor_seconds() -> float:
    """Of all children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def an_epoch(run: Callable[[int], dict[str, float]]) -> dict[str, float]:
    """What one epoch takes, from what a run of so many epochs takes."""
    totals = []
    for epochs in (SHORT, LONG):
        before = processor_seconds()
        seconds = run(epochs)
        totals.append({"epoch": seconds.pop("epoch"), "processor": processor_seconds() - before, **seconds})
    short, long = totals
    return {kind: (long[kind] - short[kind]) / (LONG - SHORT) for kind in long}


def pyg_epoch(store: Path, model: str) -> dict[str, float]:
    """Seconds an epoch."""

    def run(epochs: int) -> dict[str, float]:
        command = [sys.executable, "-c", PYG, str(store), model, str(epochs)]
        return {"epoch": float(measured(command, {"OMP_NUM_THREADS": "2"}).output)}

    return an_epoch(run)


def trained_epoch(folder: Path, cache: Path, model: str) -> dict[str, float]:
    """Seconds an epoch, in all and by kind (the mean of the ranks), of the trainer in `folder`."""
    environment = {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}

    def run(epochs: int) -> dict[str, float]:
        command = [sys.executable, "-m", "trainer.launch", str(cache), *TRAINING, *MODELS[model]]
        result = json.loads(measured([*command, "--epochs", str(epochs)], environment).output.splitlines()[-1])
        by_rank = result["seconds_by_rank"]
        kinds = {kind: statistics.mean(of_rank[kind] for of_rank in by_rank) for kind in by_rank[0]}
        return {"epoch": result["seconds"], **kinds}

    return an_epoch(run)


def earlier_trainer(commit: str, folder: str) -> Path:
    """The trainer of `commit`, unpacked into `folder`."""
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", commit, "trainer"], check=True, stdout=subprocess.PIPE
    ).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return Path(folder)


def main() -> int:
    """Returns 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="the median counts")
    parser.add_argument("--nodes", type=int, default=50_000, help="with ten undirected edges each")
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--earlier", default=EARLIER, help="the commit to compare with")
    parser.add_argument("--without-pyg", action="store_true")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    name = f"sbm-{arguments.nodes // 1000}k"
    size = ["--nodes", str(arguments.nodes), "--edges", str(10 * arguments.nodes), "--features", "128"]
    graph = graphprep("generate", "sbm", "--name", name, *size, "--classes", "16", "-q", "--json")
    store = Path(json.loads(graph)["location"])
    partition = graphprep("partition", name, "--parts", str(arguments.parts), "-q", "--json")
    cache = Path(json.loads(partition)["cache"])
    runs: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        trainers = {"earlier": earlier_trainer(arguments.earlier, folder), "now": REPOSITORY}
        for _ in range(arguments.repeats):
            for model in MODELS:
                for side, trainer in trainers.items():
                    runs[f"{model}, {side}"].append(trained_epoch(trainer, cache, model))
                if model != "gcn" and not arguments.without_pyg:
                    runs[f"{model}, PyG"].append(pyg_epoch(store, model))
            for which, found in runs.items():
                print(f"  {which}: {found[-1]['epoch']:.2f} s", flush=True)
    table: dict[str, dict[str, Any]] = {
        which: {kind: statistics.median(one[kind] for one in found) for kind in found[0]}
        for which, found in runs.items()
    }
    for which, row in table.items():
        earlier = table[f"{which.split(',')[0]}, earlier"]
        shares = {f"{kind} as a share of the earlier": row[kind] / earlier[kind] for kind in ("epoch", "processor")}
        kinds = ", ".join(f"{kind} {seconds:.2f}" for kind, seconds in row.items() if kind != "epoch")
        share, of_processor = shares.values()
        print(
            f"{which:14} {row['epoch']:6.2f} s an epoch: {kinds}; {share:.2f}, processor {of_processor:.2f} of earlier"
        )
        row |= shares
    if arguments.out:
        arguments.out.write_text(json.dumps(table, indent=1))
    return int(table["gat, now"]["processor as a share of the earlier"] > SHARE_OF_EARLIER)


if __name__ == "__main__":
    sys.exit(main())
