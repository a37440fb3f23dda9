"""Seconds of an epoch's exchanges with relays and without, measured beside predicted.

Four machines of two ranks, all on equal cables, at each rate. Every graph is cut once (`--relay auto`, whose cache has
relays or not), and GCN with 3 layers is trained from that cache with `--relay auto` and with `--relay off`, exactly
and in fp32, several times in turn; the least of each is taken, since a busy machine only adds.

    ratio       measured seconds with relays over those without. With two ranks a machine and the same parts it cannot
                be below a half, as every row goes to one rank of a machine in place of two
    predicted   by the cost model, at the share of the links that messages get and with what starting exchanges takes,
                both fitted to the runs without relays of the block model (`calibration`), which are not judged

Prints a row a case, writes JSON with --out after each rate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.network import needs
from benchmarks.network.calibration import GRAPH, fitted
from benchmarks.network.cases import GRAPHS, Links, cache_of, store_of
from benchmarks.network.exchange_time import measured_seconds, predicted_seconds, row_bytes, run_of
from benchmarks.network.laboratory import laboratory
from benchmarks.network.ranks import train_all
from graphprep.cache.read import PartitionCache
from graphprep.partition.request import PartitionRequest

COMPARED = (GRAPH, "rmat", "ego-twitter", "coauthor-cs")
MBITS = (20.0, 200.0)
MACHINES, RANKS_EACH = 4, 2
RELAY = ("auto", "off")
NEAR, SHARE_NEAR = 0.25, 0.9
MOST = {"rmat": 0.45, "ego-twitter": 0.70}
MOST_WHERE_CHOSEN = 1.02


def links_at(mbits: float) -> Links:
    """The machines at a rate of their cables."""
    name = f"{MACHINES}x{RANKS_EACH}-{mbits:g}"
    return Links(name=name, ranks_each=RANKS_EACH, mbits=(mbits,) * MACHINES)


def cut(graph: str, links: Links, folder: Path) -> Path:
    """The cache of a graph, with relays where the cost model finds the exchange faster."""
    request = PartitionRequest(row_bytes=GRAPHS[graph][0] * 4)
    return cache_of(store_of(graph, folder), links, request, "relay", folder)


def at_rate(mbits: float, graphs: Sequence[str], folder: Path, repeats: int, patience_s: float) -> list[dict[str, Any]]:
    """All graphs on machines with such cables, a row each."""
    links = links_at(mbits)
    caches = {graph: cut(graph, links, folder) for graph in graphs}
    cases = list(itertools.product(range(repeats), graphs, RELAY))
    with laboratory(links.topology) as lab:
        runs = [{**run_of(graph, caches[graph]), "relay": relay} for _, graph, relay in cases]
        results = train_all(lab, runs, patience_s=patience_s)
    measured: dict[tuple[str, str], list[float]] = {}
    for (_, graph, relay), result in zip(cases, results, strict=True):
        measured.setdefault((graph, relay), []).append(measured_seconds(result))
    rows = []
    for graph, cache in caches.items():
        hidden, relay_figures = GRAPHS[graph][0], PartitionCache(cache).quality["relay"]
        row: dict[str, Any] = {
            "graph": graph,
            "mbits": mbits,
            "has_relays": relay_figures is not None,
            "relay": relay_figures,
            "row_bytes": row_bytes(cache, hidden),
        }
        for relay in RELAY:
            row[f"links_seconds_{relay}"] = predicted_seconds(
                cache, links, hidden, share=1.0, start_seconds=0.0, relay=relay == "auto"
            )
            row[f"measured_{relay}"] = measured[graph, relay]
            row[f"measured_seconds_{relay}"] = min(measured[graph, relay])
        row["ratio"] = row["measured_seconds_auto"] / row["measured_seconds_off"]
        row["links_ratio"] = row["links_seconds_auto"] / row["links_seconds_off"]
        rows.append(row)
        print(
            f"{mbits:5g} Mbit/s {graph:12} {'relays' if row['has_relays'] else 'none':6} measured "
            f"{row['measured_seconds_auto']:7.3f} s, without {row['measured_seconds_off']:7.3f} s, ratio "
            f"{row['ratio']:.2f}, by the model's links {row['links_ratio']:.2f}",
            flush=True,
        )
    return rows


def judged(rows: Sequence[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The whole document: rows with predictions where the block model is among them, and a summary."""
    known = [row for row in rows if row["graph"] == GRAPH]
    found: dict[str, Any] = {}
    if known:
        share, start = fitted(*([row[f"{side}_seconds_off"] for row in known] for side in ("links", "measured")))
        found["calibration"] = {"share": share, "start_seconds": start}
        for row, relay in itertools.product(rows, RELAY):
            links = links_at(row["mbits"])
            cache, hidden = cut(row["graph"], links, folder), GRAPHS[row["graph"]][0]
            predicted = predicted_seconds(cache, links, hidden, share=share, start_seconds=start, relay=relay == "auto")
            row[f"predicted_seconds_{relay}"] = predicted
            row[f"measured_over_predicted_{relay}"] = row[f"measured_seconds_{relay}"] / predicted
    return {**found, "summary": summary(rows), "cases": list(rows)}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How good predictions are, but for direct sends of the block model, and with relays over without, by graph."""
    near = [
        abs(row[key] - 1) <= NEAR
        for row in rows
        for key in (f"measured_over_predicted_{relay}" for relay in RELAY)
        if key in row and (row["graph"] != GRAPH or (row["has_relays"] and key.endswith("auto")))
    ]
    return {
        "share_near": sum(near) / len(near) if near else None,
        "greatest_ratio_where_chosen": max((row["ratio"] for row in rows if row["has_relays"]), default=None),
        "ratios": {
            graph: [row["ratio"] for row in rows if row["graph"] == graph]
            for graph in dict.fromkeys(row["graph"] for row in rows)
        },
    }


def main() -> int:
    """Returns 1 if a target is missed, 2 where namespaces cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for stores and caches; used again")
    parser.add_argument("--graphs", nargs="+", choices=COMPARED, default=COMPARED)
    parser.add_argument("--mbits", nargs="+", type=float, default=MBITS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--patience", type=float, default=1200.0, help="seconds for one rate")
    parser.add_argument("--only-prepare", action="store_true", help="make stores and caches, and stop")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    needs.require()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for mbits in arguments.mbits:
        if arguments.only_prepare:
            for graph in arguments.graphs:
                figures = PartitionCache(cut(graph, links_at(mbits), arguments.folder)).quality["relay"]
                print(f"{mbits:5g} Mbit/s {graph:12} {figures or 'no relays'}", flush=True)
            continue
        rows += at_rate(mbits, arguments.graphs, arguments.folder, arguments.repeats, arguments.patience)
        if arguments.out:
            arguments.out.write_text(json.dumps(judged(rows, arguments.folder), indent=1))
    if not rows:
        return 0
    document = judged(rows, arguments.folder)
    for row, relay in itertools.product(rows, RELAY):
        if "calibration" in document:
            ratio = row[f"measured_over_predicted_{relay}"]
            print(f"{row['mbits']:5g} Mbit/s {row['graph']:12} --relay {relay:4} measured over predicted {ratio:.2f}")
    summary = document["summary"]
    print(json.dumps({**document, "cases": len(rows)}, indent=1))
    missed = [
        summary["share_near"] is not None and summary["share_near"] < SHARE_NEAR,
        (summary["greatest_ratio_where_chosen"] or 0) > MOST_WHERE_CHOSEN,
        *(ratio > most for graph, most in MOST.items() for ratio in summary["ratios"].get(graph, ())),
    ]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
