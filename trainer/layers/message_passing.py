"""Lets the layers of a PyTorch Geometric model compute on one rank's part: each gets the rows of the halo first.

A layer over the rows of a part and of its halo gives the part's rows what the same layer over the whole graph gives
them, as long as a row depends on its in-neighbours and on itself alone. So a model is called with this rank's rows and
edges, as it would be with all of them; before each of its layers the halo's rows are fetched, and only this rank's rows
of the result go on. Layers that look further are refused, since they would be wrong without a sign of it.

PyTorch Geometric is not imported: its layers are known by their base class, and changed by torch's own hooks.

Letters: n rows of this part, H halo rows, E edges.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, get_args, get_origin

from torch import Tensor, nn

from trainer.base.errors import TrainingError

_OVER_ALL_ROWS = {"_BatchNorm", "_InstanceNorm", "GraphNorm", "PairNorm", "MeanSubtractionNorm", "DiffGroupNorm"}
"""Classes that compute over all rows of the graph at once. torch's SyncBatchNorm does that among ranks."""


class LocalRelation(NamedTuple):
    """The edges of one type into this part's rows."""

    key: tuple[str, str, str]
    """source, relation, destination"""
    edge_index: Tensor
    """int64 [2, E]: the source of each edge, 0 .. n + H - 1, and its destination, 0 .. n - 1, each within its type"""
    edge_weight: Tensor | None


class LocalGraph(Protocol):
    """What layers need of a part."""

    num_nodes_dict: dict[str, int]
    """n by node type"""

    @property
    def relations(self) -> Sequence[LocalRelation]:
        """The edges, by type."""

    @property
    def draws_by_node(self) -> bool:
        """Whether `torch.nn.Dropout` is to draw by node."""

    def with_halo(self, rows_nF: Tensor, node_type: str | None = None) -> Tensor:
        """This rank's rows and the halo's: [n + H, F]."""

    def gcn_edges(self, relation: tuple[str, str, str] | None = None) -> tuple[Tensor, Tensor]:
        """Edges with self-loops, as `edge_index`, and their weights after GCN's normalisation."""

    def dropout(self, rows_nF: Tensor, share: float, node_type: str | None = None) -> Tensor:
        """Rows with a share of their entries zeroed, the same ones on any number of ranks."""


@dataclass(slots=True)
class DistributedLayers:
    """The layers of a model that fetch halo rows; `remove` makes them ordinary layers again."""

    _undo: list[Callable[[], None]] = field(default_factory=list)

    def on_removal(self, undo: Callable[[], None]) -> None:
        """Also call `undo` then."""
        self._undo.append(undo)

    def remove(self) -> None:
        """Let the model compute on whole graphs again."""
        while self._undo:
            self._undo.pop()()


def distribute(model: nn.Module, graph: LocalGraph) -> DistributedLayers:
    """Let a model's message-passing layers fetch the rows of the halo, and its `torch.nn.Dropout` draw by node.

    Raises:
        TrainingError: a layer computes over all rows of the graph at once, or the model has no message-passing layer.
    """
    layers = DistributedLayers()
    for name, layer in model.named_modules():
        _check_norm(name, layer)
        if _is_a(layer, {"MessagePassing"}):
            adapter = _Adapter(name, graph, inspect.signature(layer.forward))
            layers._undo += [
                layer.register_forward_pre_hook(adapter.before, with_kwargs=True).remove,
                layer.register_forward_hook(adapter.after, always_call=True).remove,
                layer.register_propagate_forward_pre_hook(adapter.count).remove,
            ]
    if not layers._undo:
        raise TrainingError(
            f"{type(model).__name__} has no layer of torch_geometric's MessagePassing, and only those fetch rows of "
            "other ranks; use with_halo in its forward"
        )
    for layer in model.modules():
        if graph.draws_by_node and type(layer) is nn.Dropout:
            layer.forward = partial(_dropout, layer, graph, layer.forward)  # type: ignore[method-assign]
            layers._undo.append(partial(layer.__dict__.pop, "forward"))
    return layers


