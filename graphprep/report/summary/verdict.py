"""A partition beside METIS: the figures that decide, a verdict in a sentence or two, and advice that follows from them.

    this, metis     bottleneck_seconds, halo_rows, cut_edges, memory_bytes_max, step_seconds; metis is None without one
    ratio           the same of this partition over METIS'; None where METIS' is 0
    verdict, advice sentences

METIS' figures are those of the start that was made anyway (`reference` in a cache), so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphprep.cache.read import PartitionCache
from graphprep.report.formats import duration, times
from graphprep.traffic import Step, step_of
from graphprep.traffic.step import known_gpu

FIGURES = ("bottleneck_seconds", "halo_rows", "cut_edges", "memory_bytes_max", "step_seconds")
METIS_NAMES = {
    "metis": "METIS k-way",
    "metis-balanced": "METIS k-way balanced by nodes and in-edges",
    "metis-recursive": "METIS recursive bisection",
    "metis-volume": "METIS k-way by volume",
    "metis-hierarchical": "METIS along the topology",
}
WORTH_SAYING = 0.05
"""Share of the step that advice has to save."""
SAME = 0.005
"""Two steps that differ by less of them are called equal."""


def figures_of(quality: Mapping[str, Any]) -> dict[str, Any]:
    """The five figures of a quality."""
    memory = max(rank["memory_bytes"] for rank in quality["ranks"])
    return {name: memory if name == "memory_bytes_max" else quality[name] for name in FIGURES}


def beside_metis(
    cache: PartitionCache, quality: Mapping[str, Any], reference: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The comparison of a cache's parts with METIS, as plain JSON values.

    Args:
        cache: whose `reference` METIS' figures are.
        quality: of the cache, with the step.
        reference: METIS' figures, where the cache has none.
    """
    this = figures_of(quality)
    metis = None if cache.num_parts == 1 else cache.attributes.get("reference") or reference
    ratio = None if metis is None else {name: this[name] / metis[name] if metis[name] else None for name in FIGURES}
    step = step_of(quality)
    figures = {"this": this, "metis": None if metis is None else dict(metis), "ratio": ratio}
    if quality.get("batches"):
        return {**figures, "verdict": [_of_batches(quality["batches"], metis)], "advice": []}
    return {
        **figures,
        "verdict": [_against_metis(cache, this, metis), _of_step(cache, quality, step)],
        "advice": [*_about_metis(cache, ratio, metis), *_about_links(cache, quality, step), *_about_ranks(cache, step)],
    }


def metis_name(metis: Mapping[str, Any]) -> str:
    """For people: the method, and whether its parts were mapped to ranks."""
    where = "mapped to the ranks" if metis.get("is_mapped") else "parts in its own order"
    return f"{METIS_NAMES[metis.get('method', 'metis')]}, {where}"


def _against_metis(cache: PartitionCache, this: Mapping[str, Any], metis: Mapping[str, Any] | None) -> str:
    if metis is None:
        if cache.num_parts == 1:
            return "There is one part, so there is nothing to compare with METIS."
        return f"There are no figures of METIS: {_why_no_reference(cache)}; inspect --compare-metis makes them."
    name = metis_name(metis)
    if all(this[figure] == metis[figure] for figure in FIGURES):
        return f"These are the parts of {name}."
    step = this["step_seconds"] / metis["step_seconds"] if metis["step_seconds"] else 1.0
    sentence = f"The predicted step is {_change(step)} with the parts of {name}"
    if metis["bottleneck_seconds"] and metis["halo_rows"]:
        bottleneck, rows = (this[figure] / metis[figure] for figure in ("bottleneck_seconds", "halo_rows"))
        sentence += (
            f": the slowest link takes {times(bottleneck)} of its time there, for {times(rows)} of the halo rows"
        )
    broken = metis["broken_limits"]
    return f"{sentence}. METIS does not keep the limits on {', '.join(broken)}." if broken else f"{sentence}."


def _of_batches(batches: Mapping[str, Any], metis: Mapping[str, Any] | None) -> str:
    """What mini-batches fetch, where the parts were made for them."""
    seconds = duration(batches["bottleneck_seconds"])
    sentence = f"A step of mini-batches fetches about {batches['rows']:,.0f} rows, {seconds} on the slowest link"
    if metis is None or not metis.get("batch_rows") or not metis.get("batch_bottleneck_seconds"):
        return f"{sentence}."
    rows = batches["rows"] / metis["batch_rows"]
    slowest = batches["bottleneck_seconds"] / metis["batch_bottleneck_seconds"]
    return f"{sentence}; that is {times(rows)} of the rows and {times(slowest)} of the time of {metis_name(metis)}."


def _change(ratio: float) -> str:
    """Of a step's seconds."""
    if abs(ratio - 1) < SAME:
        return "as long as"
    return f"{100 * abs(1 - ratio):.0f} % {'shorter' if ratio < 1 else 'longer'} than"


def _why_no_reference(cache: PartitionCache) -> str:
    if "reference" not in cache.attributes:
        return "an earlier version made the cache"
    return f"no start of METIS was made, as the method is {cache.attributes['options']['method_chosen']}"


def _of_step(cache: PartitionCache, quality: Mapping[str, Any], step: Step) -> str:
    if not step.link_seconds:
        return f"Nothing is exchanged; a step of {duration(step.seconds)}, {_rates(cache)}, is computing."
    slowest = _slowest(quality)
    busy, waiting = _percent(step.link_seconds / step.seconds), _percent(_waiting(step))
    return (
        f"A step takes {duration(step.seconds)}, {_rates(cache)}: the slowest link, {slowest['name']} "
        f"({slowest['type']}), is busy for {busy} of it, and ranks wait {waiting} of it for links."
    )


