"""What a run's task makes of a part: what is learnt, which edges stay in the graph, the decoder, loss and metrics."""

from __future__ import annotations

import logging
from functools import partial

from torch import nn

from trainer.config.edge_shares import is_array_name
from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.edge_labels import EdgeLabels
from trainer.data.edge_split import EdgeSplit, PartEdges
from trainer.data.labels import Labels
from trainer.data.objective import Objective, has_edge_classes
from trainer.data.part import Part, load_part
from trainer.dist.communicator import Communicator
from trainer.exchange.edge_split import find_split
from trainer.exchange.pair_rows import PairRows
from trainer.models.decoders import decoder_of
from trainer.models.plan import Plan
from trainer.startup.handshake import Agreement
from trainer.training.batch_seeds import BatchSeeds, EdgeLabelBatches, LinkBatches, NodeBatches
from trainer.training.edge_labels import EdgeSupervision
from trainer.training.links import LinkSupervision
from trainer.training.losses import Loss
from trainer.training.supervision import NodeSupervision, Supervision

log = logging.getLogger("trainer")

Learnt = Labels | PartEdges | EdgeLabels


def load_learnt(options: Options, cache: Cache, part: Part, objective: Objective, communicator: Communicator) -> Learnt:
    """What there is to learn in this rank's part.

    Raises:
        CacheError: an array is missing or damaged.
    """
    if options.learns_links:
        return PartEdges(part, num_nodes=cache.num_nodes, seed=options.seed, is_undirected=cache.is_undirected)
    if not options.learns_edge_labels:
        return Labels.of(part, objective, communicator.device)
    load = partial(load_part, cache, part.number, split=options.split)
    return EdgeLabels.of(
        part,
        load(edge_features=options.edge_label),
        load(edge_features=options.edge_split) if is_array_name(options.edge_split) else None,
        are_classes=has_edge_classes(cache, options),
        seed=options.seed,
    )


class Task:
    """The task of one run."""

    def __init__(
        self,
        options: Options,
        cache: Cache,
        part: Part,
        learnt: Learnt,
        *,
        objective: Objective,
        agreement: Agreement,
        communicator: Communicator,
    ) -> None:
        """Split what is learnt; every rank has to call it, when the process group is there.

        Args:
            options: of the run.
            cache: whose graph it is.
            part: this rank's, with all its edges.
            learnt: in this part.
            objective: task and metric.
            agreement: what all ranks know.
            communicator: the ranks of the run.

        Raises:
            OptionError: the class weights do not fit.
        """
        self._options, self._cache, self._objective, self._communicator = options, cache, objective, communicator
        self._num_edge_features, self._num_outputs = part.num_edge_features, objective.num_outputs
        self._split: EdgeSplit | None = None
        if isinstance(learnt, Labels):
            self._loss = Loss(objective, options.class_weights, agreement.label_counts, communicator.device)
            return
        self._rows = PairRows(cache.num_nodes, part, communicator)
        if isinstance(learnt, PartEdges):
            self._split = find_split(options, learnt.hash_k, communicator)
            return
        outputs = communicator.all_gather_object({"outputs": learnt.num_outputs})
        self._num_outputs = max(of_rank["outputs"] for of_rank in outputs)

    def message_part(self, part: Part) -> Part:
        """What is left of a part, of this or another rank, in the graph."""
        return part if self._split is None else self._split.message_part(part)

    def decoder(self, plan: Plan) -> nn.Module | None:
        """Draw the decoder's first weights; None where nodes are learnt."""
        return decoder_of(self._options, self._cache, self._num_outputs, self._num_edge_features, plan)

    def batch_seeds(
        self, learnt: Learnt, part: Part, decoder: nn.Module | None, supervision: Supervision
    ) -> BatchSeeds:
        """What mini-batches are made for; every rank has to call it.

        Args:
            learnt: what there is to learn.
            part: this rank's.
            decoder: of the network that is trained.
            supervision: of `learnt`.
        """
        if isinstance(learnt, Labels):
            return NodeBatches(part, learnt, self._loss, self._communicator)
        assert decoder is not None
        if isinstance(supervision, EdgeSupervision):
            return EdgeLabelBatches(supervision, part, self._cache.num_nodes, decoder, self._communicator)
        assert isinstance(learnt, PartEdges)
        assert self._split is not None
        return LinkBatches(learnt, self._split, self._options.negatives, decoder, self._communicator)

    def supervision(self, learnt: Learnt, decoder: nn.Module | None) -> Supervision:
        """The loss and the metrics of `learnt`; every rank has to call it."""
        options, objective, communicator = self._options, self._objective, self._communicator
        if isinstance(learnt, Labels):
            return NodeSupervision(objective=objective, labels=learnt, loss=self._loss, communicator=communicator)
        assert decoder is not None
        supervision: LinkSupervision | EdgeSupervision
        if isinstance(learnt, PartEdges):
            assert self._split is not None
            supervision = LinkSupervision(options, objective, learnt, self._split, self._rows, decoder, communicator)
        else:
            supervision = EdgeSupervision(
                options, objective, learnt, self._rows, decoder, communicator, num_outputs=self._num_outputs
            )
        if communicator.is_main:
            log.info("%s", supervision.remark)
        return supervision
