"""How much control variates reduce the variance of scores on sampled neighbourhoods, and whether these are unbiased.

A 2-layer GCN without dropout learns for some epochs on batches with `--control-variates`, on one rank. At the end of
the last epoch its histories are those of the epoch's beginning, as in any step. Then the scores of all training nodes
are computed with the same weights from many draws of neighbours, with control variates and without, and once from all
neighbours.

    variance    of a score over the draws, mean over nodes and classes: with control variates over without
    bias        the mean of a score over the draws minus that from all neighbours, in standard errors of that mean:
                root mean square over nodes and classes, which is 1 where there is none

Prints a row a data set, writes JSON with --out. The real graphs need --mirror (or the network).
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.staleness import cache_of
from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import PartBatches, part_batches
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.config.options import Options
from trainer.data.cache import open_cache
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.minibatch.pipeline import ReadyBatch
from trainer.minibatch.ring import Slot
from trainer.reporting.report import Report
from trainer.run import train
from trainer.training.mini_batches import MiniBatches

MOST_VARIANCE, MOST_BIAS = 0.1, 1.2
"""With control variates over without; in standard errors."""


class Spread:
    """Mean and variance of what is added (Welford 1962)."""

    def __init__(self) -> None:
        self.count, self.mean, self._squares = 0, torch.zeros(()), torch.zeros(())

    def add(self, values: Tensor) -> None:
        values = values.double()
        self.count += 1
        difference = values - self.mean
        self.mean = self.mean + difference / self.count
        self._squares = self._squares + difference * (values - self.mean)

    @property
    def variance(self) -> Tensor:
        return self._squares / (self.count - 1)


def scores_of_draws(batches: MiniBatches, cache: Path, fanout: int) -> Callable[..., Tensor]:
    """What computes the scores of all training nodes from one draw."""
    seeds = batches._seeds.seeds.numpy()

    def sampler(fanouts: list[int]) -> PartBatches:
        options = BatchOptions(
            batch_size=len(seeds),
            fanouts=fanouts,
            seed=0,
            sums="gcn",
            is_typed=False,
            node_type="node",
            histories=True,
        )
        return part_batches(cache, 0, seeds, options, (1, 1))

    samplers = {"control": sampler([fanout, 0]), "plain": sampler([fanout, fanout]), "all": sampler([-1, -1])}
    histories = batches._histories
    assert histories is not None

    def scores(kind: str, draw: int) -> Tensor:
        arrays = {name: torch.from_numpy(values) for name, values in samplers[kind].make(draw, 0).items()}
        slot = Slot(number=0, epoch=draw, step=0, started=0.0, ended=0.0, arrays=arrays)
        rows = batches._stream.rows
        assert rows is not None
        plans = [
            {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
            for prefix in ("rows/node/", "histories/node/")
        ]
        features = rows.finish(rows.begin(plans[:1]))
        pending = histories.fixed.begin(plans[1:])
        of_layers = histories.finish(pending, histories.send(pending))
        batches._histories = histories if kind == "control" else None
        with torch.no_grad():
            found = batches._output(
                ReadyBatch(slot=slot, features=features, histories=of_layers), PassContext(epoch=1, training=True)
            )
        return found[torch.argsort(arrays["seed_row"])]

    return scores


def measured(name: str, cache: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The row of one data set."""
    found: dict[str, Any] = {}

    def probe(batches: MiniBatches) -> None:
        scores = scores_of_draws(batches, cache, options.fanout)
        exact = scores("all", 1).double()
        for kind in ("control", "plain"):
            spread = Spread()
            for draw in range(1, options.draws + 1):
                spread.add(scores(kind, draw))
            variance, error = spread.variance, spread.mean - exact
            varies = variance > 1e-12 * exact.square().mean()
            standard = error[varies] / (variance[varies] / spread.count).sqrt()
            found[kind] = {"variance": float(variance.mean()), "bias": float(standard.square().mean().sqrt())}
        close(batches)

    close = MiniBatches.close
    run = Options(
        cache=str(cache),
        dropout=0.0,
        epochs=options.epochs,
        patience=0,
        batch_size=options.batch_size,
        fanouts=f"{options.fanout},{options.fanout}",
        control_variates=True,
        device="cpu",
    )
    cpu = torch.device("cpu")
    with (
        patch.object(MiniBatches, "close", probe),
        Communicator(RankInfo(), cpu, timeout=600.0, clock=Clock(cpu)) as communicator,
    ):
        train(run, open_cache(str(cache)), communicator, Report(speaks=True, as_json=True, output=io.StringIO()))
    row = {
        "dataset": name,
        "draws": options.draws,
        "epochs": options.epochs,
        "fanout": options.fanout,
        **{f"{kind}_{what}": value for kind, of_kind in found.items() for what, value in of_kind.items()},
        "variance": found["control"]["variance"] / found["plain"]["variance"],
        "bias": found["control"]["bias"],
    }
    print(
        f"{name:12} {options.draws} draws of {options.fanout} neighbours after {options.epochs} epochs: variance "
        f"{row['variance']:.4f} of plain draws; bias {row['bias']:.2f} standard errors, of plain draws "
        f"{row['plain_bias']:.2f}",
        flush=True,
    )
    return row


def main() -> int:
    """Returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", help="where to take the real graphs from")
    parser.add_argument("--datasets", nargs="+", default=["cora"], help="names of the registry, or sbm")
    parser.add_argument("--fanout", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    rows = [measured(name, cache_of(name, 1, arguments.mirror), arguments) for name in arguments.datasets]
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(any(row["variance"] > MOST_VARIANCE or row["bias"] > MOST_BIAS for row in rows))


if __name__ == "__main__":
    sys.exit(main())
