"""Warnings about a graph before training on it: sentences about the figures of a store's summary.

Each warning has a `what` that does not change from release to release, the `where` (a node or edge type, or nothing),
and a `text` for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HUB_SHARE = 0.2
"""Share of the in-edges at one per cent of the nodes, from which there is a warning of hubs."""
SCARCE = 5
"""Training nodes, below which there is a warning of a class."""
LOPSIDED = 20
"""Nodes of the largest class over those of the smallest, from which there is a warning."""

Warnings = list[dict[str, str]]


def warnings_of(summary: dict[str, Any]) -> Warnings:
    """The warnings about a store's summary, the most important first."""
    warnings = [
        {"what": what, "where": name, "text": text}
        for kind, warn in (("nodes", _of_nodes), ("edges", _of_edges))
        for name, figures in summary[kind].items()
        for what, text in warn(figures)
    ]
    components = summary["components"]
    if components["count"] > 1:
        outside = summary["num_nodes"] - components["largest_nodes"]
        text = (
            f"the graph has {components['count']:,} components; {outside:,} nodes ({_share(outside, summary)}) "
            "are not in the largest, and no message reaches them from there"
        )
        warnings.append({"what": "components", "where": "", "text": text})
    return warnings


def _of_nodes(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for pair, counts in node.get("leaked", {}).items():
        for split, count in enumerate(counts):
            if count:
                one, other = pair.split("_and_")
                yield (
                    "leaked-split",
                    f"{count:,} nodes are in {one} and in {other} of split {split}; accuracies on them mean nothing: "
                    "import the graph again with masks that do not overlap",
                )
    features = node.get("features")
    if features and features["not_finite"]:
        yield "not-finite", f"features hold {features['not_finite']:,} values that are infinite or no number"
    splits = node.get("splits", {})
    if splits.get("train") and not all(splits["train"]):
        yield "no-training-nodes", f"split {splits['train'].index(0)} has no training node"
    for name, counts in node.get("unlabelled_in_splits", {}).items():
        if counts and max(counts):
            yield "unlabelled", f"{max(counts):,} nodes of the {name} mask have no label"
    trained = node.get("first_split_per_class", {}).get("train", [])
    scarce = [label for label, count in enumerate(trained) if count < SCARCE and node["nodes_per_class"][label]]
    if scarce:
        text = f"{len(scarce)} of {node['classes']} classes have fewer than {SCARCE} training nodes in split 0"
        yield "scarce-classes", f"{text} (the first is class {scarce[0]}, with {trained[scarce[0]]})"
    sizes = [count for count in node.get("nodes_per_class", []) if count]
    if sizes and max(sizes) > LOPSIDED * min(sizes):
        yield (
            "lopsided-classes",
            f"the largest class has {max(sizes):,} nodes and the smallest {min(sizes):,}: look at more than accuracy",
        )
    if node["isolated_nodes"]:
        yield (
            "isolated",
            f"{node['isolated_nodes']:,} nodes have no edge at all; they are predicted from their features alone",
        )
    if features and features["empty_rows"]:
        yield (
            "empty-features",
            f"{features['empty_rows']:,} of {features['rows_looked_at']:,} rows of features are zero",
        )
    if features and features["constant_columns"]:
        yield (
            "constant-features",
            f"{features['constant_columns']:,} columns of features have one value in all "
            f"{features['rows_looked_at']:,} rows that were read",
        )


def _of_edges(edge: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if edge["duplicates"]:
        yield (
            "duplicates",
            f"{edge['duplicates']:,} edges repeat another one and are summed twice; "
            "--duplicates drop or sum at import merges them",
        )
    one_way = edge["one_way"]
    if one_way and one_way["share"]:
        estimate = "" if one_way["is_exact"] else f", estimated from {one_way['looked_at']:,} edges"
        yield (
            "one-way",
            f"{100 * one_way['share']:.1f} % of the edges have no reverse{estimate}: messages go in one direction; "
            "--undirected at import adds reverses",
        )
    degree = edge.get("in_degree")
    if degree and degree["top_share"] >= HUB_SHARE:
        yield (
            "hubs",
            f"a hundredth of the nodes has {100 * degree['top_share']:.0f} % of the in-edges (the largest "
            f"{degree['max']:,}): parts of equal nodes have unequal work, so keep in-edges among --limits",
        )
    if edge["self_loops"]:
        yield "self-loops", f"{edge['self_loops']:,} edges join a node to itself; GCN adds none to those nodes"


def _share(count: int, summary: dict[str, Any]) -> str:
    return f"{100 * count / max(1, summary['num_nodes']):.1f} %"
