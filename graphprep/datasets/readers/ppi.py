"""GraphSAGE's protein interactions: 24 graphs, one for each tissue, in a zip archive of three times four files.

    {train,valid,test}_graph.json       nodes and links, as networkx writes them
    {train,valid,test}_feats.npy        [N', F]
    {train,valid,test}_labels.npy       [N', C] of 0 and 1
    {train,valid,test}_graph_id.npy     [N'] the tissue of each node

All are put side by side in one graph: training nodes first, then validation, then test, each in the file's order, and
`graph_id` says which of the 24 a node belongs to. No edge joins two of them, so a model sees no validation node while
it trains. Self-loops and repeated links are dropped by the registry's treatment, as PyTorch Geometric drops them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import RawGraph
from graphprep.datasets.assemble import one_type
from graphprep.datasets.entry import DatasetEntry
from graphprep.datasets.formats.arrays import member_array
from graphprep.datasets.formats.checks import features, file_of, flags, node_ids, reading
from graphprep.datasets.formats.json_file import numbers, parse_json
from graphprep.datasets.reader_options import ReaderOptions, options_of
from graphprep.errors import DatasetError
from graphprep.system.files.archive import Archive

Array = NDArray[Any]
PARTS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
LONGEST_JSON = 1 << 30


def read(folder: Path, entry: DatasetEntry) -> RawGraph:
    """The graph; x float32 [N, F], y bool [N, C], masks bool [N, 1], graph_id int64 [N]."""
    options_of(entry, ReaderOptions)
    path = file_of(folder, entry)
    tables: dict[str, list[Array]] = {"feats": [], "labels": [], "graph_id": [], "links": []}
    num_nodes, graphs, crossing = [0], 0, 0
    with reading(path), Archive(path) as archive:
        for part in PARTS:
            x = features(member_array(archive, f"{part}_feats.npy", "fiu", (None, None)), folder)
            y = flags(member_array(archive, f"{part}_labels.npy", "biuf", (len(x), None)))
            ids = member_array(archive, f"{part}_graph_id.npy", "iu", (len(x),)).astype(np.int64)
            links = _links(archive, f"{part}_graph.json", len(x))
            inside = ids[links[:, 0]] == ids[links[:, 1]]
            crossing += int((~inside).sum())
            distinct, ids = np.unique(ids, return_inverse=True)
            for name, array in (("feats", x), ("labels", y), ("graph_id", ids + graphs)):
                tables[name].append(array)
            tables["links"].append(links[inside] + num_nodes[-1])
            num_nodes.append(num_nodes[-1] + len(x))
            graphs += len(distinct)
        _require_same_width(tables)
    joined = {name: np.concatenate(arrays) for name, arrays in tables.items()}
    part_of = np.repeat(list(PARTS.values()), np.diff(num_nodes))
    return one_type(
        entry,
        num_nodes=num_nodes[-1],
        x=joined["feats"],
        y=joined["labels"],
        edges=joined["links"],
        masks={mask: (part_of == mask)[:, None] for mask in PARTS.values()},
        more={"graph_id": joined["graph_id"].astype(np.int64)},
        notes={"graphs": graphs, "links_between_graphs_left_out": crossing},
    )


def _links(archive: Archive, name: str, num_nodes: int) -> NDArray[np.int64]:
    """The links as int64 [E, 2]; in both directions where the file says that they have none."""
    try:
        graph = parse_json(archive.read(name, LONGEST_JSON))
        nodes, links = graph["nodes"], graph["links"]
        ids = [node["id"] for node in nodes]
        pairs = [(link["source"], link["target"]) for link in links]
    except (KeyError, TypeError) as problem:
        raise DatasetError(f"its member {name} has not the nodes and links that networkx writes") from problem
    if sorted(ids, key=str) != sorted(range(num_nodes), key=str):
        raise DatasetError(f"its member {name} does not list the nodes 0 .. {num_nodes - 1:,} of the features")
    ends = numbers(pairs, "i", 2, f"links in {name}") if pairs else np.zeros((0, 2), np.int64)
    node_ids(ends, num_nodes, f"its member {name}")
    return ends if graph.get("directed", False) else np.concatenate([ends, ends[:, ::-1]])


def _require_same_width(tables: dict[str, list[Array]]) -> None:
    for name in ("feats", "labels"):
        widths = [array.shape[1] for array in tables[name]]
        if len(set(widths)) > 1:
            raise DatasetError(f"its {name} have {', '.join(map(str, widths))} columns, not as many in all parts")
