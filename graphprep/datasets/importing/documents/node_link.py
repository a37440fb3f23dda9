"""Node-link JSON, as NetworkX and D3 write it: {"directed": true, "nodes": [{"id": ...}], "links": [{"source": ...}]}.

Edges are under `links` or `edges`. Where nodes have no id, as in files of early D3, their ids are their places in the
list. A document that does not say whether it is directed is undirected, as NetworkX takes it; that is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.json_file import parse_json
from graphprep.datasets.importing.documents.graph_document import GraphDocument
from graphprep.errors import DatasetError
from graphprep.system import progress

CONVERT = "write it with networkx.node_link_data, or the edges as CSV or Parquet"


def read_node_link(text: bytes) -> GraphDocument:
    """The graph in a node-link document.

    Raises:
        DatasetError: it is other JSON, is damaged, or an edge names a node that is not there.
    """
    value = _parsed(text)
    if not isinstance(value, dict) or not isinstance(value.get("nodes"), list):
        kind = "Cytoscape's JSON" if isinstance(value, dict) and "elements" in value else "JSON without a list of nodes"
        raise DatasetError(f"it is {kind}, not node-link JSON; {CONVERT}")
    key = next((name for name in ("links", "edges") if isinstance(value.get(name), list)), None)
    if key is None:
        raise DatasetError(
            f"it has neither 'links' nor 'edges' beside its nodes, so it is no node-link JSON; {CONVERT}"
        )
    nodes, links = value["nodes"], value[key]
    for what, entries in (("nodes", nodes), (key, links)):
        odd = next((number for number, entry in enumerate(entries) if not isinstance(entry, dict)), None)
        if odd is not None:
            raise DatasetError(f"number {odd:,} of its {what} is no JSON object")
    ids = _ids(nodes)
    directed = value.get("directed")
    if not isinstance(directed, bool):
        if directed is not None:
            raise DatasetError(f"its 'directed' is {str(directed)[:60]!r}, neither true nor false")
        progress.say("the JSON does not say whether it is directed, so it is taken as undirected")
    ends = ("source", "target")
    return GraphDocument(
        ids=ids,
        nodes=nodes,
        src=_places(ids, links, "source", key),
        dst=_places(ids, links, "target", key),
        edges=[{name: entry for name, entry in link.items() if name not in ends} for link in links],
        undirected=not directed,
    )


def _parsed(text: bytes) -> Any:
    try:
        return parse_json(text)
    except DatasetError:
        first, _, rest = text.lstrip().partition(b"\n")
        try:
            lines = bool(rest.strip()) and isinstance(parse_json(first), dict)
        except DatasetError:
            lines = False
        if lines:
            raise DatasetError(
                "it is JSON with one object a line, which is not read; convert it with "
                "pandas.read_json(FILE, lines=True).to_parquet(...)"
            ) from None
        raise


def _ids(nodes: Sequence[dict[str, Any]]) -> list[Any]:
    named = sum("id" in node for node in nodes)
    if named == 0:
        return list(range(len(nodes)))
    if named < len(nodes):
        raise DatasetError(f"{len(nodes) - named:,} of its {len(nodes):,} nodes have no 'id'")
    ids = [node["id"] for node in nodes]
    odd = next((node for node in ids if isinstance(node, bool) or not isinstance(node, int | str)), None)
    if odd is not None or None in ids:
        raise DatasetError(f"it has a node whose id is {str(odd)[:60]}, neither a whole number nor a word")
    if len(set(ids)) < len(ids):
        twice = next(node for node, group in itertools.groupby(sorted(ids, key=str)) if len(list(group)) > 1)
        raise DatasetError(f"two of its nodes have the id {str(twice)[:60]!r}")
    return ids


def _places(ids: Sequence[Any], links: Sequence[dict[str, Any]], end: str, key: str) -> NDArray[np.int64]:
    """The number of each edge's node at one end, [E]."""
    place = {node: number for number, node in enumerate(ids)}
    try:
        return np.fromiter((place[link[end]] for link in links), np.int64, len(links))
    except (KeyError, TypeError):
        pass
    for number, link in enumerate(links):
        if end not in link:
            raise DatasetError(f"number {number:,} of its {key} has no {end!r}")
        node = link[end]
        if not isinstance(node, int | str) or node not in place:
            raise DatasetError(f"number {number:,} of its {key} names the node {str(node)[:60]!r}, which is not there")
    raise AssertionError(f"every {end} is among the nodes")
