"""What a GPU does with the trainer: one command, under 8 minutes on one GPU, a table and (with --out) JSON.

    python -m benchmarks.gpu_check                       the GPU
    python -m benchmarks.gpu_check --device cpu          a rehearsal of the same code on the CPU, small

    backend     NCCL (on a CPU gloo) with one rank: a sum over all, rank 0's values to all, and rows to itself, alone
                and while a product is computed
    spmm        sums over edges of fp32, fp16 and bf16 rows by Triton's kernel and by torch's against float64, with a
                node of 70,000 in-edges; bytes a second in random and in local order, beside those of a copy
    kernels     Triton's messages byte for byte against torch's on the CPU, its softmax against float64, and bytes a
                second (on a CPU by Triton's interpreter, slowly and few)
    features    features by their entries, dropped and not: products and gradients against the dense matrix, and seconds
    attention   GAT and GATv2, scores and gradients in each precision, against dense matrices in float64 on the CPU
    ranks       2 and 3 ranks that share the device and talk by gloo, through the host's memory: losses of GCN,
                GraphSAGE, GAT and R-GCN against one rank's on the device, and one rank's on the CPU
    epochs      seconds an epoch and peak memory of GCN, 128 to 256 features, in fp32 (by Triton's kernels and by
                torch's), bf16 and fp16, against PyG on the same device where torch_geometric is installed

Each of them is a process of its own with a time limit, so one that fails leaves the others. Returns 1 if a figure is
outside its limit or a check did not end, 2 if there is no GPU. Seconds and memory have no limits: they are to be read.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.command import graphprep
from benchmarks.gpu_figures import PRECISIONS, SIZES, Row, error, median_seconds, row
from benchmarks.gpu_products import check_kernels, check_spmm, overlap

RANKS_ERROR = 1e-3
"""Relative, of losses on several ranks or on another device."""
LIMIT_SECONDS = {
    "backend": 40,
    "spmm": 80,
    "kernels": 50,
    "features": 30,
    "attention": 60,
    "ranks": 100,
    "epochs": 120,
}
COMMON: dict[str, Any] = {"dropout": 0.0, "patience": 0, "epochs": 8, "hidden": 16}
MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"model": "gcn", "dropout": 0.5},
    "sage, broadcast": {"model": "sage", "exchange": "broadcast"},
    "gat, sequential": {"model": "gat", "heads": 2, "hidden": 8, "exchange": "sequential"},
    "rgcn": {"model": "rgcn"},
}


def check_backend(device: str, folder: Path) -> list[Row]:
    """Collectives of one rank, by the backend that several would use."""
    import torch
    import torch.distributed as dist

    backend, place = ("nccl", torch.device("cuda", 0)) if device == "cuda" else ("gloo", torch.device("cpu"))
    store = dist.FileStore(str(folder / "backend-store"), 1)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=0, world_size=1, device_id=place if device == "cuda" else None)
    values = torch.arange(1 << 20, dtype=torch.float32, device=place)
    expected = values.clone()
    dist.all_reduce(values)
    dist.broadcast(values, src=0)
    received = torch.empty_like(values)
    dist.all_to_all_single(received, values)
    wrong = float((values != expected).sum() + (received != expected).sum())
    reduced = median_seconds(lambda: dist.all_reduce(values), place)
    rows = [
        row(f"{backend}, 1 rank: values that changed", wrong, "values", 0.0),
        row(f"{backend}, 1 rank: all-reduce of 4 MB", 1e3 * reduced, "ms"),
        *overlap(device, place),
    ]
    dist.destroy_process_group()
    return rows


def check_features(device: str, folder: Path) -> list[Row]:  # noqa: ARG001
    """Bags of words, 1 % full, by their entries and as a matrix."""
    import torch

    from trainer.base.pass_context import PassContext
    from trainer.base.precision import TYPES
    from trainer.base.traffic_log import Clock
    from trainer.sparse.dropout import Dropout
    from trainer.sparse.feature_rows import DenseRows, FeatureRows, SparseRows

    sizes, place, random = SIZES[device], torch.device(device), torch.Generator().manual_seed(0)
    shape, clock = (2 * sizes["words"], sizes["words"]), Clock(place)
    x = torch.randn(shape, generator=random) * (torch.rand(shape, generator=random) < 0.01)
    dropout = Dropout(torch.arange(shape[0], device=place), torch.arange(0, device=place), num_nodes=shape[0], seed=0)
    mask = dropout.mask(0.5, 1, shape[1], PassContext(epoch=1, training=True))
    assert mask is not None
    weight = torch.randn(shape[1], 64, generator=random).to(place).requires_grad_()
    rows = []
    for precision, limit in PRECISIONS.items():
        stored = TYPES[precision]
        forms: dict[str, FeatureRows] = {
            "by entries": SparseRows.of(x, place, stored),
            "dense": DenseRows(x.to(place, stored)),
        }

        def stepped(form: FeatureRows, *, drops: bool) -> tuple[Any, Any]:
            weight.grad = None
            own = form.dropped(mask.table, mask.starts_n) if drops else form
            product = own.times(weight, clock)
            product.sum().backward()  # type: ignore[no-untyped-call]
            assert weight.grad is not None
            return product.detach().double().cpu(), weight.grad.double().cpu()

        for words, drops in (("", False), (", dropped", True)):
            mine, expected = (stepped(form, drops=drops) for form in forms.values())
            for what, one, other in zip(("products", "gradients"), mine, expected, strict=True):
                case = f"{what} of features{words}, {precision}"
                rows.append(row(case, error(one, other), "of the greatest", limit))
            for name, form in forms.items():
                seconds = median_seconds(partial(stepped, form, drops=drops), place)
                rows.append(row(f"features {name}{words}, {precision}", 1e3 * seconds, "ms"))
    return rows


def check_attention(device: str, folder: Path) -> list[Row]:  # noqa: ARG001
    """Two layers of attention on a random graph, against dense matrices."""
    import torch

    place = torch.device(device)
    rows = []
    for model in ("gat", "gatv2"):
        for precision, limit in PRECISIONS.items():
            mine, gradients, weights, part = _attended(model, precision, place)
            leaves = {name: value.double().requires_grad_() for name, value in weights.items()}
            expected = _dense_attended(model, leaves, part)
            (expected * _direction(expected)).sum().backward()
            scores = error(mine, expected.detach())
            rows.append(row(f"{model}, {precision}: scores", scores, "of the greatest", limit))
            exact = {name: leaf.grad for name, leaf in leaves.items()}
            far = torch.cat([(gradients[name] - value).flatten() for name, value in exact.items()]).norm()
            long = torch.cat([value.flatten() for value in exact.values()]).norm()
            rows.append(row(f"{model}, {precision}: gradients", float(far / long), "of the length", 3 * limit))
    return rows


def _attended(model: str, precision: str, place: Any) -> tuple[Any, dict[str, Any], dict[str, Any], Any]:
    """The trainer's scores, its gradients and its weights, on the CPU; and the part that it ran on."""
    import torch

    from trainer.base.pass_context import PassContext
    from trainer.base.precision import TYPES
    from trainer.base.traffic_log import Clock, TrafficLog
    from trainer.config.options import Options
    from trainer.data.csr import Csr, indptr_of
    from trainer.data.part import Part, halo_ids
    from trainer.dist.communicator import Communicator
    from trainer.dist.rank_info import RankInfo
    from trainer.exchange.exchange import Exchange
    from trainer.layers.aggregate import Aggregation
    from trainer.layers.inputs import Features
    from trainer.models import Network, model_type
    from trainer.sparse.dropout import Dropout
    from trainer.sparse.feature_rows import DenseRows

    n, random = 300, torch.Generator().manual_seed(1)
    destinations, order = torch.randint(0, n, (2_000,), generator=random).sort()
    sources = torch.randint(0, n, (2_000,), generator=random)[order]
    nothing = torch.zeros(n, dtype=torch.bool)
    csr = Csr(
        indptr=indptr_of(destinations.bincount(minlength=n), torch.int32),
        indices=sources.int(),
        weights=None,
        num_columns=n,
    )
    part = Part(
        number=0,
        ids_n=torch.arange(n),
        halo_ids={},
        x_nF=torch.randn(n, 24, generator=random),
        aggregated_nF=None,
        y=torch.zeros(n, dtype=torch.int64),
        train_n=nothing,
        val_n=nothing,
        test_n=nothing,
        degree_n=destinations.bincount(minlength=n).float(),
        local=csr,
        remote={},
        send_rows={},
    )
    options = Options(cache="-", model=model, heads=4, hidden=16, dropout=0.0, precision=precision)
    communicator = Communicator(RankInfo(), place, timeout=10.0, clock=Clock(place))
    traffic_log = TrafficLog(num_rows=n, num_sent=0, num_halo=0, rank=0, world=1)
    aggregation = Aggregation(part, Exchange(options, part, communicator, traffic_log), communicator, sums=None)
    dropout = Dropout(part.ids_n.to(place), halo_ids(part).to(place), num_nodes=n, seed=0)
    assert part.x_nF is not None
    # Rounded once, and then the same for the reference.
    rounded = replace(part, x_nF=part.x_nF.to(TYPES[precision]))
    assert rounded.x_nF is not None
    features = Features(DenseRows(rounded.x_nF.to(place)), aggregation, dropout, share=0.0)
    network = Network(
        model_type(options, communicator),
        options,
        aggregation,
        dropout,
        num_features=24,
        num_classes=5,
        num_nodes=n,
        communicator=communicator,
    ).to(place)
    scores = network(features, PassContext(epoch=1, training=True))
    (scores * _direction(scores)).sum().backward()
    parameters = dict(network.named_parameters())
    gradients = {name: of.grad.cpu().double() for name, of in parameters.items() if of.grad is not None}
    return (
        scores.detach().cpu().double(),
        gradients,
        {name: of.detach().cpu() for name, of in parameters.items()},
        rounded,
    )


