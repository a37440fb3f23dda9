"""GML by NetworkX. Nodes are called by their `id`; parallel edges are read even where `multigraph 1` is missing."""

from __future__ import annotations

import re

from graphprep.datasets.importing.documents.graph_document import GraphDocument, of_networkx
from graphprep.errors import DatasetError

GRAPH = re.compile(r"(?m)^(\s*graph\s*\[)")


def read_gml(text: bytes) -> GraphDocument:
    """The graph in a GML document.

    Raises:
        DatasetError: it is no GML, is damaged, or names a node twice.
    """
    import networkx

    try:
        words = text.decode("utf-8")
    except UnicodeDecodeError:
        words = text.decode("latin-1")
    if len(GRAPH.findall(words)) != 1:
        raise DatasetError(f"it has {len(GRAPH.findall(words)):,} entries 'graph [', and exactly one can be read")
    try:
        graph = networkx.parse_gml(GRAPH.sub(r"\1 multigraph 1 ", words), label="id")
    except Exception as problem:  # what NetworkX lets out of a document that it does not understand is of every type
        said = " ".join(str(problem).split()) or type(problem).__name__
        raise DatasetError(f"NetworkX cannot read it as gml ({said[:200]})") from problem
    return of_networkx(graph)