def _rates(cache: PartitionCache) -> str:
    if cache.attributes["options"].get("row_seconds") is not None:
        return "by measured rates"
    gpus = [known_gpu(rank.get("gpu")) for rank in cache.attributes["topology"]["ranks"]]
    named = sorted({gpu.name for gpu in gpus if gpu is not None})
    if None in gpus:
        named.append("unknown devices, assumed as 1 TB/s and 13 TFLOP/s")
    return f"by the rates of {' and '.join(named)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _waiting(step: Step) -> float:
    """The share of a step that it would not take if links took no time."""
    return 1 - step.seconds_without_links / step.seconds if step.seconds else 0.0


def _slowest(quality: Mapping[str, Any]) -> Mapping[str, Any]:
    slowest: Mapping[str, Any] = max(quality["links"], key=lambda row: row["seconds"])
    return slowest


def _about_metis(cache: PartitionCache, ratio: Mapping[str, Any] | None, metis: Mapping[str, Any] | None) -> list[str]:
    """Advice where METIS' parts are the better ones."""
    if ratio is None or metis is None or not ratio["step_seconds"] or ratio["step_seconds"] < 1 + SAME:
        return []
    if metis["broken_limits"]:
        return ["a wider --imbalance allows parts like METIS', whose step is shorter but which exceed the limits"]
    if cache.attributes["options"]["effort"] == "best":
        return []
    return ["--effort best searches longer, as METIS' parts have the shorter predicted step"]


def _about_links(cache: PartitionCache, quality: Mapping[str, Any], step: Step) -> list[str]:
    """Advice where ranks wait for links: what the step would be with other ones, or with fewer bytes."""
    if _waiting(step) < WORTH_SAYING:
        return []
    slowest, advice = _slowest(quality), []
    latency = {row["name"]: row["seconds"] - row["bytes"] / (1e9 * row["gbytes_per_s"]) for row in quality["links"]}
    halved = max((row["seconds"] + latency[row["name"]]) / 2 for row in quality["links"])
    if slowest["seconds"]:  # with relays an exchange is longer than its slowest link: the stages follow each other
        halved *= quality["bottleneck_seconds"] / slowest["seconds"]
    others = max((row["seconds"] for row in quality["links"] if row["type"] != slowest["type"]), default=0.0)

    def saved(link_seconds: float) -> float:
        return 1 - replace(step, link_seconds=link_seconds).seconds / step.seconds

    messages = f"{slowest['messages']:,} message{'' if slowest['messages'] == 1 else 's'}"
    if latency[slowest["name"]] > slowest["seconds"] / 2:
        advice.append(
            f"the slowest link takes {_percent(latency[slowest['name']] / slowest['seconds'])} of its time to start "
            f"{messages}: fewer ranks help more than fewer bytes"
        )
    widths = cache.attributes["options"].get("model_widths")
    if saved(halved) >= WORTH_SAYING and (widths is None or widths["wire"] == "fp32"):
        advice.append(f"train --wire fp16 sends half of fp32's bytes: a step {_percent(saved(halved))} shorter")
    if others and saved(others) >= WORTH_SAYING:
        machines = {rank["machine"] for rank in cache.attributes["topology"]["ranks"]}
        what = "fewer machines with more ranks each" if len(machines) > 1 and slowest["type"] == "network" else "ranks"
        advice.append(
            f"{what} that do not exchange over links of type {slowest['type']}: a step up to "
            f"{_percent(saved(others))} shorter"
        )
    return advice


def _about_ranks(cache: PartitionCache, step: Step) -> list[str]:
    """Advice from what the ranks compute: whether one of them would do, or more of them help."""
    ranks = cache.attributes["topology"]["ranks"]
    alike = len({(rank.get("speed", 1.0), rank.get("gpu")) for rank in ranks}) == 1
    one_rank = float((step.node_P + step.local_P + step.halo_P).sum())
    if alike and len(ranks) > 1 and step.seconds and one_rank <= step.seconds:
        return [
            f"one rank alone would take {duration(one_rank)} for a step, without any exchange: train on one where its "
            "memory suffices"
        ]
    if len(ranks) > 1 and step.seconds and _waiting(step) < WORTH_SAYING:
        return ["links cost less than a twentieth of the step: more ranks would shorten it, faster links would not"]
    return []


def compared_verdict(caches: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which of several partitions has the shortest step, in a sentence; none where they do not compare.

    Args:
        caches: rows with `cache`, `topology`, `row_bytes` and the five figures.
    """
    if len({(row["topology"], row["row_bytes"]) for row in caches}) > 1:
        return []
    best, second, *_ = sorted(caches, key=lambda row: row["step_seconds"])
    if second["step_seconds"] <= best["step_seconds"] * (1 + SAME):
        return [f"{best['cache']} and {second['cache']} have the shortest predicted steps, which are equal."]
    step = _change(best["step_seconds"] / second["step_seconds"])
    rows = best["halo_rows"] / second["halo_rows"] if second["halo_rows"] else 1.0
    return [
        f"{best['cache']} has the shortest predicted step, {step} that of {second['cache']}, for {times(rows)} of its "
        "halo rows."
    ]
