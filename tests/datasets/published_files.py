"""The files of each published source with a small graph in them, and how such files are written.

The graphs have what readers stumble over: self-loops, edges given twice, nodes without edges, float64 where float32 is
wanted, numbers that do not begin at 0, arrays that nobody asks for.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

NUM_NODES, NUM_FEATURES, NUM_CLASSES, NUM_SPLITS = 40, 6, 3, 4
Files = dict[str, Any]
"""name -> bytes, text, an array (.npy), arrays by name (.npz), a sparse matrix (.npz), or a value for JSON"""


def as_bytes(name: str, content: Any) -> bytes:
    stream = io.BytesIO()
    match content:
        case bytes():
            return content
        case str():
            return content.encode()
        case np.ndarray():
            np.save(stream, content)
        case dict() if name.endswith(".npz"):
            np.savez_compressed(stream, **content)
        case _ if sp.issparse(content):
            sp.save_npz(stream, content)
        case _:
            return json.dumps(content).encode()
    return stream.getvalue()


def zipped(files: Files) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, as_bytes(name, content))
    return stream.getvalue()


def _random() -> np.random.Generator:
    return np.random.default_rng(5)


def _labels() -> np.ndarray[Any, Any]:
    return np.arange(NUM_NODES) % NUM_CLASSES


def _pairs(count: int = 90) -> np.ndarray[Any, Any]:
    """Directed edges; some are loops, some are there twice, node 0 has none."""
    pairs = _random().integers(1, NUM_NODES, (count, 2))
    return np.concatenate([pairs, pairs[:5], [[7, 7]]])


def _matrix(pairs: np.ndarray[Any, Any], size: int = NUM_NODES) -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (size, size))


def _masks(splits: int) -> list[np.ndarray[Any, Any]]:
    role = _random().integers(0, 3, (splits, NUM_NODES))
    return [role == part for part in range(3)]


def gnn_benchmark() -> Files:
    words, edges = sp.csr_matrix(_random().integers(0, 3, (NUM_NODES, NUM_FEATURES)).astype("f4")), _matrix(_pairs())
    arrays = {"labels": _labels().astype(np.int32)}
    for prefix, matrix in (("adj", edges), ("attr", words)):
        arrays |= {f"{prefix}_{name}": getattr(matrix, name) for name in ("data", "indices", "indptr")}
        arrays[f"{prefix}_shape"] = np.array(matrix.shape)
    return {"amazon_electronics_photo.npz": arrays}


def heterophilous() -> Files:
    train, val, test = _masks(NUM_SPLITS)
    return {
        "minesweeper.npz": {
            "node_features": _random().random((NUM_NODES, NUM_FEATURES)).astype("f4"),
            "node_labels": _labels(),
            "edges": _pairs(),
            "train_masks": train,
            "val_masks": val,
            "test_masks": test,
        }
    }


def musae() -> Files:
    names = np.array({"pages": ["a", "b"]}, object)  # pickled, as some of these files have it
    return {
        "facebook.npz": {
            "features": _random().random((NUM_NODES, NUM_FEATURES)),
            "target": _labels(),
            "edges": np.concatenate([_pairs(), _pairs()[:, ::-1]]),
            "names": names,
        }
    }


def wikics() -> Files:
    role = _random().integers(0, 3, (NUM_SPLITS, NUM_NODES))
    role[:, :10] = 3
    links: list[list[int]] = [[] for _ in range(NUM_NODES)]
    for one, other in _pairs().tolist():
        links[one].append(other)
    content = {
        "features": _random().random((NUM_NODES, NUM_FEATURES)).tolist(),
        "labels": _labels().tolist(),
        "links": links,
        "test_mask": (role[0] == 3).tolist(),
        "node_titles": ["a"],
    }
    for part, name in enumerate(("train_masks", "val_masks", "stopping_masks")):
        content[name] = (role == part).tolist()
    return {"data.json": content}


def graphsaint() -> Files:
    nodes = _random().permutation(NUM_NODES).tolist()
    edges = _matrix(_pairs())
    return {
        "adj_full.npz": {
            "data": edges.data,
            "indices": edges.indices,
            "indptr": edges.indptr,
            "shape": np.array(edges.shape),
            "format": np.array(b"csr"),
        },
        "feats.npy": _random().random((NUM_NODES, NUM_FEATURES)),
        "class_map.json": {str(node): int(label) for node, label in enumerate(_labels()) if node != 3},
        "role.json": {"tr": nodes[:20], "va": nodes[20:30], "te": nodes[30:]},
    }


def several_labels() -> Files:
    table = _random().integers(0, 2, (NUM_NODES, NUM_CLASSES)).tolist()
    return {**graphsaint(), "class_map.json": {str(node): row for node, row in enumerate(table)}}


def reddit() -> Files:
    return {
        "reddit_data.npz": {
            "feature": _random().random((NUM_NODES, NUM_FEATURES)),
            "label": _labels(),
            "node_types": _random().integers(1, 4, NUM_NODES),
            "node_ids": np.arange(NUM_NODES),
        },
        "reddit_graph.npz": sp.coo_matrix((np.ones(96), _pairs().T), (NUM_NODES, NUM_NODES)),
    }


def ppi() -> Files:
    files: Files = {}
    for number, part in enumerate(("train", "valid", "test")):
        rng = np.random.default_rng(number)
        sizes = [12, 9, 7][: 3 - number]
        ids = np.repeat(np.arange(len(sizes)) + 10 * number + 1, sizes)
        links = [(node, node) for node in range(len(ids))]
        for graph in np.unique(ids):
            links += rng.choice(np.flatnonzero(ids == graph), (30, 2)).tolist()
        files |= {
            f"{part}_feats.npy": rng.random((len(ids), NUM_FEATURES)),
            f"{part}_labels.npy": rng.integers(0, 2, (len(ids), NUM_CLASSES)),
            f"{part}_graph_id.npy": ids,
            f"{part}_graph.json": {
                "directed": True,
                "multigraph": False,
                "graph": {},
                "nodes": [{"id": node} for node in range(len(ids))],
                "links": [{"source": int(one), "target": int(other)} for one, other in links],
            },
        }
    return files


def geom_gcn() -> Files:
    rng = _random()
    words = [sorted({NUM_FEATURES - 1, *rng.integers(0, NUM_FEATURES, 2).tolist()}) for _ in range(NUM_NODES)]
    nodes = [f"{node}\t{','.join(map(str, words[node]))}\t{_labels()[node]}" for node in rng.permutation(NUM_NODES)]
    files: Files = {
        "out1_node_feature_label.txt": "\n".join(["node_id\tfeature\tlabel", *nodes]) + "\n",
        "out1_graph_edges.txt": "\n".join(["node_id\tnode_id", *(f"{one}\t{other}" for one, other in _pairs())]) + "\n",
    }
    masks = _masks(10)
    for split in range(10):
        parts = zip(("train", "val", "test"), masks, strict=True)
        files[f"film_split_0.6_0.2_{split}.npz"] = {f"{part}_mask": mask[split].astype(int) for part, mask in parts}
    return files


def magnn(sizes: Mapping[str, int], *, dense: str | None = None, bare: str | None = None) -> Files:
    total, rng = sum(sizes.values()), _random()
    first = next(iter(sizes.values()))
    below, above = rng.integers(0, first, 60), rng.integers(first, total, 60)
    pairs = np.concatenate([np.column_stack([below, above]), np.column_stack([above, below])])
    files: Files = {
        "adjM.npz": _matrix(np.unique(pairs, axis=0), total),
        "labels.npy": np.arange(first) % NUM_CLASSES,
        "node_types.npy": np.repeat(np.arange(len(sizes)), list(sizes.values())),
        "train_val_test_idx.npz": {
            f"{part}_idx": nodes
            for part, nodes in zip(("train", "val", "test"), np.split(rng.permutation(first), [4, 7]), strict=True)
        },
    }
    for number, (name, size) in enumerate(sizes.items()):
        table = rng.integers(0, 2, (size, NUM_FEATURES)).astype(float)
        if name == dense:
            files[f"features_{number}.npy"] = table
        elif name != bare:
            files[f"features_{number}.npz"] = sp.csr_matrix(table)
    return files


def imdb() -> Files:
    return magnn({"movie": 12, "director": 5, "actor": 9})


def dblp() -> Files:
    return magnn({"author": 10, "paper": 14, "term": 6, "conference": 3}, dense="term", bare="conference")


def aminer() -> Files:
    rng = _random()
    papers = np.column_stack([np.arange(20), rng.integers(0, 8, 20)])
    authors = np.column_stack([rng.integers(0, 20, 50), np.r_[rng.integers(0, 12, 49), 11]])
    return {
        "net_aminer/paper_author.txt": "".join(f"{one}\t{other}\n" for one, other in [*authors, *authors[:4]]),
        "net_aminer/paper_conf.txt": "".join(f"{one}\t{other}\n" for one, other in [*papers, [3, 7]]),
        "net_aminer/id_author.txt": "".join(f"{node}\tA{node}\n" for node in range(12)),
        "net_aminer/id_conf.txt": "".join(f"{node}\tv{node}é\n" for node in range(8)),
        "net_aminer/paper.txt": "0\tsome title\n",
        "label/googlescholar.8area.author.label.txt": "".join(f"A{node} {node % 4 + 1}\n" for node in (1, 3, 5, 11)),
        "label/googlescholar.8area.venue.label.txt": "".join(f"v{node}é {node % 3 + 1}\n" for node in (0, 2, 3)),
    }
