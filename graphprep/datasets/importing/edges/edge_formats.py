"""Which format a file of edges has, and the class that reads it.

The ending of the name decides, before .gz or .zst: .mtx, .graph, .npy, .npz, .parquet, .pt, .graphml, .gexf, .gml,
.paj, .json, .dimacs; of other names (.net, .gr, .col too) the first bytes do (`magic_bytes`), and what these do not
show is text. What text is given under a wrong name is noticed by its first bytes and named.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from graphprep.datasets.formats.magic_bytes import format_by_beginning
from graphprep.datasets.formats.text_file import unpacked_name
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeOptions
from graphprep.datasets.importing.options import Format
from graphprep.errors import UsageError

FORMATS: tuple[Format, ...] = get_args(Format)
ENDINGS: dict[str, Format] = {
    ".graph": "metis",
    ".mgraph": "metis",
    ".metis": "metis",
    ".mtx": "mtx",
    ".mm": "mtx",
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".pt": "pyg",
    ".pth": "pyg",
    ".graphml": "graphml",
    ".gexf": "gexf",
    ".gml": "gml",
    ".paj": "pajek",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".dimacs": "dimacs",
}
DOCUMENTS: tuple[Format, ...] = ("graphml", "gexf", "gml", "pajek", "json")
"""files that hold a graph with its nodes' ids and attributes, read by `graph_document`"""
WHOLE_GRAPH: tuple[Format, ...] = ("pyg", *DOCUMENTS)
"""files that are a whole graph, read by `saved_pyg` or `graph_document` and not as an EdgeFile"""


def format_of(path: Path, format: Format = "auto") -> Format:
    """The format of a file: `format`, or by the ending of its name, or else by its first bytes if it is there."""
    if format != "auto":
        return format
    name = unpacked_name(path)
    by_name = next((known for ending, known in ENDINGS.items() if name.endswith(ending)), None)
    return by_name or format_by_beginning(path) or "text"


def open_edges(path: Path, format: Format, options: EdgeOptions) -> EdgeFile:
    """Open one file of edges.

    Raises:
        DatasetError: it is not of this format, or is damaged.
        UsageError: the format cannot give what is wanted, or holds a whole graph.
    """
    format = format_of(path, format)
    if format not in ("text", "parquet") and (options.columns.any() or options.delimiter is not None):
        raise UsageError(f"{path}: the format {format} has no columns or delimiters that could be named")
    if options.ids == "words" and format not in ("text", "parquet"):
        raise UsageError(f"{path}: ids are numbers in the format {format}, so they cannot be words")
    match format:
        case "metis":
            from graphprep.datasets.importing.edges.metis_graph import MetisGraph

            return MetisGraph(path, options)
        case "mtx":
            from graphprep.datasets.importing.edges.matrix_market import MatrixMarket

            return MatrixMarket(path, options)
        case "npy" | "npz":
            from graphprep.datasets.importing.edges.numpy_edges import open_numpy

            return open_numpy(path, format, options)
        case "parquet":
            from graphprep.datasets.importing.edges.parquet_edges import ParquetEdges

            return ParquetEdges(path, options)
        case "dimacs":
            from graphprep.datasets.importing.edges.dimacs import Dimacs

            return Dimacs(path, options)
        case "pyg" | "graphml" | "gexf" | "gml" | "pajek" | "json":
            raise UsageError(f"{path} holds a whole graph ({format}); import it alone, without a schema")
        case _:
            from graphprep.datasets.importing.edges.edge_text import EdgeText

            return EdgeText(path, options)
