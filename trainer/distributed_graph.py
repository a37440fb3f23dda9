"""A training loop of one's own on a partition cache: this rank's part as a local graph whose layers fetch the halo.

    with DistributedGraph.open("cora/2x2") as graph:           # one rank a part, started with torchrun
        model = torch_geometric.nn.GraphSAGE(graph.num_features, 64, 2, graph.num_classes)
        graph.distribute(model)
        scores = model(graph.x, graph.edge_index)              # this rank's rows of the whole graph's scores
        loss = functional.cross_entropy(scores[train], graph.y[train], reduction="sum") / graph.total(len(train))
        loss.backward()
        graph.sum_gradients(model)

The gradients of halo rows go back to their owners in the backward pass, so summed gradients are those of the whole
graph, on any number of ranks. Every rank has to make the same calls in the same order.

A graph of several types has dictionaries by type, as HeteroData has them: `model(graph.x_dict, graph.edge_index_dict)`
of PyTorch Geometric's HeteroConv, HGTConv or to_hetero.

Letters: n rows of this part, H halo rows, E edges, F features.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from trainer.base.errors import CacheError, OptionError, TrainingError, found_by_every_rank
from trainer.base.nearest import nearest
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock, TrafficLog
from trainer.config.command_line import parse, word_of
from trainer.config.options import Options
from trainer.data.cache import Cache, open_cache
from trainer.data.csr import Csr, hstack
from trainer.data.part import Part, halo_ids
from trainer.data.type_parts import RelationKey, load_type_parts
from trainer.dist.communicator import Communicator
from trainer.dist.device_placement import choose_device, places
from trainer.dist.rank_info import RankInfo
from trainer.exchange.exchange import Exchange, row_counts
from trainer.layers.halo_rows import with_halo
from trainer.layers.message_passing import DistributedLayers, LocalRelation, distribute
from trainer.sparse.dropout import Dropout
from trainer.sparse.normalise import weighted
from trainer.startup.handshake import check_ranks, rank_facts
from trainer.startup.preflight import check_world

log = logging.getLogger("trainer")

ACCEPTED = (
    "device",
    "error_feedback",
    "exchange",
    "relay",
    "seed",
    "split",
    "staleness",
    "staleness_grad",
    "target",
    "timeout",
    "warmup",
    "wire",
)
"""The options of the trainer that `open` takes."""
EXCHANGES = ("boundary", "broadcast")


@dataclass(slots=True)
class _TypeRows:
    """The rows of one node type, and how those of its halo come."""

    part: Part
    exchange: Exchange
    drop: Dropout
    x: Tensor | None
    """float32 [n, F]"""
    halo_of_x: Tensor | None = None
    last: tuple[Tensor, int, bool, Tensor] | None = None
    """the rows that were given last in this pass, their version, whether with gradients, and these with the halo's"""