def _direction(scores: Any) -> Any:
    """What scores are multiplied by before they are summed: other numbers in each row and column, as large as a loss
    that is scaled for fp16 has them."""
    import torch

    n, width = scores.shape
    return torch.sin(torch.arange(n * width, dtype=scores.dtype, device=scores.device)).view(n, width) * 64


def _dense_attended(model: str, weights: dict[str, Any], part: Any) -> Any:
    """Two layers by dense matrices in the type of the weights."""
    import torch
    from torch.nn import functional

    n, rows = part.num_rows, part.x_nF.double()
    counts = torch.zeros(n, n, dtype=torch.float64)
    row_E = torch.arange(n).repeat_interleave(part.local.indptr.diff().long())
    counts.index_put_((row_E, part.local.indices.long()), torch.ones(len(row_E), dtype=torch.float64), accumulate=True)
    counts += torch.diag((counts.diagonal() == 0).double())
    for layer in range(2):
        of = {name.rsplit(".", 1)[1]: value for name, value in weights.items() if f".layers.{layer}." in name}
        heads = len(of["source_hF"])
        values = (rows @ of["weight_FG"]).unflatten(1, (heads, -1))
        if model == "gat":
            ends = (values * of["destination_hF"]).sum(2).unsqueeze(1) + (values * of["source_hF"]).sum(2).unsqueeze(0)
            scores = functional.leaky_relu(ends, 0.2)
        else:
            ends = (rows @ of["destination_FG"]).unflatten(1, (heads, -1)).unsqueeze(1) + values.unsqueeze(0)
            scores = (functional.leaky_relu(ends, 0.2) * of["source_hF"]).sum(3)
        shares = (scores + counts.log().unsqueeze(2)).softmax(1)
        out = torch.einsum("ijh,jhf->ihf", shares, values)
        rows = (out.mean(1) if layer else out.flatten(1)) + of["bias_G"]
        if not layer:
            rows = functional.elu(rows)
    return rows


