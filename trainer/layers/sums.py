"""Decides whether the first layer uses the sums of features that a cache has, by the options and the cache's root.

They suit a model that sums by the same rule, if dropout does not change the features before they are summed.
"""

from __future__ import annotations

from trainer.base.errors import TrainingError
from trainer.config.options import Options
from trainer.data.cache import Cache


def reads_own_rows(options: Options) -> bool:
    """Whether the first layer reads each node's own features besides the sums."""
    return options.model != "gcn" or options.residual


def sums_suit(options: Options, cache: Cache) -> bool:
    """Whether the first layer begins with the cache's sums."""
    return cache.aggregated != "none" and _obstacle(options, cache) is None


def allows_sparse_features(options: Options, cache: Cache | None) -> bool:
    """Whether features are held by the entries that are not 0, if these are few.

    Not where they are needed as rows, by a maximum, by messages or a sequential exchange, or not at all. Where types
    are kept apart, each rank decides type by type, since their features stay where they are.

    Args:
        options: of the run.
        cache: None where there is none yet: one of a single node type, with features and without sums of them.
    """
    takes_maximum = (options.model, options.aggregator) == ("sage", "max")
    wants_rows = options.exchange == "sequential" or takes_maximum or options.sums_messages
    if wants_rows or options.dense_features:
        return False
    if cache is None:
        return True
    return (reads_own_rows(options) or not sums_suit(options, cache)) and not cache.is_typed_for(options.model)


def remark_on_sums(options: Options, cache: Cache) -> str | None:
    """A sentence for the log if the cache has sums that are not used, else None."""
    if cache.aggregated == "none" or sums_suit(options, cache):
        return None
    return f"the first layer sums the features itself, since {_obstacle(options, cache)}"


def check_sums(options: Options, cache: Cache) -> None:
    """Refuse sums that do not suit where the cache has no features.

    Raises:
        TrainingError: the cache has sums alone, and they are not those of this run.
    """
    if cache.aggregated != "none" and not cache.has_features and not sums_suit(options, cache):
        raise TrainingError(
            f"{cache.folder} has sums of features and not the features, and {_obstacle(options, cache)}; change that, "
            "or partition without --features none"
        )


def _obstacle(options: Options, cache: Cache) -> str | None:
    """Why the sums are not the first layer's own, or None."""
    rules = {"gcn": "gcn", "sage": options.aggregator, "rgcn": "mean"}  # in the words of the cache format
    if rules.get(options.model) != cache.aggregated:
        flag = f"--model {options.model}" if options.aggregator == "mean" else f"--aggregator {options.aggregator}"
        return f"the cache's sums are by the rule {cache.aggregated}, which is not that of {flag}"
    if options.inductive:
        return "--inductive trains on another graph than the one that they were made of"
    if options.learns_links:
        return f"--task {options.task} takes validation and test edges out of the graph that they were made of"
    if not cache.has_features and reads_own_rows(options):
        return "--residual adds each node's own features"
    if options.first_dropout:
        return f"--input-dropout {options.first_dropout:g} drops entries of them that the cache's sums contain"
    return None
