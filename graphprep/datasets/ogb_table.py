"""Registry entries of all OGB datasets for nodes, and of those for links whose nodes have features.

The ogb package carries a table of its datasets: URL, folder, layout, direction, task. It is read as the CSV file that
it is, so that a dataset that a new release of ogb adds is known here at once; the package itself is not imported, which
would load torch and pandas, look for a newer release of itself on the network, and print.

What the table does not say (licence, citation, published counts) is listed below for the datasets that have it.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphprep.errors import DatasetError
from graphprep.system import progress
from graphprep.system.files.regular_file import regular_file

if TYPE_CHECKING:
    from graphprep.datasets.entry import DatasetEntry

NODES, LINKS = "nodeproppred", "linkproppred"
NOTHING = "None"
CITATION = "W. Hu et al., Open Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020"
SEE_HOMEPAGE = "see the homepage"


class Facts(NamedTuple):
    """What is known of a dataset beyond the table."""

    title: str
    licence: str
    expected: dict[str, Any] = {}  # noqa: RUF012
    citation: str = CITATION


MICROSOFT = "K. Wang et al., Microsoft Academic Graph: When experts are not enough, Quantitative Science Studies, 2020"
FACTS = {
    "ogbn-arxiv": Facts(
        "169,343 papers of computer science on arXiv, joined by citations",
        "ODC-BY",
        {"nodes": 169_343, "edges": 1_166_243, "features": 128, "classes": 40}
        | {"train": 90_941, "val": 29_799, "test": 48_603},
        f"{CITATION}; {MICROSOFT}",
    ),
    "ogbn-products": Facts(
        "2,449,029 products of Amazon, joined if bought together",
        "Amazon licence",
        {"nodes": 2_449_029, "edges": 123_718_280, "features": 100, "classes": 47}
        | {"train": 196_615, "val": 39_323, "test": 2_213_091},
        f"{CITATION}; K. Bhatia et al., The Extreme Classification Repository, 2016",
    ),
    "ogbn-proteins": Facts(
        "132,534 proteins of 8 species, joined by 8 kinds of association",
        "CC0",
        {"nodes": 132_534, "edges": 79_122_504, "features": 0, "classes": 112}
        | {"train": 86_619, "val": 21_236, "test": 24_679},
        f"{CITATION}; D. Szklarczyk et al., STRING v11, Nucleic Acids Research 47, 2019",
    ),
    "ogbn-mag": Facts(
        "736,389 papers with their authors, institutions and fields, joined by four relations",
        "ODC-BY",
        {
            "nodes": {"author": 1_134_649, "paper": 736_389, "institution": 8_740, "field_of_study": 59_965},
            "edges": {
                "author__affiliated_with__institution": 1_043_998,
                "author__writes__paper": 7_145_660,
                "paper__cites__paper": 5_416_271,
                "paper__has_topic__field_of_study": 7_505_078,
            },
            **{"features": {"paper": 128}, "classes": {"paper": 349}},
            **{"train": {"paper": 629_571}, "val": {"paper": 64_879}, "test": {"paper": 41_939}},
        },
        f"{CITATION}; {MICROSOFT}",
    ),
    "ogbn-papers100m": Facts(
        "111,059,956 papers, joined by citations",
        "ODC-BY",
        {"nodes": 111_059_956, "edges": 1_615_685_872, "features": 128, "classes": 172}
        | {"train": 1_207_179, "val": 125_265, "test": 214_338},
        f"{CITATION}; {MICROSOFT}",
    ),
    "ogbl-ppa": Facts("Proteins of 58 species, joined by associations", "CC0", {"nodes": 576_289, "features": 58}),
    "ogbl-collab": Facts(
        "Authors, joined by the papers that they wrote together, with years",
        "ODC-BY",
        {"nodes": 235_868, "features": 128},
    ),
    "ogbl-citation2": Facts("Papers, joined by citations", "ODC-BY", {"nodes": 2_927_963, "features": 128}),
    "ogbl-vessel": Facts("Branching points of the vessels of a mouse's brain, joined by vessels", "CC BY-NC 4.0"),
}


def entries() -> dict[str, DatasetEntry]:
    """All entries by name, in the table's order; empty if the ogb package is not installed.

    A column of the table that cannot be understood is left out with a warning: it must not take the other datasets,
    which have nothing to do with ogb, from a person who upgraded it.
    """
    from graphprep.datasets.entry import canonical

    by_name: dict[str, DatasetEntry] = {}
    for task in (NODES, LINKS):
        for name, column in _table(task):
            key = canonical(name)
            try:
                if task == NODES or _flag(column, "has_node_attr"):
                    by_name[key] = _entry(key, name, column, task)
            except (KeyError, ValueError) as problem:
                progress.warn(f"ogb's table describes {name} in a way that is not known here ({problem!r:.200})")
    return by_name


def _table(task: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each dataset's name and its column: a table on its side."""
    spec = importlib.util.find_spec("ogb")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    for folder in folders:
        path = folder / task / "master.csv"
        try:
            with regular_file(path).open(encoding="utf-8", newline="") as stream:
                rows = list(csv.reader(stream))
        except OSError:
            continue
        if not rows:
            raise DatasetError(f"{path} is empty; install ogb again")
        for position, name in enumerate(rows[0][1:], 1):
            yield name, {row[0]: row[position] for row in rows[1:] if len(row) > position}


def _entry(key: str, name: str, column: dict[str, str], task: str) -> DatasetEntry:
    from graphprep.datasets.entry import DatasetEntry

    facts = FACTS.get(key, Facts(f"{name}, of the Open Graph Benchmark", SEE_HOMEPAGE))
    options: dict[str, Any] = {
        "folder": column["download_name"],
        "version": int(column["version"]),
        "binary": _flag(column, "binary"),
        "typed": _flag(column, "is hetero"),
        "inverse_edges": _flag(column, "add_inverse_edge"),
        "node_features": _flag(column, "has_node_attr"),
        "edge_features": _flag(column, "has_edge_attr"),
        "node_files": _list(column["additional node files"]),
        "edge_files": _list(column["additional edge files"]),
        "metric": column["eval metric"],
    }
    if task == NODES:
        options["tasks"] = int(column["num tasks"])
        options["split"] = column["split"]
        if column["task type"] != "regression":
            options["classes"] = int(column["num classes"])
    return DatasetEntry.model_validate(
        {
            "name": key,
            "title": facts.title,
            "source": "ogb",
            "options": options,
            "files": [{"url": column["url"]}],
            "licence": facts.licence,
            "citation": facts.citation,
            "homepage": f"https://ogb.stanford.edu/docs/{'nodeprop' if task == NODES else 'linkprop'}/#{name}",
            "expected": facts.expected,
        }
    )


def _flag(column: dict[str, str], row: str) -> bool:
    return {"True": True, "False": False}[column[row]]


def _list(words: str) -> list[str]:
    return [] if words == NOTHING else [word.strip() for word in words.split(",")]