def check_ranks(device: str, folder: Path) -> list[Row]:
    """Several ranks on one device."""
    from benchmarks.rank_group import train_all

    place = "cuda:0" if device == "cuda" else "cpu"
    runs = [{**COMMON, **of} for of in MODELS.values()]
    places = {"one": (1, place), "on the CPU": (1, "cpu"), "2 ranks": (2, place), "3 ranks": (3, place)}
    losses: dict[str, list[list[float]]] = {}
    for name, (world, where) in places.items():
        if name == "on the CPU" and where == place:  # in a rehearsal
            losses[name] = losses["one"]
            continue
        cache = _cache(folder, "check-small", ["--nodes", "600", "--edges", "3000", "--features", "24"], world)
        losses[name] = [
            [line["loss"] for line in result["lines"]]
            for result in train_all(cache, world, runs, device=where, through_host=world > 1)
        ]
    rows = []
    for number, model in enumerate(MODELS):
        for name in ("on the CPU", "2 ranks", "3 ranks"):
            pairs = zip(losses[name][number], losses["one"][number], strict=True)
            worst = max(abs(mine - one) / abs(one) for mine, one in pairs)
            rows.append(row(f"{model}: losses {name}, to one rank's on {place}", worst, "relative", RANKS_ERROR))
    return rows


