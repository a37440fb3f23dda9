"""What a training run says about itself, in a sentence or two, and advice that follows from its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphprep.report.formats import duration, times

KINDS = ("compute_seconds", "exchange_seconds", "waiting_seconds")
ERRORS = ("mse", "mae")
"""The metrics that are no shares."""
WORTH_SAYING = 0.2
"""Share of the seconds from which advice is given about them."""
UNEVEN = 1.15
"""Computing of one rank over the mean, from which parts are called uneven."""
LAST = 0.95
"""Share of the epochs after which a best epoch is one of the last."""


def run_verdict(summary: Mapping[str, Any]) -> list[str]:
    """What came out, and what the seconds of an epoch went into.

    Args:
        summary: of the run, without verdict and advice.
    """
    result = summary["result"]
    metric = result["metric"]
    name = metric.replace("_", " ")
    test, val = (_value(result[f"{split}_{metric}"], metric) for split in ("test", "val"))
    sentences = [
        f"The test {name} is {test} and the validation {name} {val}, by the weights of epoch {result['best_epoch']} of "
        f"{result['epochs']}{_why_it_ended(summary)}."
    ]
    epoch, by_rank = summary["epoch"], summary["by_rank"]
    if epoch is None:
        return [*sentences, "There is no history: an earlier release kept none, or no epoch was run."]
    if not is_measured(by_rank):
        return [*sentences, f"An epoch takes {duration(epoch['epoch_seconds'])}."]
    shares = {kind: mean_share(by_rank, kind) for kind in KINDS}
    slowest = _slowest(by_rank)
    sentence = (
        f"An epoch takes {duration(epoch['epoch_seconds'])}: ranks compute {_percent(shares['compute_seconds'])} of it"
    )
    if len(by_rank) > 1:
        sentence += (
            f", wait {_percent(shares['exchange_seconds'])} of it for rows of other ranks"
            f"{_by_type(by_rank)}, and {_percent(shares['waiting_seconds'])} in sums over all ranks"
        )
        sentences.append(f"{sentence}.")
        return [*sentences, f"Rank {slowest['rank']} computes longest, {times(_unevenness(by_rank))} times the mean."]
    return [*sentences, f"{sentence}."]


def run_advice(summary: Mapping[str, Any]) -> list[str]:
    """What could make the run shorter or better, the most important first."""
    result, options, by_rank = summary["result"], summary["options"], summary["by_rank"]
    advice = []
    if is_measured(by_rank) and len(by_rank) > 1:
        advice += _about_seconds(by_rank, result, options)
    elif result["best_epoch"] == 0:
        return []
    if result["best_epoch"] >= LAST * result["epochs"] and result["epochs"] == options["epochs"] > 1:
        advice.append("the metric was still improving at the end: more --epochs may give a better one")
    if result.get("saturated"):
        advice.append("values were too large for --wire fp16: --wire bf16 has fp32's range")
    return advice


def _about_seconds(
    by_rank: Sequence[Mapping[str, Any]], result: Mapping[str, Any], options: Mapping[str, Any]
) -> list[str]:
    advice = []
    exchange, waiting = (mean_share(by_rank, kind) for kind in KINDS[1:])
    if exchange + waiting >= WORTH_SAYING and _unevenness(by_rank) >= UNEVEN:
        advice.append(
            f"rank {_slowest(by_rank)['rank']} computes {times(_unevenness(by_rank))} times the mean, and others wait: "
            "a smaller --imbalance of partition, or the speed of ranks in the topology, evens their work"
        )
    if exchange >= WORTH_SAYING and result["wire"] == "fp32" and result["precision"] == "fp32":
        advice.append(f"{_percent(exchange)} of the seconds are exchanges: --wire bf16 sends half of the bytes")
    if exchange >= WORTH_SAYING and result["staleness"] == "none" and result["exchange"] == "boundary":
        advice.append("--staleness adaptive:3 sends rows once in four epochs and uses copies in the others")
    if (
        exchange + waiting >= WORTH_SAYING
        and options.get("eval_every") == 1
        and options.get("validate_from") == "exact"
    ):
        advice.append("--eval-every 5 leaves out four of five validations, which exchange rows too")
    if mean_share(by_rank, "compute_seconds") < 1 - 2 * WORTH_SAYING:
        advice.append("ranks wait for more than two fifths of the time: fewer of them may be as fast")
    return advice


def is_measured(by_rank: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the seconds of all ranks are known by kind, as on CPUs."""
    return all(row[kind] is not None for row in by_rank for kind in KINDS)


def mean_share(by_rank: Sequence[Mapping[str, Any]], kind: str) -> float:
    """The share of one kind in the seconds of all ranks."""
    total = sum(row[name] for row in by_rank for name in KINDS)
    part: float = sum(row[kind] for row in by_rank)
    return part / total if total else 0.0


def _why_it_ended(summary: Mapping[str, Any]) -> str:
    result, options = summary["result"], summary["options"]
    if result["epochs"] >= options["epochs"]:
        return ""
    return f", after which early stopping ended the run (--patience {options['patience']})"


def _slowest(by_rank: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(by_rank, key=lambda row: row["compute_seconds"])


def _unevenness(by_rank: Sequence[Mapping[str, Any]]) -> float:
    """The longest computing time of a rank over the mean."""
    seconds = [row["compute_seconds"] for row in by_rank]
    mean = sum(seconds) / len(seconds)
    return max(seconds) / mean if mean else 1.0


def _by_type(by_rank: Sequence[Mapping[str, Any]]) -> str:
    """Which type of link most of the exchanges' seconds belong to, where there are several."""
    sums: dict[str, float] = {}
    for row in by_rank:
        for kind, seconds in row["exchange_seconds_by_link_type"].items():
            sums[kind] = sums.get(kind, 0.0) + seconds
    if len(sums) < 2 or not sum(sums.values()):
        return ""
    kind = max(sums, key=lambda kind: sums[kind])
    return f" ({_percent(sums[kind] / sum(sums.values()))} of that over {kind})"


def _value(value: float | None, metric: str) -> str:
    if value is None:
        return "not defined"
    return f"{value:.5g}" if metric in ERRORS else f"{100 * value:.2f} %"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
