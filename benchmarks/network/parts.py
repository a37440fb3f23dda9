"""Seconds of an epoch's exchanges, measured beside predicted, and METIS's parts in their own order beside ours.

For each layout (4 and 8 ranks in 2 and 4 machines) and kind of links (unequal, equal) a laboratory is built, and in it
GCN with 3 layers is trained on every graph with METIS's parts and with ours, exactly and in fp32. Ours are made with
the effort `default` and `best` within all limits, with `best` within METIS's only one, on nodes, and with `best` where
a rank may have half as much again as its share.

    measured    on each rank, from the start of an exchange until all its rows were there, summed over an epoch's
                exchanges; the greatest of the ranks. Layers 2 and 3 exchange, forward and backward
    links       graphprep.traffic.epoch_seconds, the sum of the exchanges' slowest link directions at the rates of tc
    predicted   the same at the share of the rates that messages get, and with what starting exchanges takes, both of
                them from three of the configurations (`calibration`)

Computing takes some milliseconds of it: the layers are narrow, and layer 1 exchanges nothing. The first epochs are
counted too. Prints a row a case as it goes, writes JSON with --out after each laboratory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from benchmarks.network import needs
from benchmarks.network.calibration import CALIBRATING, calibrates, fitted
from benchmarks.network.cases import GRAPHS, Links, cache_of, links_of, store_of
from benchmarks.network.exchange_time import bottleneck_seconds, measured_seconds, predicted_seconds, row_bytes, run_of
from benchmarks.network.laboratory import laboratory
from benchmarks.network.ranks import train_all
from graphprep.partition.request import PartitionRequest

LAYOUTS = ((2, 4), (4, 4), (2, 8), (4, 8))
"""Machines and ranks."""
COMPARED = ("sbm", "wing", "cit-hep-ph")
METIS = "metis"
WAYS = {
    METIS: PartitionRequest(method="metis", effort="none"),
    "default": PartitionRequest(),
    "best": PartitionRequest(effort="best"),
    "best-nodes": PartitionRequest(effort="best", limits=("nodes",)),
    "best-1.5": PartitionRequest(effort="best", imbalance=1.5),
}
"""What is asked of the partitioner, beside the bytes of a row."""
NEAR, SHARE_NEAR, LEAST_CORRELATION = 0.25, 0.9, 0.9
MOST = {"unequal": 0.7, "equal": 0.95}
"""Of the geometric mean of `best` over METIS's."""


def cut(graph: str, links: Links, way: str, folder: Path) -> Path:
    """The cache of a graph, cut in one of the ways."""
    request = replace(WAYS[way], row_bytes=GRAPHS[graph][0] * 4)
    return cache_of(store_of(graph, folder), links, request, way, folder)


def of_laboratory(
    links: Links, kind: str, cuts: Sequence[tuple[str, str]], folder: Path, patience_s: float
) -> list[dict[str, Any]]:
    """Graphs, each cut in some way, on some machines."""
    cases = [(graph, way, cut(graph, links, way, folder)) for graph, way in cuts]
    with laboratory(links.topology) as lab:
        results = train_all(lab, [run_of(graph, cache) for graph, _, cache in cases], patience_s=patience_s)
    rows = []
    for (graph, way, cache), result in zip(cases, results, strict=True):
        hidden, measured = GRAPHS[graph][0], measured_seconds(result)
        bottleneck = bottleneck_seconds(cache, links, hidden)
        rows.append(
            {
                "graph": graph,
                "links": links.name,
                "kind": kind,
                "mbits": links.mbits,
                "ranks": links.topology.num_ranks,
                "parts": way,
                "row_bytes": row_bytes(cache, hidden),
                "bottleneck_seconds": bottleneck,
                "measured_seconds": measured,
                "row_bytes_sent": result["row_bytes_sent"],
                "seconds": result["seconds"],
            }
        )
        print(
            f"{links.name:14} {graph:12} {way:10} links {bottleneck:7.3f} s, measured {measured:7.3f} s",
            flush=True,
        )
    return rows