def check_epochs(device: str, folder: Path) -> list[Row]:
    """Seconds and memory of full-graph training, beside PyG's."""
    sizes = SIZES[device]
    graph = ["--nodes", str(sizes["nodes"]), "--edges", str(sizes["edges"]), "--features", "128", "--classes", "16"]
    cache = _cache(folder, "check-large", graph, 1)
    store = folder / "home" / "stores" / "check-large.zarr"
    commands = {
        f"trainer, {precision}": [sys.executable, "-c", _TRAINER, str(cache), device, str(sizes["epochs"]), precision]
        for precision in ("fp32", "bf16", "fp16")
    }
    if device == "cuda":
        commands["trainer, fp32, torch's kernels"] = [*commands["trainer, fp32"], "torch"]
    rows = []
    if importlib.util.find_spec("torch_geometric") is not None:
        commands["PyG, fp32"] = [sys.executable, "-c", _PYG, str(store), device, str(sizes["epochs"])]
    else:
        rows.append(row("PyG is not installed here, so there is nothing beside the trainer", 0.0, ""))
    for name, words in commands.items():
        found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        rows.append(row(f"{name}: an epoch", 1e3 * found["seconds"], "ms"))
        rows.append(row(f"{name}: peak memory", found["peak_bytes"] / 1e6, "MB"))
    return rows


_PEAK = """
import json, resource, torch
def peak(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()
"""
_TRAINER = (
    _PEAK
    + """
import io, sys, time
from trainer.kernels import dispatch
if sys.argv[5:] == ["torch"]:
    dispatch._is_installed = lambda: False
from trainer.base.traffic_log import Clock
from trainer.data.cache import open_cache
from trainer.config.options import Options
from trainer.dist.communicator import Communicator
from trainer.reporting.report import Report
from trainer.run import train
from trainer.dist.rank_info import RankInfo

cache, device, epochs, precision = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
place, seconds = torch.device(device), []
with Communicator(RankInfo(), place, timeout=60.0, clock=Clock(place)) as communicator:
    for number in (2, 2 + epochs):
        options = Options(cache=cache, hidden=256, patience=0, eval_every=1000, epochs=number, precision=precision)
        report = Report(speaks=False, as_json=True, output=io.StringIO())
        result = train(options, open_cache(cache), communicator, report)
        wait(device)
        seconds.append(result["seconds"])
print(json.dumps({"seconds": (seconds[1] - seconds[0]) / epochs, "peak_bytes": peak(device)}))
"""
)
_PYG = (
    _PEAK
    + """
import sys, time, warnings
warnings.filterwarnings("ignore")
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from graphprep.store.store import GraphStore

location, device, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = GraphStore(location)
[edge_type], [node_type] = store.num_edges, store.num_nodes
csr = store.csr(edge_type)
n = len(csr.indptr) - 1
dst = torch.arange(n).repeat_interleave(torch.from_numpy(csr.indptr).diff())
edges, weights = gcn_norm(torch.stack([torch.from_numpy(csr.indices).long(), dst]), num_nodes=n)
adjacency = torch.sparse_coo_tensor(edges.flip(0), weights, (n, n)).coalesce().to_sparse_csr().to(device)
x, y = (torch.from_numpy(store.node_array(node_type, name)[:]).to(device) for name in ("x", "y"))
train = torch.from_numpy(store.node_array(node_type, "train_mask")[:, 0]).to(device)
one = GCNConv(128, 256, normalize=False).to(device)
two = GCNConv(256, 16, normalize=False).to(device)
adam = torch.optim.Adam([*one.parameters(), *two.parameters()], lr=0.01)
for epoch in range(2 + epochs):
    if epoch == 2:
        wait(device)
        started = time.perf_counter()
    adam.zero_grad()
    hidden = one(functional.dropout(x, 0.5), adjacency).relu()
    scores = two(functional.dropout(hidden, 0.5), adjacency)
    functional.cross_entropy(scores[train], y[train]).backward()
    adam.step()
wait(device)
print(json.dumps({"seconds": (time.perf_counter() - started) / epochs, "peak_bytes": peak(device)}))
"""
)


