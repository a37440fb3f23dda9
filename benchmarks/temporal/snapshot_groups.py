"""Groups of consecutive daily snapshots of CollegeMsg: as many snapshots a rank, against groups balanced by cost.

Both kinds of groups train the same model in the same processes, for as many epochs. A rank's load is the processor's
seconds of its thread for its own snapshots, forward and backward, without waiting, each snapshot's the least of all
epochs, since other programs only add to it; the imbalance is the largest load by the mean. All daily snapshots are in
the training here, unless --split gives the shares that train and validate. The epochs in which the cost is measured and
the groups change are not counted.

A second part measures two workers on one rank: the seconds of an epoch with one and with two, and for how long one
worker's sparse product ran beside the other one's dense product.

    python -m benchmarks.temporal.snapshot_groups EDGES [--ranks 2 4] [--models tgcn gclstm evolvegcn] [--out FILE.json]

EDGES is CollegeMsg.txt of SNAP: lines of source, destination and second. Prints a table, writes JSON with --out.
Returns 1 if balanced groups take more than 1.05 of the mean, or ranks have other losses than one rank.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.dist.communicator import Communicator
    from trainer.temporal.snapshots.graphs import Events

DAY = 86_400
TARGET = 1.05
MEASURED = 4
"""Epochs that are not counted."""


def daily_events(path: Path, shares: Sequence[float]) -> Events:
    """The stream in windows of a day from its first event on."""
    import torch

    from trainer.temporal.snapshots.graphs import Events

    rows = torch.tensor([[int(word) for word in line.split()] for line in path.read_text().splitlines()])
    source_M, destination_M, second_M = rows[rows[:, 2].argsort(stable=True)].T.contiguous()
    day_M = (second_M - second_M[0]) // DAY
    return Events(
        source_M=source_M,
        destination_M=destination_M,
        offsets=torch.searchsorted(day_M, torch.arange(int(day_M[-1]) + 2)),
        num_nodes=int(rows[:, :2].max()) + 1,
        first_val=round(len(rows) * shares[0]),
        first_test=round(len(rows) * (shares[0] + shares[1])),
    )


def compare_groups(communicator: Communicator, events: Events, model: str, epochs: int) -> dict[str, Any]:
    """Train with both kinds of groups, which are the same on one rank; what rank 0 found."""
    from trainer.config.options import Options
    from trainer.temporal.snapshots.fit import SnapshotFit
    from trainer.temporal.snapshots.graphs import Snapshots
    from trainer.temporal.snapshots.groups import equal_groups, imbalance, loads
    from trainer.temporal.snapshots.workers import Workers

    options = Options(cache="", model=model, epochs=epochs + MEASURED, weight_decay=0.0)
    found: dict[str, Any] = {"model": model, "ranks": communicator.world, "epochs": epochs}
    for name in ("equal", "balanced") if communicator.world > 1 else ("equal",):
        snapshots = Snapshots(events=events, device=communicator.device, seed=0)
        num_steps = snapshots.num_steps("train")
        equal = equal_groups(num_steps, communicator.world)
        fit = SnapshotFit(
            snapshots,
            options,
            communicator,
            Workers(1, communicator.device),
            borders=equal,
            rebalances=name == "balanced",
        )
        losses, walls = list[float](), list[float]()
        for epoch in range(epochs + MEASURED):
            if epoch == MEASURED:
                fit.groups.least_seconds = []
            started = time.perf_counter()
            losses.append(fit.round(epoch, False))
            walls.append(time.perf_counter() - started)
        num_events = [float(snapshots.num_events(step)) for step in range(num_steps)]
        found |= {"snapshots": num_steps, "losses": losses, "cost": str(fit.groups.cost)}
        found[name] = {
            "borders": fit.groups.borders,
            "imbalance": imbalance(fit.groups.seconds),
            "seconds_by_rank": fit.groups.seconds,
            "imbalance_of_events": imbalance(loads(num_events, fit.groups.borders)),
            "epoch_seconds": statistics.median(walls[MEASURED:]),
            "losses": losses,
        }
    return found


def compare_workers(communicator: Communicator, events: Events, model: str, epochs: int) -> dict[str, Any]:
    """An epoch on one rank with one worker and with two, in turn."""
    from trainer.config.options import Options
    from trainer.temporal.snapshots.fit import SnapshotFit
    from trainer.temporal.snapshots.graphs import Snapshots
    from trainer.temporal.snapshots.workers import Workers, overlap_seconds

    options = Options(cache="", model=model, epochs=epochs, weight_decay=0.0)
    snapshots = Snapshots(events=events, device=communicator.device, seed=0)
    workers = {number: Workers(number, communicator.device) for number in (1, 2)}
    fits = {
        number: SnapshotFit(snapshots, options, communicator, some, rebalances=False)
        for number, some in workers.items()
    }
    seconds: dict[int, list[float]] = {1: [], 2: []}
    spans: list[list[tuple[str, float, float]]] = []
    for epoch in range(epochs):
        for number, fit in fits.items():
            for clock in workers[number].clocks:
                clock.keep_spans()
            started = time.perf_counter()
            fit.round(epoch, False)
            seconds[number].append(time.perf_counter() - started)
            spans = [clock.spans for clock in workers[number].clocks]
    of_activity = {
        activity: sum(end - begin for spans_of in spans for name, begin, end in spans_of if name == activity)
        for activity in ("sparse product", "dense product")
    }
    return {
        "model": model,
        "epoch_seconds_of_one_worker": statistics.median(seconds[1][1:]),
        "epoch_seconds_of_two_workers": statistics.median(seconds[2][1:]),
        "sparse_product_seconds": of_activity["sparse product"],
        "dense_product_seconds": of_activity["dense product"],
        "overlap_seconds": overlap_seconds(spans, "sparse product", "dense product"),
    }


def among_ranks(world: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run `world` processes of one thread each; what rank 0 found."""
    import torch

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        spawn: Any = torch.multiprocessing.spawn  # type: ignore[attr-defined] # it declares no types
        spawn(_rank, args=(world, arguments, results), nprocs=world)
        found: dict[str, Any] = json.loads(results.read_text())
    return found


