"""GraphML and GEXF by NetworkX, after expat has looked for what must not be in them.

NetworkX builds a tree of the whole document and expands entities, so a document of 1 kB could become gigabytes; expat
goes through it first, refuses every declaration of an entity, and counts nodes and edges. NetworkX says nothing of
what it drops (nodes of nested graphs, a second graph, edges whose ids are there twice); the counts show it.
"""

from __future__ import annotations

import io
import warnings
from typing import Literal
from xml.parsers import expat

from graphprep.datasets.importing.documents.graph_document import GraphDocument, of_networkx
from graphprep.datasets.importing.options import Format
from graphprep.errors import DatasetError
from graphprep.system import progress

READ_BYTES = 1 << 20
ROOTS = {"graphml": "graphml", "gexf": "gexf"}


class _Survey:
    """Counts elements; refuses declarations."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.count = {"node": 0, "edge": 0, "graph": 0, "hyperedge": 0}
        self.mutual = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self.root = self.root or name
        if name in self.count:
            self.count[name] += 1
            self.mutual += attributes.get("type") == "mutual"

    def doctype(self, _name: str, _system: str | None, _public: str | None, has_declarations: int) -> None:
        if has_declarations:
            self.entity()

    def entity(self, *_: object) -> None:
        raise DatasetError(
            "it declares entities or other things in a DOCTYPE, which may make gigabytes of a small file; take that "
            "declaration out"
        )


def read_xml(text: bytes, format: Format) -> GraphDocument:
    """The graph in a GraphML or GEXF document.

    Raises:
        DatasetError: it is no such document, is damaged, or holds what NetworkX does not read.
    """
    survey = _surveyed(text)
    if survey.root != ROOTS[format]:
        raise DatasetError(f"its outermost element is <{str(survey.root)[:60]}>, not <{ROOTS[format]}>")
    if survey.count["graph"] != 1:
        raise DatasetError(
            f"it has {survey.count['graph']:,} <graph> elements, and exactly one can be read; nested graphs and "
            "further ones have to be taken out or written to files of their own"
        )
    import networkx

    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            stream = io.BytesIO(text)
            graph = (
                networkx.read_graphml(stream, force_multigraph=True)
                if format == "graphml"
                else networkx.read_gexf(stream)
            )
    except Exception as problem:  # what NetworkX lets out of a document that it does not understand is of every type
        words = " ".join(str(problem).split()) or type(problem).__name__
        raise DatasetError(f"NetworkX cannot read it as {format} ({words[:200]})") from problem
    for words in dict.fromkeys(str(warning.message) for warning in said):
        progress.warn(f"NetworkX says of this {format}: {words}")
    _require_all("node", survey.count["node"], graph.number_of_nodes())
    _require_all("edge", survey.count["edge"] + survey.mutual, graph.number_of_edges())
    return of_networkx(graph)


def _surveyed(text: bytes) -> _Survey:
    survey = _Survey()
    parser = expat.ParserCreate()
    parser.StartElementHandler = survey.start
    parser.StartDoctypeDeclHandler = survey.doctype
    parser.EntityDeclHandler = survey.entity
    try:
        for start in range(0, len(text), READ_BYTES):
            parser.Parse(text[start : start + READ_BYTES], False)
        parser.Parse(b"", True)
    except expat.ExpatError as problem:
        raise DatasetError(f"it is no XML from line {problem.lineno} on, or is cut short ({problem})") from problem
    return survey


def _require_all(what: Literal["node", "edge"], written: int, read: int) -> None:
    if read == written:
        return
    reason = (
        "an edge names a node that is not listed"
        if what == "node" and read > written
        else f"an id of a {what} is there twice"
    )
    raise DatasetError(f"it lists {written:,} {what}s but NetworkX reads {read:,}: {reason}")
