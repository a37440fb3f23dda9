"""PyTorch Geometric's Data and HeteroData as torch.save writes them (.pt), read without running anything in them.

The file is a zip archive with a pickle of the object and one member a tensor. It goes through torch.load with
weights_only, which resolves tensors and what is listed here, and refuses every other name. PyTorch Geometric's classes
never see the file: each of its names stands for an inert `Shell` that keeps its state, so no release of the package has
to match the file, and none of its setters trusts it. Tensors stay mapped from the file, so features may be larger than
memory; the archive's checksums are compared before, since torch does not.

Of each node type x, y, train_mask, val_mask, test_mask (or lists of nodes: train_idx, val_idx, test_idx; and time) are
read, of each edge type edge_index, and if they are asked for edge_weight (or an edge_attr of one column) and edge_time
(or time); other attributes are named on standard error, and in the store's notes as ignored. Ids are row numbers. The
number of nodes is num_nodes, or that of the rows, or else the greatest id plus one, as there.

An InMemoryDataset saves (data, slices) or (data, slices, class), data being an object or a dictionary and slices where
each of its graphs begins; one graph is read, several are refused.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.core.choices import LabelTask
from graphprep.core.types import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, EdgeType, RawGraph
from graphprep.datasets.importing.edges.edge_arrays import EdgeArrays
from graphprep.datasets.importing.edges.edge_file import EdgeOptions
from graphprep.datasets.importing.import_request import ImportRequest
from graphprep.datasets.importing.node_files import NodeData
from graphprep.datasets.importing.node_lists import listed_nodes, named_lists
from graphprep.datasets.importing.table_files import reading
from graphprep.datasets.importing.typed_edges import TypedEdges
from graphprep.datasets.importing.user_graph import build, checked_arrays
from graphprep.errors import DatasetError
from graphprep.system import progress
from graphprep.system.files.archive import Archive

Array = NDArray[Any]
Store = dict[str, Any]
NAMES = (
    "data.data.Data",
    "data.data.DataEdgeAttr",
    "data.data.DataTensorAttr",
    "data.hetero_data.HeteroData",
    "data.storage.BaseStorage",
    "data.storage.GlobalStorage",
    "data.storage.NodeStorage",
    "data.storage.EdgeStorage",
    "data.graph_store.EdgeAttr",
    "data.graph_store.EdgeLayout",
    "data.feature_store.TensorAttr",
    "data.feature_store._FieldStatus",
)
NODE_NAMES = ("x", "y", "train_mask", "val_mask", "test_mask", "time")
WEIGHTS, TIMES = ("edge_weight", "edge_attr"), ("edge_time", "time")
MOST_REPEATED = 64 << 20
"""bytes of a tensor with a stride of 0, which repeats what is stored; PyTorch Geometric saves small ones"""
TYPE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(_[A-Za-z0-9.-]+)*")


class Shell:
    """Stands for a class of PyTorch Geometric's: keeps the state that it is given and does nothing."""

    def __init__(self, *_: object) -> None:
        self.state: Store = {}

    def __new__(cls, *_: object) -> Shell:
        made = super().__new__(cls)
        made.state = {}
        return made

    def __setstate__(self, state: object) -> None:
        self.state = state if isinstance(state, dict) else {}


def read_saved(path: Path, request: ImportRequest, *, memory_limit: int | None = None) -> RawGraph:
    """The graph in a .pt file.

    Args:
        path: of the file.
        request: of this file alone; of its one edge type, whether weights and times are read.
        memory_limit: bytes that the process may use; None for half of what is free.

    Raises:
        DatasetError: it is no Data or HeteroData, asks for other names, is damaged, or holds what is no graph.
    """
    options, task = request.edges[0].options, request.nodes[HOMOGENEOUS_NODE].task
    with reading(path):
        nodes, edges, ignored = _found(_one_graph(_loaded(path)))
        typed = [_typed(path, edge_type, store, options, ignored) for edge_type, store in edges.items()]
        for edge_type in edges:
            for name in (edge_type.source, edge_type.destination):
                nodes.setdefault(name, {})
        read = {name: _node_data(path, name, store, typed, ignored, task) for name, store in nodes.items()}
    if ignored:
        progress.say(f"{path}: left out: {', '.join(ignored)}")
    notes = {"ignored": {path.name: ignored}} if ignored else {}
    return build(request, read, typed, notes=notes, memory_limit=memory_limit)


def _loaded(path: Path) -> object:
    import torch

    with Archive(path) as archive:  # torch.save before 1.6 wrote no archive; such files are refused
        archive.check()
    try:
        with _only_shells():
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as problem:  # the unpickler lets out whatever a damaged program runs into
        refused = re.search(r"GLOBAL ([\w.]+)", str(problem))
        if refused:
            raise DatasetError(
                f"it asks for {refused[1]}, which a saved Data or HeteroData has no need of; do not open it yourself"
            ) from problem
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise DatasetError(f"torch cannot read it ({first[:200]})") from problem