@dataclass(slots=True)
class _Adapter:
    """The hooks of one layer."""

    name: str
    graph: LocalGraph
    signature: inspect.Signature
    """Of its forward."""
    propagated: int = 0
    normalised: bool = False
    """Whether the layer's own normalisation is switched off during the call."""
    num_rows: dict[str, int] | int = 0
    """How many rows of the result are this rank's; by node type where the layer gives those of all"""

    def before(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        """Put the halo's rows below this rank's."""
        self.propagated, self.normalised = 0, False
        bound = self.signature.bind(*args, **kwargs)
        if "x_dict" in bound.arguments:
            self._extend_all(layer, bound.arguments)
        else:
            self._extend(layer, bound.arguments)
        return bound.args, bound.kwargs

    def _extend(self, layer: nn.Module, given: dict[str, Any]) -> None:
        graph = self.graph
        relation = next((one for one in graph.relations if one.edge_index is given.get("edge_index")), None)
        if relation is None:
            name = "edge_index" if len(graph.relations) == 1 else "tensors in edge_index_dict"
            raise self._error(layer, f"is called with other edges than the graph's {name}")
        source, _, destination = relation.key
        rows, numbers = given.get("x"), [graph.num_nodes_dict[name] for name in (source, destination)]
        pair = rows if isinstance(rows, tuple) else (rows, rows)
        if [len(one) if isinstance(one, Tensor) else None for one in pair] != numbers:
            both = f"{numbers[0]}" if source == destination else f"{numbers[0]} and {numbers[1]}"
            raise self._error(layer, f"is called with other rows than the {both} of this rank")
        if _normalises(layer):
            self._use_weights_of_all_ranks(layer, given, relation)
        sources = graph.with_halo(pair[0], source)
        takes_pairs = isinstance(rows, tuple) or _takes_pairs(self.signature)
        given["x"] = (sources, pair[1]) if takes_pairs else sources
        self.num_rows = graph.num_nodes_dict[destination]

    def _extend_all(self, layer: nn.Module, given: dict[str, Any]) -> None:
        """Of a layer over all types at once."""
        graph, edges = self.graph, given.get("edge_index_dict", {})
        known = {one.key: one.edge_index for one in graph.relations}
        if not _is_a(layer, {"HGTConv"}):
            raise self._error(layer, "takes all types at once, which only HGTConv can; use HeteroConv for others")
        if any(known.get(key) is not edge_index for key, edge_index in edges.items()):
            raise self._error(layer, "is called with other edges than the graph's edge_index_dict")
        rows = given["x_dict"]
        for name, of_type in rows.items():
            if len(of_type) != graph.num_nodes_dict.get(name):
                raise self._error(layer, f"is called with other rows of {name} than those of this rank")
        given["x_dict"] = {name: graph.with_halo(of_type, name) for name, of_type in rows.items()}
        self.num_rows = graph.num_nodes_dict

    def after(self, layer: nn.Module, args: Any, out: Any) -> Any:  # noqa: ARG002
        """Keep this rank's rows of the result."""
        if self.normalised:
            layer.normalize = True  # type: ignore[assignment]
        if out is None:  # it raised
            return None
        if isinstance(out, dict) and isinstance(self.num_rows, dict):
            return {name: None if rows is None else rows[: self.num_rows[name]] for name, rows in out.items()}
        if not isinstance(out, Tensor) or isinstance(self.num_rows, dict):
            raise self._error(layer, f"gives a {type(out).__name__}; only a tensor of rows can be split among ranks")
        return out[: self.num_rows]

    def count(self, layer: nn.Module, inputs: Any) -> None:  # noqa: ARG002
        """Refuse a second step over the edges, whose halo rows would be those of the first."""
        self.propagated += 1
        if self.propagated > 1:
            raise self._error(layer, "goes over the edges more than once a call; use one layer for each step")

    def _use_weights_of_all_ranks(self, layer: nn.Module, given: dict[str, Any], relation: LocalRelation) -> None:
        """GCN's weights depend on the degrees of sources, which their owners know."""
        source, _, destination = relation.key
        is_known = _is_a(layer, {"GCNConv"}) and not getattr(layer, "improved", False) and layer.add_self_loops
        if not is_known or source != destination:
            raise self._error(
                layer,
                "normalises by the degrees of other ranks' nodes; GCNConv with its defaults can, or normalize=False",
            )
        if given.get("edge_weight") is not relation.edge_weight:
            raise self._error(layer, "normalises weights; give it the graph's edge_weight")
        given["edge_index"], given["edge_weight"] = self.graph.gcn_edges(relation.key)
        layer.normalize, self.normalised = False, True  # type: ignore[assignment]

    def _error(self, layer: nn.Module, what: str) -> TrainingError:
        return TrainingError(f"layer {self.name or 'of the model'} ({type(layer).__name__}) {what}")


def _check_norm(name: str, layer: nn.Module) -> None:
    is_whole = _is_a(layer, _OVER_ALL_ROWS) and not isinstance(layer, nn.SyncBatchNorm)
    if is_whole or (_is_a(layer, {"LayerNorm"}) and getattr(layer, "mode", None) == "graph"):
        raise TrainingError(
            f"layer {name} ({type(layer).__name__}) computes over all rows of the graph, and this rank has some of "
            "them; use a norm of each row by itself, as torch.nn.LayerNorm or torch_geometric's with mode='node'"
        )


def _is_a(layer: nn.Module, names: set[str]) -> bool:
    return any(kind.__name__ in names for kind in type(layer).__mro__)


def _normalises(layer: nn.Module) -> bool:
    """Whether a layer applies GCN's normalisation by itself."""
    return hasattr(sys.modules[type(layer).__module__], "gcn_norm") and bool(getattr(layer, "normalize", True))


def _takes_pairs(signature: inspect.Signature) -> bool:
    """Whether a layer takes rows of sources and of destinations apart, which saves it the halo's as destinations."""
    return any(get_origin(kind) is tuple for kind in get_args(signature.parameters["x"].annotation))


def _dropout(layer: nn.Dropout, graph: LocalGraph, ordinary: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    [num_nodes] = graph.num_nodes_dict.values()
    if not layer.training or not layer.p or rows.dim() != 2 or len(rows) != num_nodes:
        return ordinary(rows)
    return graph.dropout(rows, layer.p)
