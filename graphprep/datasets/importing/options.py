"""What a person asks of an import; `user_files` makes an ImportRequest of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from graphprep.core.choices import MOST_SPLITS, Duplicates, LabelTask, SelfLoops
from graphprep.system.options import check_options, option

Format = Literal[
    "auto", "text", "metis", "mtx", "npy", "npz", "parquet", "pyg", "graphml", "gexf", "gml", "pajek", "json", "dimacs"
]
IdKind = Literal["auto", "numbers", "words"]
_column = partial(option, metavar="COLUMN", or_number=True)
_no_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Files of edges, or a schema that names them, and how to read them and what belongs to their nodes."""

    edges: tuple[Path, ...] = option(
        (), "Files of edges, or one file of a whole graph.", metavar="PATH...", is_argument=True
    )
    schema: Path | None = option(
        None, "YAML that names node and edge types and their files or tables, instead of PATH."
    )
    format: Format = option(
        "auto", "Of the files of edges; auto goes by the ending of the name, then by the first bytes."
    )
    ids: IdKind = option(
        "auto", "Whether ids are words; auto takes text for numbers and the types of Parquet as they are."
    )
    undirected: bool = option(False, "Add the reverse of every edge that has none, with its weight.")
    duplicates: Duplicates = option(
        "keep",
        "One edge in place of parallel ones, with --undirected of those in both directions: drop if their weights are "
        "equal; sum, max, min or mean of their weights.",
    )
    self_loops: SelfLoops = option("keep", "Keep or drop self-loops, or add one to each node that has none.")
    weights: bool = option(False, "Read edge weights: in text the third column, or the one called weight.")
    edge_times: bool = option(False, "Read edge times: the next column, or the one called time.")
    header: bool | None = option(
        None, "Whether edges in text begin with a line of column names; by default found from the text."
    )
    delimiter: str | None = option(
        None, "What separates edges in text: tab, comma, semicolon, blanks, bar, or the character.", metavar="D"
    )
    source: str | None = _column(None, "Of the sources of edges, in text and Parquet: its name, or number from 1.")
    target: str | None = _column(None, "Of the destinations, likewise.")
    weight: str | None = _column(None, "Of the edge weights, likewise; --weights is then not needed.")
    time: str | None = _column(None, "Of the edge times, likewise; --edge-times is then not needed.")
    num_nodes: int | None = option(None, "Ids are row numbers below this count.", at_least=1)
    features: Path | None = option(None, "Node features, one row a node: npy, npz, csv, tsv, parquet.")
    labels: Path | None = option(None, "One class a node, -1 for none: npy, npz, csv, txt, parquet.")
    task: LabelTask = option(
        "auto",
        "What labels are for: classes (or several labels) or numbers to predict; auto goes by their dtype and shape.",
    )
    node_times: Path | None = option(None, "One time a node, as labels are given.")
    id_column: str | None = _column(
        None, "Of features and labels (csv, tsv, txt, parquet), with the ids of their nodes."
    )
    label: tuple[str, ...] = _column(
        _no_columns,
        "Of --labels, or of --features if there are no --labels, or the node attribute of a graph document, that is a "
        "label; may be given again.",
    )
    feature: tuple[str, ...] = _column(
        _no_columns, "Of --features, or a node attribute of a graph document, that is a feature; may be given again."
    )
    split_column: str | None = _column(
        None, "Of --labels or --features, with train, val, test or nothing for each node."
    )
    node_header: bool | None = option(
        None, "Whether tables of nodes in text begin with a line of column names; by default found from the text."
    )
    node_delimiter: str | None = option(
        None, "What separates columns in tables of nodes in text, as --delimiter.", metavar="D"
    )
    train: Path | None = option(None, "Training nodes: a mask [N] or [N, S], or row numbers; npy, npz, csv, txt.")
    val: Path | None = option(None, "Validation nodes, likewise.")
    test: Path | None = option(None, "Test nodes, likewise.")
    splits: int = option(1, "How many splits are drawn where there are no masks.", at_least=1, at_most=MOST_SPLITS)
    seed: int = option(0, "Of the first split that is drawn; each next one has the following number.", at_least=0)

    def __post_init__(self) -> None:
        check_options(self)