def _cache(folder: Path, name: str, graph: list[str], parts: int) -> Path:
    """The cache of a block model, made where there is none."""
    home = folder / "home"
    if not (home / "stores" / f"{name}.zarr").exists():
        graphprep("generate", "sbm", "--name", name, *graph, "-q", home=home)
    return Path(json.loads(graphprep("partition", name, "--parts", str(parts), "-q", "--json", home=home))["cache"])


CHECKS: dict[str, Callable[[str, Path], list[Row]]] = {
    "backend": check_backend,
    "spmm": check_spmm,
    "kernels": check_kernels,
    "features": check_features,
    "attention": check_attention,
    "ranks": check_ranks,
    "epochs": check_epochs,
}


def run_check(name: str, device: str, folder: Path) -> list[Row]:
    """The rows of one check, made in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.gpu_check", "--device", device, "--only", name, "--folder", str(folder)]
    scale = 1 if device == "cuda" else 5
    interpreted = {"TRITON_INTERPRET": "1"} if (name, device) == ("kernels", "cpu") else {}
    environment = {**os.environ, **interpreted}
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, text=True, timeout=scale * LIMIT_SECONDS[name], env=environment
        )
    except subprocess.TimeoutExpired:
        return [{**row(f"{name} took too long", float("nan"), "", 0.0), "ok": False}]
    if done.returncode:
        return [{**row(f"{name} failed, see above", float("nan"), "", 0.0), "ok": False}]
    found: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Returns 0 if all is within its limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    parser.add_argument("--only", choices=tuple(CHECKS), help="make one check here, and print its rows as JSON")
    parser.add_argument("--folder", type=Path, help="where the graphs are kept, for --only")
    arguments = parser.parse_args()
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        print(
            f"gpu_check: torch {torch.__version__} sees no GPU here; give --device cpu to rehearse on the CPU",
            file=sys.stderr,
        )
        return 2
    if arguments.only:
        with tempfile.TemporaryDirectory() as scratch:
            folder = arguments.folder or Path(scratch)
            print(json.dumps(CHECKS[arguments.only](arguments.device, folder)))
        return 0
    started, document = time.perf_counter(), dict[str, Any]()
    name = torch.cuda.get_device_name(0) if arguments.device == "cuda" else "CPU, a rehearsal"
    document |= {"device": name, "torch": torch.__version__, "cuda": torch.version.cuda, "checks": {}}
    print(f"{name}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            rows = document["checks"][check] = run_check(check, arguments.device, Path(folder))
            for one in rows:
                verdict = {True: "ok", False: "WRONG", None: ""}[one["ok"]]
                limit = "" if one["limit"] is None else f"(at most {one['limit']:g})"
                print(f"{check:10} {one['case']:58} {one['value']:10.3g} {one['unit']} {limit} {verdict}", flush=True)
    document["seconds"] = time.perf_counter() - started
    wrong = [one for rows in document["checks"].values() for one in rows if one["ok"] is False]
    print(f"{len(wrong)} figure(s) outside their limits, {document['seconds']:.0f} s")
    if arguments.out:
        arguments.out.write_text(json.dumps(document, indent=1))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