class DistributedGraph:
    """This rank's part of a graph that all ranks have together.

    Of several node types, what is said of rows is said of those of the type that is learnt, and `edge_index` and
    `edge_weight` are in `edge_index_dict` and `edge_weight_dict`.
    """

    node_type: str
    """the type that is learnt"""
    num_nodes: int
    """n"""
    num_halo: int
    """H: nodes of other ranks with an edge into this part."""
    num_features: int
    num_classes: int
    node_ids: Tensor
    """int64 [n], on the CPU: the number of each row's node in the dataset's order"""
    x: Tensor
    """float32 [n, F]"""
    y: Tensor
    """int64 [n], -1 where unlabelled; or of several labels a node float32 [n, C], NaN where unknown"""
    train_mask: Tensor
    """bool [n], as are the two below"""
    val_mask: Tensor
    test_mask: Tensor
    x_dict: dict[str, Tensor]
    """by node type, of those with features, [n of the type, F of the type]"""
    node_ids_dict: dict[str, Tensor]
    """by node type, as `node_ids`, numbers within the type"""
    num_nodes_dict: dict[str, int]
    """by node type: how many rows this rank has"""
    edge_index_dict: dict[RelationKey, Tensor]
    """by (source, relation, destination), int64 [2, E]: the source of each edge, 0 .. n + H - 1 of its type (the halo's
    below this part's), and its destination"""
    edge_weight_dict: dict[RelationKey, Tensor]
    """by relation, float32 [E], of those that have weights"""

    def __init__(self, options: Options, cache: Cache, communicator: Communicator) -> None:
        """Read the part of this rank; every rank has to call it. `open` does what comes before."""
        parts = load_type_parts(cache, communicator.rank, split=options.split)
        facts = communicator.all_gather_object(rank_facts(options, cache, parts.whole, communicator))
        with found_by_every_rank():
            remark = check_ranks(options, cache, facts)
        if remark and communicator.is_main:
            log.info("%s", remark)
        communicator.connect()
        self._options, self._communicator, device = options, communicator, communicator.device
        self._kinds, self._parts = {kind.name: kind for kind in cache.node_types}, parts.relations
        if not cache.is_plain and cache.has_relays and options.relay == "auto" and communicator.is_main:
            log.info("rows are sent by their owners and not relayed, since node types are exchanged one by one")
        self._types = {name: self._rows_of(name, part, cache) for name, part in parts.nodes.items()}
        self._epoch, self._layer, self._drawn = 0, 0, 0
        self._gcn_edges: dict[RelationKey, tuple[Tensor, Tensor]] = {}
        self.node_type, target = cache.node_type, self._types[cache.node_type]
        self.num_nodes, self.num_halo = target.part.num_rows, target.exchange.num_halo
        self.num_features, self.num_classes = cache.num_features, cache.num_classes
        self.node_ids = target.part.ids_n
        self.y = (target.part.y if target.part.y.dtype == torch.int64 else target.part.y.float()).to(device)
        self.train_mask, self.val_mask, self.test_mask = (
            mask_n.to(device) for mask_n in (target.part.train_n, target.part.val_n, target.part.test_n)
        )
        self.x_dict = {name: rows.x for name, rows in self._types.items() if rows.x is not None}
        if target.x is not None:
            self.x = target.x
        self.node_ids_dict = {name: rows.part.ids_n for name, rows in self._types.items()}
        self.num_nodes_dict = {name: rows.part.num_rows for name, rows in self._types.items()}
        edges = {key: self._edges(part.local, part.remote) for key, part in parts.relations.items()}
        self.edge_index_dict = {key: edge_index for key, (edge_index, _) in edges.items()}
        self.edge_weight_dict = {key: weight for key, (_, weight) in edges.items() if weight is not None}

    def _rows_of(self, name: str, part: Part, cache: Cache) -> _TypeRows:
        communicator, first = self._communicator, self._kinds[name].first_id
        log_of_type = TrafficLog(**row_counts(part), rank=communicator.rank, world=communicator.world)
        ids, halo = ((numbers + first).to(communicator.device) for numbers in (part.ids_n, halo_ids(part)))
        return _TypeRows(
            part=part,
            exchange=Exchange(self._options, part, communicator, log_of_type),
            drop=Dropout(ids, halo, num_nodes=cache.num_nodes, seed=self._options.seed),
            x=None if part.x_nF is None else part.x_nF.to(communicator.device).float(),
        )

    @classmethod
    def open(cls, cache: str | os.PathLike[str], **options: Any) -> DistributedGraph:
        """Join the process group and read the part of this rank, which torchrun's variables name.

        Args:
            cache: the folder of a cache that graphprep partition made, with as many parts as there are ranks.
            options: those of `python -m trainer` that ACCEPTED names, in the same words: `staleness="adaptive:8"`.

        Raises:
            OptionError: an option is unknown or has a wrong value.
            CacheError: the cache is absent, damaged, or has one node type without features.
            TrainingError: it has another number of parts than there are ranks.
            LostPeerError: another rank does not answer.
        """
        with found_by_every_rank():
            parsed = _parsed(os.fspath(cache), options)
            opened = open_cache(parsed.cache, parsed.target)
            rank_info = RankInfo.from_environment(os.environ)
            check_world(opened, rank_info)
            if opened.is_plain and not opened.has_features:
                raise CacheError(f"{opened.folder} has no node features; partition a dataset that has some")
            place = places(opened)[rank_info.rank]
        device = choose_device(parsed, rank_info, place.gpu)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        communicator = Communicator(rank_info, device, timeout=parsed.timeout, clock=Clock(device))
        return cls(parsed, opened, communicator)

    @property
    def rank(self) -> int:
        return self._communicator.rank

    @property
    def world_size(self) -> int:
        return self._communicator.world

    @property
    def device(self) -> torch.device:
        return self._communicator.device

    @property
    def edge_index(self) -> Tensor:
        """int64 [2, E]: the source of each edge, 0 .. n + H - 1 (the halo's below this part's), and its destination."""
        return self.edge_index_dict[self._only_relation("edge_index")]

    @property
    def edge_weight(self) -> Tensor | None:
        """float32 [E]; None where every edge weighs 1."""
        return self.edge_weight_dict.get(self._only_relation("edge_weight"))

    def _only_relation(self, name: str) -> RelationKey:
        if len(self.edge_index_dict) > 1:
            raise TrainingError(
                f"the graph has several edge types; use {name}_dict, by (source, relation, destination)"
            )
        return next(iter(self.edge_index_dict))

    @property
    def relations(self) -> list[LocalRelation]:
        """The edge types, as distributed layers know them."""
        return [
            LocalRelation(key, edge_index, self.edge_weight_dict.get(key))
            for key, edge_index in self.edge_index_dict.items()
        ]

    @property
    def draws_by_node(self) -> bool:
        """Whether rows alone say which nodes they are, so that `torch.nn.Dropout` can draw by node."""
        return len(self._types) == 1

    @property
    def bytes_sent(self) -> int:
        """What this rank has sent so far, for any purpose."""
        return sum(self._communicator.sent.by_kind)

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch, from 1: it decides what `dropout` draws, and by a staleness policy which rows are sent."""
        self._epoch = epoch
        self._begin_pass()

    def distribute(self, model: nn.Module) -> DistributedLayers:
        """Let the layers of a PyTorch Geometric model fetch their halo rows, and copy rank 0's weights to all ranks.

        The model is then called with this rank's `x` and `edge_index` (`edge_weight`) and gives the scores of its rows;
        its `state_dict` keeps the names that it has on one device. `torch.nn.Dropout` draws by node, so that a loss
        does not depend on the number of ranks; dropout inside of a layer (attention coefficients) does not.

        Returns:
            the distributed layers; their `remove` makes the model an ordinary one again.

        Raises:
            TrainingError: a layer computes over all rows at once, or steps over the edges more than once; or there is
                no message-passing layer.
        """
        model.to(self.device)
        layers = distribute(model, self)

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            if any(map(is_lazy, model.parameters())):  # which get their shapes in a first pass
                first.remove()
                with torch.no_grad():
                    model(*args, **kwargs)
                self.broadcast_weights(model)
                layers.on_removal(model.register_forward_pre_hook(before, with_kwargs=True).remove)
            self._begin_pass()

        first = model.register_forward_pre_hook(before, with_kwargs=True)
        layers.on_removal(first.remove)
        if not any(map(is_lazy, model.parameters())):
            self.broadcast_weights(model)
        return layers

    def with_halo(self, rows_nF: Tensor, node_type: str | None = None) -> Tensor:
        """This rank's rows, and below them those of the halo from their owners: float32 [n + H, F].

        The gradient of a halo row goes back to its owner. Features are exchanged once, and rows that are given several
        times in a row, to the layers of several relations, once in a pass.

        Args:
            rows_nF: of this rank.
            node_type: whose rows they are; None for the type that is learnt.
        """
        of_type = self._types[node_type or self.node_type]
        if rows_nF is of_type.x:
            if of_type.halo_of_x is None:
                of_type.halo_of_x = of_type.exchange.fetch_constant(rows_nF, layer=1)
            return torch.cat([rows_nF, of_type.halo_of_x])
        call = (rows_nF._version, torch.is_grad_enabled())
        if (last := of_type.last) is not None and last[0] is rows_nF and last[1:3] == call:
            return last[3]
        self._layer += 1
        both = with_halo(rows_nF.float(), of_type.exchange, self._layer, self._context())
        of_type.last = (rows_nF, *call, both)
        return both

    def gcn_edges(self, relation: RelationKey | None = None) -> tuple[Tensor, Tensor]:
        """The edges and a self-loop for each node that has none, int64 [2, E'], and their weights in GCN, float32 [E'].

        A weight is w / sqrt(d d'), d being the weighted in-degrees of both ends in the whole graph, with these loops
        (Kipf and Welling 2017).

        Args:
            relation: one whose ends are of one type; None for the only one.
        """
        relation = relation or self._only_relation("edge_index")
        if relation not in self._gcn_edges:
            exchange = self._types[relation[0]].exchange

            def of_halo(column_n: Tensor) -> Tensor:
                column = exchange.fetch_constant(column_n.to(self.device).unsqueeze(1), layer=0)
                return column.squeeze(1).cpu()

            edge_index, weight = self._edges(*weighted("gcn", self._parts[relation], of_halo))
            assert weight is not None
            self._gcn_edges[relation] = edge_index, weight
        return self._gcn_edges[relation]

    def dropout(self, rows_nF: Tensor, share: float, node_type: str | None = None) -> Tensor:
        """Rows with a share of their entries zeroed and the others scaled up, by seed, epoch, call and node.

        The same entries are zeroed on any number of ranks. Without gradients (an evaluation) nothing is.

        Args:
            rows_nF: of this rank.
            share: of the entries.
            node_type: whose rows they are; None for the type that is learnt.
        """
        self._drawn += 1
        mask = self._types[node_type or self.node_type].drop.mask(share, self._drawn, rows_nF.shape[1], self._context())
        return rows_nF if mask is None else mask.own(rows_nF)

    def total(self, value: Tensor | float) -> float:
        """The sum of a number over all ranks."""
        values = torch.as_tensor(value, dtype=torch.float64, device="cpu").reshape(1)
        return float(self._communicator.all_reduce(values.to(self.device)))

    def sum_gradients(self, model: nn.Module | Iterable[Tensor]) -> None:
        """Replace the gradients of all parameters by their sums over all ranks; one without a gradient adds zeros."""
        parameters = [one for one in _parameters(model) if one.requires_grad]
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        if not gradients:
            return
        summed = self._communicator.all_reduce(
            torch.cat([gradient.float().ravel() for gradient in gradients]), "weights' gradients"
        )
        pieces = torch.split(summed, [gradient.numel() for gradient in gradients])
        for parameter, gradient, piece in zip(parameters, gradients, pieces, strict=True):
            parameter.grad = piece.view_as(gradient).to(gradient.dtype)

    @torch.no_grad()
    def broadcast_weights(self, model: nn.Module) -> None:
        """Replace all parameters and buffers by rank 0's."""
        for values in model.state_dict().values():
            if isinstance(values, Tensor):
                values.copy_(self._communicator.broadcast(values.detach().clone()))

    def close(self) -> None:
        """Leave the process group, when all ranks do."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._communicator.__exit__(kind, error, trace)

    def _edges(self, local: Csr, remote: dict[int, Csr]) -> tuple[Tensor, Tensor | None]:
        blocks = [local, *(remote[peer] for peer in self._communicator.peers)]
        csr, device = hstack(blocks, local.num_rows), self._communicator.device
        edge_index = torch.stack([csr.indices.long(), csr.row_E.long()]).to(device)
        return edge_index, None if csr.weights is None else csr.weights.to(device)

    def _begin_pass(self) -> None:
        self._layer = self._drawn = 0
        for rows in self._types.values():
            rows.last = None

    def _context(self) -> PassContext:
        if not torch.is_grad_enabled():
            return PassContext.evaluation(self._epoch)
        return PassContext(epoch=self._epoch, training=True, may_skip=self._epoch > self._options.warmup)


def _parameters(model: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    return list(model.parameters() if isinstance(model, nn.Module) else model)


def _parsed(cache: str, options: dict[str, Any]) -> Options:
    """The options in the trainer's words, checked as on its command line."""
    for name in options:
        if name not in ACCEPTED:
            raise OptionError(f"a DistributedGraph has no option {name}{nearest(name, ACCEPTED)}")
    parsed = parse([cache, *(word_of(name, value) for name, value in options.items())])
    if parsed.exchange not in EXCHANGES:
        raise OptionError(f"a DistributedGraph exchanges by {' or '.join(EXCHANGES)}, not by {parsed.exchange}")
    return parsed