def _one_graph(value: object) -> Shell:
    """The one Data or HeteroData in a file, which may be alone in a list or in a dataset.

    Raises:
        DatasetError: there is none, or there are several.
    """
    graphs = 1
    items: Sequence[object] = value if isinstance(value, list | tuple) else ()
    if isinstance(value, tuple) and len(items) in (2, 3) and isinstance(items[1], dict | None):
        value, graphs = _unpacked(items[0]), _count_graphs(items[1])
    elif items and all(isinstance(item, Shell) for item in items):
        value, graphs = items[0], len(items)
    if graphs > 1:
        raise DatasetError(
            f"it holds {graphs:,} graphs, and one is imported; save the one that you mean: "
            "torch.save(dataset[0], 'graph.pt')"
        )
    if not isinstance(value, Shell):
        raise DatasetError(
            f"it holds a {type(value).__name__}, not a Data or HeteroData of PyTorch Geometric's; save one: "
            "torch.save(data, 'graph.pt')"
        )
    return value


def _count_graphs(slices: object) -> int:
    """How many graphs slices tell apart: each is a list of borders, by attribute, or by type and attribute."""
    if isinstance(slices, dict):
        return max((_count_graphs(borders) for borders in slices.values()), default=1)
    return 1 if slices is None else max(1, len(slices) - 1) if hasattr(slices, "__len__") else 1


def _unpacked(value: object) -> object:
    """The object that `to_dict` made a dictionary of: a Data of its attributes, or a HeteroData of its stores by type.

    Returns:
        A shell in the state of that object, or what it was given where that is neither.
    """
    if not isinstance(value, dict):
        return value

    def store(mapping: object) -> Shell:
        made = Shell()
        made.state = {"_mapping": mapping}
        return made

    shell = Shell()
    if any(isinstance(key, tuple) for key in value):
        stores = {key: store(mapping) for key, mapping in value.items() if isinstance(mapping, dict)}
        extra = stores.pop("_global_store", store({}))
        shell.state = {
            "_global_store": extra,
            "_node_store_dict": {key: made for key, made in stores.items() if not isinstance(key, tuple)},
            "_edge_store_dict": {key: made for key, made in stores.items() if isinstance(key, tuple)},
        }
        return shell
    if "edge_index" not in value and "adj_t" not in value:
        return value
    shell.state = {"_store": store(value)}
    return shell


@contextmanager
def _only_shells() -> Iterator[None]:
    """Lets torch resolve the shells, and for the while nothing that anybody else has allowed (the package itself allows
    its own classes as it is imported)."""
    from torch import serialization

    others = serialization.get_safe_globals()
    serialization.clear_safe_globals()
    try:
        serialization.add_safe_globals([(Shell, f"torch_geometric.{name}") for name in NAMES])
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(others)


def _found(shell: Shell) -> tuple[dict[str, Store], dict[EdgeType, Store], list[str]]:
    """Node stores, edge stores, and the names of what is neither."""
    state = shell.state
    if "_store" in state:
        store = _mapping(state["_store"])
        edge_names = {name for name in store if name.startswith("edge_") or (name == "time" and _is_of_edges(store))}
        edge = {name: value for name, value in store.items() if name in edge_names}
        node = {name: value for name, value in store.items() if name not in edge_names}
        return {HOMOGENEOUS_NODE: node}, {HOMOGENEOUS_EDGE: edge}, []
    if not isinstance(state.get("_node_store_dict"), dict) or not isinstance(state.get("_edge_store_dict"), dict):
        raise DatasetError("it holds neither a Data nor a HeteroData of PyTorch Geometric's")
    nodes = {_type_name(name): _mapping(store) for name, store in state["_node_store_dict"].items()}
    edges: dict[EdgeType, Store] = {}
    for key, store in state["_edge_store_dict"].items():
        if not isinstance(key, tuple) or len(key) != 3:
            raise DatasetError(
                f"it has the edge type {reprlib.repr(key):.60}, not a source, a relation and a destination"
            )
        edges[EdgeType(*(_type_name(word) for word in key))] = _mapping(store)
    extra = _mapping(state["_global_store"]) if isinstance(state.get("_global_store"), Shell) else {}
    return nodes, edges, sorted(str(name) for name in extra)


def _is_of_edges(store: Store) -> bool:
    """Whether the `time` of a Data has one entry an edge, and cannot be one of the nodes."""

    def rows(name: str) -> int | None:
        shape = getattr(store.get(name), "shape", None)
        return shape[-1 if name == "edge_index" else 0] if shape else None

    return rows("time") == rows("edge_index") != (rows("x") or rows("y") or store.get("num_nodes"))


