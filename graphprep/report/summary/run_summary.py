"""The figures of a training run, as plain JSON values.

    folder, dataset, model, ranks, device, metric, task
    verdict, advice     sentences; see `run_verdict`
    epoch               of the validated epochs after the first line: means of seconds by kind, bytes
    by_rank             one row a rank: seconds by kind, by the types of its links, memory and its estimate
    curves              epoch, loss and val of the validated epochs, of at most POINTS of them
    groups              up to GROUPS ranges of epochs: loss and metric at their ends, means of the rest, by rank too
    by_link             one row a layer and direction: bytes of rows by type of link
    predicted           one row a figure: what the cache or the trainer predicted, and what was measured
    without_predictions why there are none; None where there are
    result, options     as in result.json and config.toml

The seconds of an epoch include its validation. Runs of earlier releases have no history: `groups` is empty then, and
`epoch` is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphprep.cache.read import PartitionCache
from graphprep.errors import CacheError, TrainingError
from graphprep.interop.training_run import TrainingRun
from graphprep.report.summary.cache_summary import quality_of, what_if
from graphprep.report.summary.run_verdict import KINDS, run_advice, run_verdict

GROUPS, MIN_GROUPS, CELLS = 24, 6, 400
"""Ranges of epochs at most, and at most so many that groups times ranks are CELLS, unless they are too few then."""
POINTS = 200
NEEDED = ("sent_for", "pairs", "weight_bytes_sent", "parameters", "setup_seconds", "metric")
"""What a result has since releases that counted all bytes."""
WIRE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}
"""Of a value on its way."""


def run_summary(run: TrainingRun) -> dict[str, Any]:
    """The figures of a run.

    Raises:
        TrainingError: its history is damaged, an early release made it, or it learnt a stream of events.
    """
    result, lines = run.result, run.lines
    if "events" in result:
        raise TrainingError(
            f"{run.folder} is a run on a stream of events, and the page is of runs on a graph without times; its "
            "history.jsonl and result.json have the figures"
        )
    if missing := [name for name in NEEDED if name not in result]:
        raise TrainingError(f"{run.folder} is a run of an early release, whose result has no {missing[0]}; train again")
    summary: dict[str, Any] = {
        "folder": str(run.folder),
        **{name: result[name] for name in ("dataset", "model", "ranks", "device", "metric", "task")},
        "epoch": _epoch(lines, result["metric"]),
        "by_rank": _by_rank(lines, result),
        "curves": _curves(lines, result["metric"]),
        "groups": [
            _group(chunk, result["metric"], result["ranks"])
            for chunk in _chunks(lines, max(MIN_GROUPS, min(GROUPS, CELLS // result["ranks"])))
        ],
        "by_link": _by_link(result["pairs"]),
        "result": result,
        "options": run.options,
    }
    predicted: list[dict[str, Any]] = []
    reason = None
    try:
        cache = run.cache
        if cache.num_parts == result["ranks"]:
            predicted = _predicted(cache, summary)
        else:
            reason = f"another cache, of {cache.num_parts} parts, lies at {cache.folder} now"
    except CacheError as error:
        reason = str(error)
    summary |= {"predicted": predicted, "without_predictions": reason}
    return summary | {"verdict": run_verdict(summary), "advice": run_advice(summary)}


def _curves(lines: Sequence[dict[str, Any]], metric: str) -> dict[str, list[Any]]:
    some = lines[:: -(-len(lines) // POINTS) or 1]
    if lines and some[-1] is not lines[-1]:
        some = [*some[: POINTS - 1], lines[-1]]
    keys = {"epoch": "epoch", "loss": "loss", "val": f"val_{metric}"}
    return {name: [line[key] for line in some] for name, key in keys.items()}


def _chunks(lines: Sequence[dict[str, Any]], most: int) -> list[list[tuple[int, dict[str, Any]]]]:
    """Lines in at most so many ranges, each line with the number of epochs since the line before."""
    before = [lines[0]["epoch"] - _first_step(lines), *(line["epoch"] for line in lines)] if lines else []
    counted = [(max(1, line["epoch"] - last), line) for line, last in zip(lines, before, strict=False)]
    size = -(-len(lines) // most) or 1
    return [counted[start : start + size] for start in range(0, len(counted), size)]


def _first_step(lines: Sequence[Mapping[str, Any]]) -> int:
    """The epochs of the first line: as many as of the second, unless that begins before epoch 1."""
    step = lines[1]["epoch"] - lines[0]["epoch"] if len(lines) > 1 else 1
    return int(min(step, lines[0]["epoch"]))


def _have_ranks(lines: Sequence[Mapping[str, Any]], num_ranks: int) -> bool:
    """Whether lines are of so many ranks: a resumed run may have others, and earlier releases wrote none."""
    return all(len(line.get("ranks", ())) == num_ranks for line in lines)


def _group(chunk: Sequence[tuple[int, dict[str, Any]]], metric: str, num_ranks: int) -> dict[str, Any]:
    epochs = sum(number for number, _ in chunk)
    lines = [line for _, line in chunk]
    last = lines[-1]
    return {
        "first_epoch": lines[0]["epoch"] - chunk[0][0] + 1,
        "last_epoch": last["epoch"],
        "loss": last["loss"],
        "val": last[f"val_{metric}"],
        "epoch_seconds": sum(line["seconds"] for line in lines) / epochs,
        **{kind: _mean_of(lines, kind, epochs) for kind in KINDS},
        "bytes_sent": sum(line["bytes_sent"] for line in lines) / epochs,
        "memory_bytes_max": last.get("memory_bytes_max"),
        "ranks": [
            {"rank": rank, **{kind: _mean_of([line["ranks"][rank] for line in lines], kind, epochs) for kind in KINDS}}
            for rank in range(num_ranks if _have_ranks(lines, num_ranks) else 0)
        ],
    }


def _mean_of(rows: Iterable[Mapping[str, Any]], name: str, epochs: int) -> float | None:
    """The mean an epoch; None where it was not measured."""
    values = [row.get(name) for row in rows]
    return None if None in values else sum(value for value in values if value is not None) / epochs


def _epoch(lines: Sequence[dict[str, Any]], metric: str) -> dict[str, Any] | None:
    """Means over the lines after the first, which has what is sent once; over that one if there is no other."""
    if not lines:
        return None
    [all_lines] = _chunks(lines, 1)
    later = all_lines[1:] or all_lines
    group = _group(later, metric, 0)
    return {name: group[name] for name in ("first_epoch", "last_epoch", "epoch_seconds", *KINDS, "bytes_sent")} | {
        "epochs": sum(number for number, _ in later)
    }


def _by_rank(lines: Sequence[dict[str, Any]], result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sums over all lines, and the memory."""
    rows = []
    for rank in range(result["ranks"]):
        of_rank = [line["ranks"][rank] for line in lines if _have_ranks([line], result["ranks"])]
        by_type: dict[str, float] = {}
        for row in of_rank:
            for kind, seconds in row["exchange_seconds_by_link_type"].items():
                by_type[kind] = by_type.get(kind, 0.0) + seconds
        rows.append(
            {
                "rank": rank,
                **{kind: _mean_of(of_rank, kind, 1) if of_rank else None for kind in KINDS},
                "exchange_seconds_by_link_type": by_type,
                "memory_bytes": _of_rank(result.get("memory_bytes_by_rank"), rank),
                "memory_estimate_bytes": _of_rank(result.get("memory_estimate_by_rank"), rank),
            }
        )
    return rows


