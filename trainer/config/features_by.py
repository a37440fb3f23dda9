"""Which runs may share features out by columns (`--features-by columns`), and which rows have to travel."""

from __future__ import annotations

from trainer.config.options import ATTENTION_MODELS, TYPED_MODELS, Options
from trainer.config.row_cache import kept_share


def obstacle_to_columns(options: Options) -> str | None:
    """Why the features cannot be shared out by columns under these options; None if they can."""
    for reason, applies in {
        f"--model {options.model}: attention reads whole rows of features": options.model in ATTENTION_MODELS,
        f"--model {options.model}: its first layer reads rows by relation": options.model in TYPED_MODELS,
        "--edge-features: layer 1 adds what it reads of edges to whole rows": options.reads_edge_features,
        "--control-variates: they fetch whole rows of the features' exact sums": options.control_variates,
    }.items():
        if applies:
            return reason
    return None


def conflict_with_columns(options: Options) -> str | None:
    """What `--features-by columns` cannot be with; None for nothing."""
    reason = obstacle_to_columns(options)
    if reason is None and kept_share(options.remote_row_cache):
        return "--remote-row-cache: no rows of other ranks are fetched that could be kept"
    return reason


def first_width(options: Options, num_outputs: int) -> int:
    """The width of the rows that layer 1 of a built-in model computes before its first nonlinearity.

    Args:
        options: of the run.
        num_outputs: scores a node, or the width of the rows that pairs are scored by.
    """
    is_last = options.layers == 1 and options.jumping == "none" and options.model != "gin"
    return num_outputs if is_last else options.hidden
