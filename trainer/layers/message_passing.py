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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, get_args, get_origin

from torch import Tensor, nn

from trainer.base.errors import TrainingError

_OVER_ALL_ROWS = {"_BatchNorm", "_InstanceNorm", "GraphNorm", "PairNorm", "MeanSubtractionNorm", "DiffGroupNorm"}
"""Classes that compute over all rows of the graph at once. torch's SyncBatchNorm does that among ranks."""


class LocalGraph(Protocol):
    """What layers need of a part."""

    num_nodes: int
    """n"""
    edge_index: Tensor
    """int64 [2, E]: the source of each edge, 0 .. n + H - 1, and its destination, 0 .. n - 1"""
    edge_weight: Tensor | None

    def with_halo(self, rows_nF: Tensor) -> Tensor:
        """This rank's rows and the halo's: [n + H, F]."""

    def gcn_edges(self) -> tuple[Tensor, Tensor]:
        """Edges with self-loops, as `edge_index`, and their weights after GCN's normalisation."""

    def dropout(self, rows_nF: Tensor, share: float) -> Tensor:
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
        if type(layer) is nn.Dropout:
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

    def before(self, layer: nn.Module, args: Any, kwargs: Any) -> Any:
        """Put the halo's rows below this rank's."""
        self.propagated, self.normalised = 0, False
        bound = self.signature.bind(*args, **kwargs)
        given, graph = bound.arguments, self.graph
        rows = given.get("x")
        if not isinstance(rows, Tensor) or len(rows) != graph.num_nodes:
            raise self._error(layer, f"is called with other rows than the {graph.num_nodes} of this rank")
        if given.get("edge_index") is not graph.edge_index:
            raise self._error(layer, "is called with other edges than the graph's edge_index")
        if _normalises(layer):
            self._use_weights_of_all_ranks(layer, given)
        sources = graph.with_halo(rows)
        given["x"] = (sources, rows) if _takes_pairs(self.signature) else sources
        return bound.args, bound.kwargs

    def after(self, layer: nn.Module, args: Any, out: Any) -> Any:  # noqa: ARG002
        """Keep this rank's rows of the result."""
        if self.normalised:
            layer.normalize = True  # type: ignore[assignment]
        if out is None:  # it raised
            return None
        if not isinstance(out, Tensor):
            raise self._error(layer, f"gives a {type(out).__name__}; only a tensor of rows can be split among ranks")
        return out[: self.graph.num_nodes]

    def count(self, layer: nn.Module, inputs: Any) -> None:  # noqa: ARG002
        """Refuse a second step over the edges, whose halo rows would be those of the first."""
        self.propagated += 1
        if self.propagated > 1:
            raise self._error(layer, "goes over the edges more than once a call; use one layer for each step")

    def _use_weights_of_all_ranks(self, layer: nn.Module, given: dict[str, Any]) -> None:
        """GCN's weights depend on the degrees of sources, which their owners know."""
        graph = self.graph
        if not _is_a(layer, {"GCNConv"}) or getattr(layer, "improved", False) or not layer.add_self_loops:
            raise self._error(
                layer,
                "normalises by the degrees of other ranks' nodes; GCNConv with its defaults can, or normalize=False",
            )
        if given.get("edge_weight") is not graph.edge_weight:
            raise self._error(layer, "normalises weights; give it the graph's edge_weight")
        given["edge_index"], given["edge_weight"] = graph.gcn_edges()
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
    if not layer.training or not layer.p or rows.dim() != 2 or len(rows) != graph.num_nodes:
        return ordinary(rows)
    return graph.dropout(rows, layer.p)
