"""Graphs become stores: from the registry, from files, and from the objects of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replaced
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from graphprep.api.call import library_call, location_of, work
from graphprep.api.options import FetchOptions, FileOptions, GraphOptions, Place
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType
from graphprep.datasets.importing.options import ImportOptions
from graphprep.errors import UsageError
from graphprep.interop.in_memory import ArrayGraph
from graphprep.store.store import GraphStore
from graphprep.system.files.session_folder import new_folder
from graphprep.system.options import options_in, take_options

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data, HeteroData

    from graphprep.datasets.importing.import_request import ImportRequest

UNNAMED = "graph"
"""the name of a graph without one"""


@library_call(FetchOptions)
def fetch(name: str, **options: Unpack[FetchOptions]) -> GraphStore:
    """Download, verify and convert a dataset of the registry, or find that it is here.

    Args:
        name: of the dataset; `graphprep list` shows them.

    Returns:
        The store, HOME/stores/NAME.zarr unless `out` says otherwise.

    Raises:
        UnknownDatasetError: the registry has no such name.
        DownloadError: a file could not be had, or is not what it should be.
        DatasetError: something else lies there.
    """
    from pipelines.ingest import fetch_dataset

    values: dict[str, Any] = {**options}
    with work(values) as (limit, executor):
        return fetch_dataset(name, memory_limit=limit, executor=executor, **values).store


@library_call(FileOptions, ImportOptions)
def import_graph(
    *edges: str | Path, name: str, extend: GraphStore | Place | None = None, **options: Unpack[FileOptions]
) -> GraphStore:
    """Convert a user's own files to a store, or find that it is there.

    Args:
        edges: files of edges, or one file of a whole graph; none with `schema`.
        name: what to call the dataset.
        extend: a store whose nodes and edges the new store has too; the files give new ones, and name old and new nodes
            by the ids of that store, which stays as it is. Its nodes keep their rows, and new ones follow.

    Raises:
        DatasetError: a file is not what it should be or does not fit the store to extend, or another store lies there.
        UsageError: options do not go together.
    """
    from pipelines.extend import extend_store
    from pipelines.ingest import import_files

    values: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    request = file_request(edges, values)
    make = import_files if extend is None else partial(extend_store, location_of(extend))
    with work(values) as (limit, executor):
        return make(request, name=name, memory_limit=limit, executor=executor, **values).store


def file_request(files: Sequence[Place], values: dict[str, Any]) -> ImportRequest:
    """What to import; options of an import are taken out of `values`."""
    from graphprep.datasets.importing.import_request import request_of

    import_options = {
        option.name: _value(values.pop(option.name), option)
        for option in options_in(ImportOptions)
        if option.name in values
    }
    return request_of(ImportOptions(edges=tuple(map(Path, files)), **import_options))


def _value(value: Any, option: Any) -> Any:
    """A value as `ImportOptions` has it: paths are paths, columns are words, one column is a tuple of one."""
    if option.kind is Path:
        return Path(value)
    if option.is_tuple:
        return tuple(map(str, [value] if isinstance(value, str | int) else value))
    return str(value) if option.kind is str else value


@library_call(GraphOptions, ImportOptions)
def from_pyg(data: Data | HeteroData, **options: Unpack[GraphOptions]) -> GraphStore:
    """A store of a graph of PyTorch Geometric.

    Args:
        data: with `edge_index` [2, E], or `adj_t` as a SparseTensor or a sparse tensor [N, N]. Kept are x [N, F] (any
            number; bfloat16 becomes float32), y [N] (classes, -1 for none) or [N, C], train_mask, val_mask and
            test_mask [N] or [N, S], time [N], original_id [N], edge_weight [E], edge_time [E], and every other tensor
            of one row a node or an edge by its name. What is left out is said. Without masks splits are drawn.

    Returns:
        The store `name` in GRAPHPREP_HOME or at `out`; without both one that is removed when Python ends.

    Raises:
        UsageError, DatasetError: it is no single graph, or a tensor is not what its name says.
    """
    from graphprep.interop.pyg import from_pyg as arrays_of

    return _store(arrays_of(data), {**options})


@library_call(GraphOptions, ImportOptions)
def from_dgl(graph: Any, **options: Unpack[GraphOptions]) -> GraphStore:
    """A store of a graph of DGL.

    Args:
        graph: a DGLGraph of one or several types. Arrays of nodes and edges are kept by their names; feat is x [N, F],
            label is y [N] or [N, C], and w, weight or edge_weight of edges [E] are the weights.

    Returns, Raises: as for `from_pyg`.
    """
    from graphprep.interop.dgl_graph import from_dgl as arrays_of

    return _store(arrays_of(graph), {**options})


@library_call(GraphOptions, ImportOptions)
def from_networkx(
    graph: nx.Graph,
    *,
    features: Sequence[str] | None = None,
    label: str | None = None,
    **options: Unpack[GraphOptions],
) -> GraphStore:
    """A store of a graph of NetworkX.

    Args:
        graph: nodes are all whole numbers or all words; these are kept as the nodes' ids.
        features: attributes of nodes that are features: numbers, or as many numbers for each node; None for `x`.
        label: the attribute of nodes that is the label, numbers or words; None for `y`.

    Returns, Raises: as for `from_pyg`.
    """
    from graphprep.interop.networkx_graph import from_networkx as arrays_of

    task = options.get("task", "auto")
    return _store(arrays_of(graph, features=features, label=label, task=task), {**options})


@library_call(GraphOptions, ImportOptions)
def from_scipy(
    matrix: Any,
    *,
    x: Any = None,
    y: Any = None,
    train_mask: Any = None,
    val_mask: Any = None,
    test_mask: Any = None,
    node_arrays: Mapping[str, Any] | None = None,
    ids: Any = None,
    **options: Unpack[GraphOptions],
) -> GraphStore:
    """A store of an adjacency matrix of SciPy.

    Args:
        matrix: sparse, [N, N], of any format; rows are destinations, columns are sources, as `to_scipy` gives them.
            Each entry is an edge; values are the weights unless all are 1.
        x: [N, F], any number.
        y: [N] (classes, -1 for none) or [N, C].
        train_mask: [N] or [N, S], or the rows of the nodes.
        val_mask: likewise.
        test_mask: likewise.
        node_arrays: other arrays of one row a node, by name.
        ids: [N], the nodes' own ids by row, whole numbers or words.

    Returns, Raises: as for `from_pyg`.
    """
    from graphprep.interop.scipy_matrix import from_scipy as arrays_of

    masks = {"train_mask": train_mask, "val_mask": val_mask, "test_mask": test_mask}
    return _store(arrays_of(matrix, {"x": x, "y": y, **masks, "ids": ids, **(node_arrays or {})}), {**options})


@library_call(GraphOptions, ImportOptions)
def from_arrays(
    edge_index: Any = None,
    *,
    num_nodes: int | None = None,
    x: Any = None,
    y: Any = None,
    train_mask: Any = None,
    val_mask: Any = None,
    test_mask: Any = None,
    time: Any = None,
    node_arrays: Mapping[str, Any] | None = None,
    ids: Any = None,
    edge_weight: Any = None,
    edge_time: Any = None,
    edge_arrays: Mapping[str, Any] | None = None,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    edges: Mapping[tuple[str, str, str], Any] | None = None,
    **options: Unpack[GraphOptions],
) -> GraphStore:
    """A store of arrays of NumPy, PyTorch or pandas, or of lists.

    Args:
        edge_index: [2, E], or sources and destinations [E]: rows of nodes, or their ids if `ids` are given or if they
            are words. Whole numbers without `ids`, `num_nodes`, `x` or `y` are ids too, in ascending order.
        num_nodes: N.
        x: [N, F], any number.
        y: [N] (classes, -1 for none) or [N, C].
        train_mask: [N] or [N, S], or the rows of the nodes.
        val_mask: likewise.
        test_mask: likewise.
        time: [N].
        node_arrays: other arrays of one row a node, by name.
        ids: [N], the nodes' own ids by row, whole numbers or words.
        edge_weight: [E].
        edge_time: [E].
        edge_arrays: other arrays of one row an edge, by name.
        nodes: in place of the arguments above, for several types: by type all of these of nodes, by name.
        edges: by (source, relation, destination) all of these of edges, or `edge_index` alone.

    Returns, Raises: as for `from_pyg`.
    """
    from graphprep.interop.arrays import from_arrays as arrays_of

    masks = {"train_mask": train_mask, "val_mask": val_mask, "test_mask": test_mask}
    of_nodes = {"num_nodes": num_nodes, "x": x, "y": y, **masks, "time": time, "ids": ids, **(node_arrays or {})}
    weights = {"edge_weight": edge_weight, "edge_time": edge_time}
    of_edges = {"edge_index": edge_index, **weights, **(edge_arrays or {})}
    if nodes is None and edges is None:
        return _store(arrays_of({HOMOGENEOUS_NODE: of_nodes}, {HOMOGENEOUS_EDGE: of_edges}), {**options})
    if both := [name for name, value in (of_nodes | of_edges).items() if value is not None]:
        raise UsageError(f"{both[0]} cannot be given beside nodes and edges; put it among those of its type")
    of_types = {
        _edge_type(kind): of_type if isinstance(of_type, Mapping) else {"edge_index": of_type}
        for kind, of_type in (edges or {}).items()
    }
    return _store(arrays_of(nodes or {}, of_types), {**options})


def _edge_type(kind: Sequence[str] | str) -> EdgeType:
    words = kind.split("__") if isinstance(kind, str) else kind
    if len(words) != 3:
        raise UsageError(f"edges have the type {kind!r}; give (source, relation, destination)")
    return EdgeType(*words)


def _store(graph: ArrayGraph, options: dict[str, Any]) -> GraphStore:
    from pipelines.from_memory import import_arrays

    name, out = options.pop("name", None), options.pop("out", None)
    request = take_options(ImportOptions, {**options})
    for option in options_in(ImportOptions):
        options.pop(option.name, None)
    if name is None and out is None:
        out = new_folder() / f"{UNNAMED}.zarr"
        remark = f"no name was given: {out} is removed when Python ends; name= keeps it"
        graph = replaced(graph, remarks=(*graph.remarks, remark))
    with work(options) as (limit, executor):
        name = name or Path(str(out)).name.removesuffix(".zarr")
        return import_arrays(graph, request, name=name, out=out, memory_limit=limit, executor=executor, **options).store