def _rank(rank: int, world: int, arguments: argparse.Namespace, results: Path) -> None:
    import torch

    from trainer.base.traffic_log import Clock
    from trainer.dist.communicator import Communicator
    from trainer.dist.rank_info import RankInfo

    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    events = daily_events(arguments.edges, arguments.split)
    rank_info = RankInfo(rank=rank, world=world, local_rank=rank, local_world=world)
    with Communicator(rank_info, cpu, timeout=600.0, clock=Clock(cpu)) as communicator:
        communicator.connect()
        found: dict[str, Any] = {
            "groups": [compare_groups(communicator, events, model, arguments.epochs) for model in arguments.models]
        }
        if world == 1:
            found["workers"] = [
                compare_workers(communicator, events, model, arguments.epochs) for model in arguments.models
            ]
    if rank == 0:
        results.write_text(json.dumps(found))
    os._exit(0)  # as the trainer does, without the farewells of the communication libraries


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edges", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--models", nargs="+", default=["tgcn", "gclstm", "evolvegcn"])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--split", type=float, nargs=2, default=[1.0, 0.0], metavar=("TRAIN", "VAL"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()

    one = among_ranks(1, arguments)
    losses = {row["model"]: row["losses"] for row in one["groups"]}
    rows, fails = list[dict[str, Any]](), False
    print("model      ranks  equal counts  by events  balanced  epoch s: equal  balanced  loss differs by")
    for world in arguments.ranks:
        for row in among_ranks(world, arguments)["groups"]:
            expected = losses[row["model"]]
            row["loss_difference"] = max(
                abs(own - other) / abs(other)
                for name in ("equal", "balanced")
                for own, other in zip(row[name]["losses"], expected, strict=True)
            )
            rows.append(row)
            equal, balanced = row["equal"], row["balanced"]
            fails |= balanced["imbalance"] > TARGET or row["loss_difference"] > 1e-5
            print(
                f"{row['model']:10} {world:5}  {equal['imbalance']:12.3f}  {equal['imbalance_of_events']:9.3f}  "
                f"{balanced['imbalance']:8.3f}  {equal['epoch_seconds']:14.3f}  {balanced['epoch_seconds']:8.3f}  "
                f"{row['loss_difference']:.1e}   {row['cost']}"
            )
    print("model      one worker s  two workers s  sparse s  dense s  both at once s")
    for row in one["workers"]:
        print(
            f"{row['model']:10} {row['epoch_seconds_of_one_worker']:12.3f}  {row['epoch_seconds_of_two_workers']:13.3f}"
            f"  {row['sparse_product_seconds']:8.3f}  {row['dense_product_seconds']:7.3f}  "
            f"{row['overlap_seconds']:14.3f}"
        )
    if arguments.out is not None:
        found = {"one_rank": one["groups"], "groups": rows, "workers": one["workers"], "cores": os.cpu_count()}
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    return int(fails)


if __name__ == "__main__":
    raise SystemExit(main())
