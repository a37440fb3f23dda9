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

Letters: n rows of this part, H halo rows, E edges, F features.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from trainer.base.errors import CacheError, OptionError, found_by_every_rank
from trainer.base.nearest import nearest
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock, TrafficLog
from trainer.config.command_line import parse, word_of
from trainer.config.options import Options
from trainer.data.cache import Cache, open_cache
from trainer.data.csr import Csr, hstack
from trainer.data.part import halo_ids, load_part
from trainer.dist.communicator import Communicator
from trainer.dist.device_placement import choose_device, places
from trainer.dist.rank_info import RankInfo
from trainer.exchange.exchange import Exchange, row_counts
from trainer.layers.halo_rows import with_halo
from trainer.layers.message_passing import DistributedLayers, distribute
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
    "timeout",
    "warmup",
    "wire",
)
"""The options of the trainer that `open` takes."""
EXCHANGES = ("boundary", "broadcast")


class DistributedGraph:
    """This rank's part of a graph that all ranks have together."""

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
    edge_index: Tensor
    """int64 [2, E]: the source of each edge, 0 .. n + H - 1 (the halo's below this part's), and its destination"""
    edge_weight: Tensor | None
    """float32 [E]; None where every edge weighs 1"""

    def __init__(self, options: Options, cache: Cache, communicator: Communicator) -> None:
        """Read the part of this rank; every rank has to call it. `open` does what comes before."""
        part = load_part(cache, communicator.rank, split=options.split)
        facts = communicator.all_gather_object(rank_facts(options, cache, part, communicator))
        with found_by_every_rank():
            remark = check_ranks(options, cache, facts)
        if remark and communicator.is_main:
            log.info("%s", remark)
        communicator.connect()
        self._options, self._communicator, self._part, device = options, communicator, part, communicator.device
        traffic_log = TrafficLog(**row_counts(part), rank=communicator.rank, world=communicator.world)
        self._exchange = Exchange(options, part, communicator, traffic_log)
        self._dropout = Dropout(
            part.ids_n.to(device), halo_ids(part).to(device), num_nodes=cache.num_nodes, seed=options.seed
        )
        self._epoch, self._layer, self._drawn = 0, 0, 0
        self._halo_of_x: Tensor | None = None
        self._gcn_edges: tuple[Tensor, Tensor] | None = None
        self.num_nodes, self.num_halo = part.num_rows, self._exchange.num_halo
        self.num_features, self.num_classes = cache.num_features, cache.num_classes
        self.node_ids = part.ids_n
        assert part.x_nF is not None
        self.x = part.x_nF.to(device).float()
        self.y = (part.y if part.y.dtype == torch.int64 else part.y.float()).to(device)
        self.train_mask, self.val_mask, self.test_mask = (
            mask_n.to(device) for mask_n in (part.train_n, part.val_n, part.test_n)
        )
        self.edge_index, self.edge_weight = self._edges(part.local, part.remote)

    @classmethod
    def open(cls, cache: str | os.PathLike[str], **options: Any) -> DistributedGraph:
        """Join the process group and read the part of this rank, which torchrun's variables name.

        Args:
            cache: the folder of a cache that graphprep partition made, with as many parts as there are ranks.
            options: those of `python -m trainer` that ACCEPTED names, in the same words: `staleness="adaptive:8"`.

        Raises:
            OptionError: an option is unknown or has a wrong value.
            CacheError: the cache is absent, damaged, or has several node or edge types, or no features.
            TrainingError: it has another number of parts than there are ranks.
            LostPeerError: another rank does not answer.
        """
        with found_by_every_rank():
            parsed = _parsed(os.fspath(cache), options)
            opened = open_cache(parsed.cache)
            rank_info = RankInfo.from_environment(os.environ)
            check_world(opened, rank_info)
            if not opened.is_plain:
                raise CacheError(
                    f"{opened.folder} has several node or edge types, and a DistributedGraph has one of each"
                )
            if not opened.has_features:
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
        layers.on_removal(model.register_forward_pre_hook(lambda *_: self._begin_pass()).remove)
        self.broadcast_weights(model)
        return layers

    def with_halo(self, rows_nF: Tensor) -> Tensor:
        """This rank's rows, and below them those of the halo from their owners: float32 [n + H, F].

        The gradient of a halo row goes back to its owner. `x` itself is exchanged once.
        """
        if rows_nF is self.x:
            if self._halo_of_x is None:
                self._halo_of_x = self._exchange.fetch_constant(rows_nF, layer=1)
            return torch.cat([rows_nF, self._halo_of_x])
        self._layer += 1
        return with_halo(rows_nF.float(), self._exchange, self._layer, self._context())

    def gcn_edges(self) -> tuple[Tensor, Tensor]:
        """The edges and a self-loop for each node that has none, int64 [2, E'], and their weights in GCN, float32 [E'].

        A weight is w / sqrt(d d'), d being the weighted in-degrees of both ends in the whole graph, with these loops
        (Kipf and Welling 2017).
        """
        if self._gcn_edges is None:

            def of_halo(column_n: Tensor) -> Tensor:
                column = self._exchange.fetch_constant(column_n.to(self.device).unsqueeze(1), layer=0)
                return column.squeeze(1).cpu()

            edge_index, weight = self._edges(*weighted("gcn", self._part, of_halo))
            assert weight is not None
            self._gcn_edges = edge_index, weight
        return self._gcn_edges

    def dropout(self, rows_nF: Tensor, share: float) -> Tensor:
        """Rows with a share of their entries zeroed and the others scaled up, by seed, epoch, call and node.

        The same entries are zeroed on any number of ranks. Without gradients (an evaluation) nothing is.
        """
        self._drawn += 1
        mask = self._dropout.mask(share, self._drawn, rows_nF.shape[1], self._context())
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