def _of_rank(values: Sequence[int] | None, rank: int) -> int | None:
    return values[rank] if values else None


def _by_link(pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The bytes of each layer and direction by type of link, in the order of the trainer."""
    types = sorted({pair["link_type"] for pair in pairs})
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for pair in pairs:
        start = {"layer": pair["layer"], "direction": pair["direction"], "bytes_sent": 0, "bytes_skipped": 0}
        row = rows.setdefault((pair["layer"], pair["direction"]), start | {"link_types": dict.fromkeys(types, 0)})
        row["bytes_sent"] += pair["bytes_sent"]
        row["bytes_skipped"] += pair["bytes_skipped"]
        row["link_types"][pair["link_type"]] += pair["bytes_sent"]
    return list(rows.values())


def _predicted(cache: PartitionCache, summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the cache's cost model and the trainer's memory model said, and what was measured."""
    result, options = summary["result"], summary["options"]
    sent_rows = int(cache.array("traffic_rows").sum())
    wire = result["wire"] if result["wire"] != "fp32" else result["precision"]
    rows = []
    for exchange in result["exchanges"]:
        sends = exchange["exchanges"] * exchange["share_sent"]
        if exchange["direction"] == "setup" or not sends:
            continue
        where = f"layer {exchange['layer']} {exchange['direction']}"
        row_bytes = exchange["width"] * WIRE_BYTES[wire] + (2 if wire == "int8" else 0)
        seconds_by_rank, predicted = exchange["seconds_by_rank"], what_if(cache, None, row_bytes)["bottleneck_seconds"]
        seconds = None if seconds_by_rank is None else max(seconds_by_rank) / sends
        rows += [
            _row(f"seconds of an exchange, {where}", predicted, seconds),
            _row(f"bytes of an exchange, {where}", sent_rows * row_bytes, exchange["bytes_sent"] / sends),
        ]
    if summary["epoch"] is not None:
        steps = 2 * options["layers"] - 1
        rows.append(
            _row("seconds of an epoch", steps * quality_of(cache)["step_seconds"], summary["epoch"]["epoch_seconds"])
        )
    fullest = max(summary["by_rank"], key=lambda row: row["memory_bytes"] or 0)
    if fullest["memory_bytes"] is not None:
        what = f"bytes of memory, rank {fullest['rank']}"
        rows.append(_row(what, fullest["memory_estimate_bytes"], fullest["memory_bytes"]))
    return rows


def _row(what: str, predicted: float | None, measured: float | None) -> dict[str, Any]:
    ratio = measured / predicted if predicted and measured is not None else None
    return {"what": what, "predicted": predicted, "measured": measured, "ratio": ratio}
