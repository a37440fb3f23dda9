"""Pajek networks (.net): *Vertices N with numbers from 1 and labels, then *Arcs (directed) and *Edges (undirected).

NetworkX has a reader too, but it joins vertices of one label, and takes arcs beside edges for undirected. So the
sections are cut out here and their lines parsed by NumPy. Labels are the nodes' ids if all have one and none is there
twice. Lists (*Arcslist, *Edgeslist) and *Matrix are refused.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.importing.documents.graph_document import GraphDocument
from graphprep.errors import DatasetError
from graphprep.system import progress

SECTION = re.compile(rb"(?m)^[ \t]*\*(\w+)([^\n]*)\n?")
VERTEX = re.compile(rb'(?m)^[ \t]*(\d+)[ \t]+(?:"([^"\n]*)"|(\S+))')
NUMBER = rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
EDGE = re.compile(
    rb"(?m)^[ \t]*(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(" + NUMBER + rb"))?(?:[ \t]+[A-Za-z\"][^\n]*)?[ \t]*$"
)
COMMENT = re.compile(rb"(?m)^[ \t]*%[^\n]*\n?")


def read_pajek(text: bytes, most_nodes: int) -> GraphDocument:
    """The graph in a Pajek network.

    Args:
        text: of the file.
        most_nodes: so many fit in memory.

    Raises:
        DatasetError: it is no Pajek network, is damaged, or has sections that are not read.
    """
    text = COMMENT.sub(b"", text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    heads = list(SECTION.finditer(text))
    count: int | None = None
    labels: list[str] | None = None
    parts: list[tuple[NDArray[np.int64], list[bytes], bool]] = []
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        name = head[1].decode("latin-1").lower()
        body = text[head.end() : len(text) if after is None else after.start()]
        match name:
            case "network":
                continue
            case "vertices":
                if count is not None:
                    raise DatasetError("it has two sections *Vertices, and exactly one can be read")
                count = _count(head[2])
                if count > most_nodes:
                    raise DatasetError(f"it announces {count:,} vertices, and memory is there for {most_nodes:,}")
                labels = _labels(body, count)
            case "arcs" | "edges":
                parts.append((*_edges(body, name), name == "edges"))
            case _:
                raise DatasetError(
                    f"it has a section *{name[:60]}, which is not read; only *Vertices, *Arcs and *Edges are, so save "
                    "it with these"
                )
    if count is None:
        raise DatasetError("it has no section *Vertices")
    pairs = np.concatenate([part[0] for part in parts]) if parts else np.zeros((0, 2), np.int64)
    if len(pairs) and (pairs.min() < 1 or pairs.max() > count):
        bad = int(pairs.min() if pairs.min() < 1 else pairs.max())
        raise DatasetError(f"an edge names the vertex {bad}, but there are {count:,}, numbered from 1")
    weights = [weight for part in parts for weight in part[1]]
    edges: list[dict[str, Any]] = [{"weight": float(weight)} if weight else {} for weight in weights]
    return GraphDocument(
        ids=list(range(count)) if labels is None else labels,
        nodes=[{} for _ in range(count)],
        src=pairs[:, 0] - 1,
        dst=pairs[:, 1] - 1,
        edges=edges,
        undirected=np.concatenate([np.full(len(part[0]), part[2]) for part in parts]) if parts else False,
    )


def _count(words: bytes) -> int:
    match = re.match(rb"\s+(\d{1,18})(?:\s|$)", words)
    if match is None:
        raise DatasetError("its *Vertices does not say how many there are")
    return int(match[1])


def _labels(body: bytes, count: int) -> list[str] | None:
    """The vertices' labels in the order of their numbers; None where they cannot be ids."""
    lines = VERTEX.findall(body)
    if not lines:
        return None
    places = np.array([number for number, _, _ in lines]).astype(np.int64)
    words = [(quoted or bare).decode("utf-8", "replace") for _, quoted, bare in lines]
    if len(set(words)) < count or not np.array_equal(np.sort(places), np.arange(1, count + 1)):
        progress.say(
            "some vertices have no label, or one that another has too: ids are the numbers, from 0, not labels"
        )
        return None
    return [words[place] for place in np.argsort(places)]


def _edges(body: bytes, name: str) -> tuple[NDArray[np.int64], list[bytes]]:
    """Ends [E, 2], counting from 1, and weights as they are written."""
    lines = EDGE.findall(body)
    written = len(re.findall(rb"(?m)^[ \t]*\S", body))
    if len(lines) != written:
        odd = next(line for line in body.split(b"\n") if line.strip() and not EDGE.match(line))
        raise DatasetError(
            f"a line of its *{name.capitalize()} is not two vertices and perhaps a weight: "
            f"{odd[:60].decode('latin-1')!r}"
        )
    pairs = np.array([line[:2] for line in lines]).astype(np.int64) if lines else np.zeros((0, 2), np.int64)
    return pairs.reshape(-1, 2), [line[2] for line in lines]
