"""What `store_summary` gave, as tables on a terminal."""

from __future__ import annotations

from typing import IO, Any

from graphprep.report.tables import line, table

BAR = 40
DEGREES = (("mean", 2), ("median", 0), ("p90", 0), ("p99", 0), ("max", 0))


def print_store(summary: dict[str, Any], file: IO[str]) -> None:
    """Print nodes, edges, degrees, splits, where the data came from, and the warnings last, where they are seen."""
    direction = "directed" if summary["directed"] else "undirected"
    line(file, f"{summary['dataset']}: graph store, {direction}, {summary['location']}")
    _print_nodes(summary, file)
    _print_edges(summary, file)
    components = summary["components"]
    line(file, f"components: {components['count']:,}, the largest of {components['largest_nodes']:,} nodes")
    _print_source(summary, file)
    for warning in summary["warnings"]:
        where = f"{warning['where']}: " if warning["where"] else ""
        line(file, f"look at this: {where}{warning['text']}")


def _print_nodes(summary: dict[str, Any], file: IO[str]) -> None:
    rows = []
    for node_type, node in summary["nodes"].items():
        splits = node.get("splits", {})
        rows.append(
            [
                node_type,
                f"{node['count']:,}",
                f"{node['x']['shape'][-1]:,} x {node['x']['dtype']}" if "x" in node else "-",
                f"{100 * node['features']['zero_share']:.1f} %" if "features" in node else "-",
                str(node.get("classes", "-")),
                f"{node['labelled']:,}" if "labelled" in node else "-",
                *(_split_text(splits.get(name)) for name in ("train", "val", "test")),
                f"{node['isolated_nodes']:,}",
            ]
        )
    names = ["type", "count", "features", "zeros", "classes", "labelled", "train", "val", "test", "isolated"]
    table(file, "nodes", names, rows)
    for node_type, node in summary["nodes"].items():
        features = node.get("features")
        if features and not features["is_whole"]:
            line(file, f"features of {node_type}: {features['rows_looked_at']:,} evenly spread rows were looked at")
        if node.get("nodes_per_class"):
            _print_classes(node_type, node, file)


def _print_classes(node_type: str, node: dict[str, Any], file: IO[str]) -> None:
    sizes, splits = node["nodes_per_class"], node.get("first_split_per_class", {})
    if len(sizes) > BAR:
        return
    rows = [
        [
            str(label),
            f"{size:,}",
            *(f"{splits[name][label]:,}" if name in splits else "-" for name in ("train", "val", "test")),
            "#" * round(BAR * size / max(sizes)),
        ]
        for label, size in enumerate(sizes)
    ]
    table(file, f"classes of {node_type}", ["class", "nodes", "train", "val", "test", "bar"], rows, may_go=["bar"])


def _print_edges(summary: dict[str, Any], file: IO[str]) -> None:
    rows = [
        [
            key,
            f"{edge['count']:,}",
            "yes" if edge["weighted"] else "no",
            f"{edge['self_loops']:,}",
            f"{edge['duplicates']:,}",
            _one_way_text(edge["one_way"]),
            *(f"{edge['homophily'][kind]:.3f}" if edge["homophily"] else "-" for kind in ("edge", "node", "adjusted")),
        ]
        for key, edge in summary["edges"].items()
    ]
    names = ["type", "edges", "weighted", "self-loops", "repeated", "one-way", "homophily", "of nodes", "adjusted"]
    table(file, "edges (directed, counted at their destination)", names, rows)
    rows = [
        [
            f"{key}, {way}",
            *(f"{edge[degree][figure]:,.{digits}f}" for figure, digits in DEGREES),
            f"{100 * edge[degree]['top_share']:.1f} %",
        ]
        for key, edge in summary["edges"].items()
        for degree, way in (("in_degree", "in"), ("out_degree", "out"))
        if degree in edge
    ]
    table(file, "degrees", ["type", "mean", "median", "p90", "p99", "max", "at the top 1 % of nodes"], rows)
    for key, edge in summary["edges"].items():
        histogram = edge.get("in_degree", {}).get("histogram", [])
        most = max((row["nodes"] for row in histogram), default=0)
        bars = [
            [_range_text(row), f"{row['nodes']:,}", "#" * round(BAR * row["nodes"] / most)] for row in histogram if most
        ]
        table(file, f"nodes by in-degree, {key}", ["in-degree", "nodes", "bar"], bars, may_go=["bar"])


def _print_source(summary: dict[str, Any], file: IO[str]) -> None:
    source = summary["source"]
    line(
        file,
        f"source: {source['reader']}, {len(source.get('files', []))} files; key {summary['key'][:16]}, "
        f"written by graphprep {summary['tool_version']}",
    )
    for name in ("licence", "citation"):
        if source.get(name):
            line(file, f"{name}: {source[name]}")
    for name, value in summary["notes"].items():
        if name == "read_as":
            for words in value:
                line(file, f"read as: {words}")
        else:
            line(file, f"note: {name}: {value}")


def _range_text(row: dict[str, int]) -> str:
    return f"{row['low']:,}" if row["low"] == row["high"] else f"{row['low']:,} - {row['high']:,}"


def _one_way_text(one_way: dict[str, Any] | None) -> str:
    if one_way is None:
        return "-"
    return f"{100 * one_way['share']:.1f} %" + ("" if one_way["is_exact"] else " (sampled)")


def _split_text(counts: list[int] | None) -> str:
    if not counts:
        return "-"
    return f"{counts[0]:,}" + (f" (of {len(counts)} splits)" if len(counts) > 1 else "")
