"""Train a model of your own on four ranks: `graphprep train CACHE --model FILE.py:Class`.

The trainer builds the class with a `Plan` (sizes, options, first weights) and calls it once a pass with a `Graph`. Rows
of other ranks are behind `aggregate` and `maximum`.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import torch


class MeanAndMaximum(torch.nn.Module):
    """A layer of each node and the mean of its neighbours, then one of each node and the maximum of its neighbours."""

    sums = "mean"
    """what an edge counts in `aggregate`"""

    def __init__(self, plan: Any) -> None:
        super().__init__()
        self.own, self.mean = plan.weight(plan.num_features, plan.hidden), plan.weight(plan.num_features, plan.hidden)
        self.own_2, self.max_2 = plan.weight(plan.hidden, plan.num_classes), plan.weight(plan.hidden, plan.num_classes)

    def forward(self, graph: Any) -> torch.Tensor:
        """The scores [n, C] of this rank's nodes."""
        rows = graph.features
        hidden = (rows.own(self.own) + rows.aggregate(self.mean)).float().relu()
        rows = graph.rows(hidden)
        scores: torch.Tensor = (rows.own(self.own_2) + rows.maximum(self.max_2)).float()
        return scores


def run(*words: str) -> None:
    """Run a graphprep command, as `graphprep WORDS` would."""
    print("$ graphprep", *words, flush=True)
    subprocess.run([sys.executable, "-m", "graphprep", *words], check=True)


def main() -> None:
    """Train the class above on handwritten digits, joined to those that look most like them."""
    run("fetch", "digits")
    run("partition", "digits", "--topology", "2x2")
    run("train", "digits/2x2", "--model", f"{__file__}:MeanAndMaximum", "--hidden", "32", "--epochs", "30")


if __name__ == "__main__":
    main()