def _mapping(store: object) -> Store:
    mapping = store.state.get("_mapping") if isinstance(store, Shell) else None
    if not isinstance(mapping, dict):
        raise DatasetError("it holds a store in a form that PyTorch Geometric does not write")
    return mapping


def _type_name(name: object) -> str:
    if not isinstance(name, str) or not TYPE_NAME.fullmatch(name):
        raise DatasetError(
            f"it has the type name {reprlib.repr(name):.60}; "
            "names of types are letters, digits, '.', '-' and single '_' between them"
        )
    return name


def _typed(path: Path, edge_type: EdgeType, store: Store, options: EdgeOptions, ignored: list[str]) -> TypedEdges:
    used = {"edge_index"}

    def one_of(names: tuple[str, ...], what: str) -> Array:
        chosen = next((name for name in names if name in store), None)
        if chosen is None:
            raise DatasetError(f"the edges {edge_type.key} have no {what} ({' or '.join(names)})")
        used.add(chosen)
        array = _array(store[chosen], f"{edge_type.key} {chosen}")
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array

    if "edge_index" not in store:
        what = "adj_t, a sparse tensor" if "adj_t" in store else "no edge_index"
        raise DatasetError(f"the edges {edge_type.key} have {what}; save it with an edge_index")
    index = _array(store["edge_index"], f"{edge_type.key} edge_index")
    if index.ndim != 2 or len(index) != 2 or index.dtype.kind not in "iu":
        raise DatasetError(f"the edge_index of {edge_type.key} has shape {index.shape} and dtype {index.dtype}")
    arrays = EdgeArrays(
        path=path,
        src=index[0],
        dst=index[1],
        weight=one_of(WEIGHTS, "weights") if options.weights else None,
        time=one_of(TIMES, "times") if options.times else None,
    )
    ignored += [f"{edge_type.key} {name}" for name in store if name not in used]
    return TypedEdges(type=edge_type, files=[arrays], times=options.times)


def _node_data(
    path: Path, name: str, store: Store, typed: list[TypedEdges], ignored: list[str], task: LabelTask
) -> NodeData:
    arrays = {key: _array(store[key], f"{name} {key}") for key in NODE_NAMES if store.get(key) is not None}
    lists = named_lists([key for key, value in store.items() if value is not None], arrays)
    used = {*arrays, *lists.values(), "num_nodes"}
    ignored += [f"{name} {key}" for key, value in store.items() if key not in used and value is not None]
    count = _number(store.get("num_nodes"))
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise DatasetError(f"the num_nodes of {name} is {reprlib.repr(count):.60}")
    if count is None:
        rows = next((len(arrays[key]) for key in ("x", "y", "time") if key in arrays), None)
        count = _greatest(name, typed) + 1 if rows is None else rows
    for mask, key in lists.items():
        arrays[mask] = listed_nodes(_array(store[key], f"{name} {key}"), count, f"{name} {key}")
    checked = checked_arrays(f"{path} ({name})", arrays, count, task)
    return NodeData(
        arrays=checked, counts={f"{path} ({name})": count}, origin=dict.fromkeys(checked, f"{path} ({name})")
    )


def _number(count: object) -> object:
    """The number in a list or tensor of one, as a dataset keeps the number of nodes of each of its graphs."""
    if isinstance(count, list | tuple) and len(count) == 1:
        return count[0]
    import torch

    return count.item() if isinstance(count, torch.Tensor) and count.numel() == 1 else count


def _greatest(name: str, typed: list[TypedEdges]) -> int:
    """The greatest id of a node type among its edges, -1 if there is none."""
    greatest = -1
    for part in typed:
        for file in part.files:
            if isinstance(file, EdgeArrays):
                for end, ids in ((part.type.source, file.src), (part.type.destination, file.dst)):
                    greatest = max(greatest, int(ids.max())) if end == name and len(ids) else greatest
    return greatest


def _array(value: object, what: str) -> Array:
    """A tensor as an array that shares its memory."""
    import torch

    if type(value) is not torch.Tensor or value.layout != torch.strided or value.is_quantized:
        raise DatasetError(f"{what} is a {type(value).__name__}, not a plain tensor")
    size, stored = value.numel() * value.element_size(), value.untyped_storage().nbytes()
    if size > max(stored, MOST_REPEATED):
        raise DatasetError(
            f"{what} has shape {tuple(value.shape)}, which is {size:,} bytes, but only {stored:,} are stored (it has "
            "strides of 0, or overlaps itself); save a contiguous() copy of it"
        )
    try:
        if value.dtype == torch.bfloat16:
            value = value.float()
        array: Array = np.asarray(value.detach().resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError) as problem:
        raise DatasetError(f"{what} is a tensor of {value.dtype}, which is no number that is known here") from problem
    return array