def judged(rows: Sequence[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The whole document: the rows with predictions, where the three that calibrate them are there, and a summary."""
    known = [row for row in rows if calibrates(row)]
    found: dict[str, Any] = {}
    if len(known) == len(CALIBRATING):
        share, start = fitted(*([row[side] for row in known] for side in ("bottleneck_seconds", "measured_seconds")))
        found["calibration"] = {"share": share, "start_seconds": start}
        for row in rows:
            links = links_of(len(row["mbits"]), row["ranks"], row["kind"])
            cache, hidden = cut(row["graph"], links, row["parts"], folder), GRAPHS[row["graph"]][0]
            row["predicted_seconds"] = predicted_seconds(cache, links, hidden, share=share, start_seconds=start)
            row["ratio"] = row["measured_seconds"] / row["predicted_seconds"]
            row["calibrates"] = calibrates(row)
    return {**found, "summary": summary(rows), "cases": list(rows)}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How good predictions are, but for those that calibrate, and each way over METIS, by kind of links."""
    found: dict[str, Any] = {}
    reported = [row for row in rows if "ratio" in row and not row["calibrates"]]
    if reported:
        near = [abs(row["ratio"] - 1) <= NEAR for row in reported]
        predicted = [float(row["predicted_seconds"]) for row in reported]
        measured = [float(row["measured_seconds"]) for row in reported]
        found = {
            "configurations": len(reported),
            "share_near": sum(near) / len(near),
            "rank_correlation": float(spearmanr(predicted, measured).statistic),
        }
    of_case = {(row["graph"], row["links"], row["parts"]): row for row in rows}
    for kind, way in itertools.product(MOST, [way for way in WAYS if way != METIS]):
        pairs = [
            (row, of_case[row["graph"], row["links"], METIS])
            for row in rows
            if (row["kind"], row["parts"]) == (kind, way) and (row["graph"], row["links"], METIS) in of_case
        ]
        if pairs:
            found.setdefault("over_metis", {}).setdefault(kind, {})[way] = {
                side: statistics.geometric_mean(
                    ours[f"{side}_seconds"] / metis[f"{side}_seconds"] for ours, metis in pairs
                )
                for side in ("measured", "bottleneck")
            }
    return found


def main() -> int:
    """Returns 1 if a target is missed, 2 where namespaces cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for stores and caches; used again")
    parser.add_argument("--graphs", nargs="+", choices=COMPARED, default=COMPARED)
    parser.add_argument("--kinds", nargs="+", choices=list(MOST), default=list(MOST))
    parser.add_argument("--layouts", nargs="+", help="MACHINESxRANKS", default=[f"{m}x{r}" for m, r in LAYOUTS])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for one laboratory")
    parser.add_argument("--only-prepare", action="store_true", help="make stores and caches, and stop")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    needs.require()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    cuts = list(itertools.product(arguments.graphs, arguments.ways))
    for kind, layout in itertools.product(arguments.kinds, arguments.layouts):
        machines, ranks = map(int, layout.split("x"))
        links = links_of(machines, ranks, kind)
        if arguments.only_prepare:
            for graph, way in cuts:
                cache = cut(graph, links, way, arguments.folder)
                seconds = bottleneck_seconds(cache, links, GRAPHS[graph][0])
                print(f"{links.name:14} {graph:12} {way:10} {seconds:7.3f} s", flush=True)
            continue
        rows += of_laboratory(links, kind, cuts, arguments.folder, arguments.patience)
        if arguments.out:
            arguments.out.write_text(json.dumps(judged(rows, arguments.folder), indent=1))
    if not rows:
        return 0
    document = judged(rows, arguments.folder)
    found = document["summary"]
    for row in rows:
        if "ratio" in row:
            print(f"{row['links']:14} {row['graph']:12} {row['parts']:10} measured over predicted {row['ratio']:.2f}")
    print(json.dumps({**document, "cases": len(rows)}, indent=1))
    missed = [
        found.get("share_near", 1.0) < SHARE_NEAR,
        found.get("rank_correlation", 1.0) < LEAST_CORRELATION,
        *(
            ways["best"]["measured"] > MOST[kind]
            for kind, ways in found.get("over_metis", {}).items()
            if "best" in ways
        ),
    ]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
