"""Learns an array of the edges: classes by cross-entropy, numbers by the squared error, as for the labels of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trainer.base.errors import OptionError, found_by_every_rank
from trainer.config.class_weights import listed_weights
from trainer.config.edge_shares import is_array_name
from trainer.config.options import Options
from trainer.data.edge_labels import EdgeLabels
from trainer.data.labels import LabelCounts
from trainer.data.objective import Objective
from trainer.dist.communicator import Communicator
from trainer.exchange.edge_split import find_split
from trainer.exchange.pair_rows import PairRows
from trainer.exchange.save_pairs import save_pairs
from trainer.training.losses import Loss
from trainer.training.metrics import measure
from trainer.training.pair_scores import Batch, PairList, PairScores
from trainer.training.supervision import Group, Measured


class EdgeSupervision:
    """The labelled edges of one rank."""

    def __init__(
        self,
        options: Options,
        objective: Objective,
        edges: EdgeLabels,
        rows: PairRows,
        decoder: nn.Module,
        communicator: Communicator,
        *,
        num_outputs: int,
    ) -> None:
        """Take the edges of each group; every rank has to call it.

        Args:
            options: of the run.
            objective: with the metric.
            edges: those of this rank that have a label.
            rows: fetches the rows of first nodes.
            decoder: scores edges; a part of the network that is trained.
            communicator: the ranks of the run.
            num_outputs: C, of all ranks.

        Raises:
            OptionError: the class weights do not fit.
        """
        self._communicator = communicator
        self.groups: Mapping[str, EdgeLabels] = edges.groups(
            None if is_array_name(options.edge_split) else find_split(options, edges.hash_k, communicator)
        )
        counts = communicator.all_reduce_numbers([len(group.pairs) for group in self.groups.values()], "preparation")
        self._counts = dict(zip(self.groups, counts, strict=True))
        self.labels: Mapping[str, Tensor] = {
            name: group.y.to(communicator.device) for name, group in self.groups.items()
        }
        are_classes = edges.y.dim() == 1
        self._objective = Objective(
            task="classes" if are_classes else "regression", metric=objective.metric, num_outputs=num_outputs
        )
        listed = listed_weights(options.class_weights)
        if options.class_weights != "none" and (not are_classes or (listed and len(listed) != num_outputs)):
            what = f"{options.edge_label} has {num_outputs} classes" if are_classes else "numbers are learnt"
            with found_by_every_rank():
                raise OptionError(f"--class-weights {options.class_weights}, but {what}; leave it out or change it")
        self.loss = Loss(self._objective, options.class_weights, self._label_counts(), communicator.device)
        self._scores = PairScores(rows=rows, decoder=decoder, size=options.pair_batch)

    @property
    def remark(self) -> str:
        """A sentence for the log about the split."""
        train, val, test = self._counts.values()
        return f"{train} edges are learnt, {val} validated and {test} tested; all of them stay in the graph"

    def backward(self, rows_nF: Tensor, factor: float, _epoch: int, /) -> Tensor:
        labels = self.labels["train"]

        def loss_of(batch: Batch, scores_kC: Tensor) -> Tensor:
            return self.loss.sum(scores_kC, labels[batch.stretch]) / self.loss.divisor

        return self._scores.backward(rows_nF, factor, [self._list("train")], loss_of)

    @torch.no_grad()
    def measure(self, rows_nF: Tensor, *groups: Group) -> list[Measured]:
        scores = self._scores.of(rows_nF, *map(self._list, groups))
        of_groups = [(scores_kC, self.labels[group]) for scores_kC, group in zip(scores, groups, strict=True)]
        return [Measured(value=value) for value in measure(self._objective, of_groups, self._communicator)]

    def facts(self) -> Mapping[str, Any]:
        return {"edge_split": self._counts}

    @torch.no_grad()
    def save(self, file: str, rows_nF: Tensor, ids_n: Tensor) -> None:
        [scores_kC], edges, y = self._scores.of(rows_nF, self._list("test")), self.groups["test"], self.labels["test"]
        columns = {"source": edges.pairs.source_k, "destination": ids_n[edges.pairs.row_k]}
        if y.dim() == 1:
            columns |= {"label": y, "prediction": scores_kC.argmax(1)}
        elif y.shape[1] == 1:
            columns["label"] = y[:, 0]
        else:
            columns |= {f"label_{number}": y[:, number] for number in range(y.shape[1])}
        columns |= {f"score_{number}": scores_kC[:, number] for number in range(scores_kC.shape[1])}
        save_pairs(file, columns, self._communicator)

    def _list(self, group: str) -> PairList:
        edges = self.groups[group]
        return PairList.of(edges.pairs, edges.features_kD)

    def _label_counts(self) -> LabelCounts:
        """Of the training edges of all ranks."""
        y, width = self.groups["train"].y, self._objective.num_outputs
        if y.dim() == 1:
            positive = torch.bincount(y, minlength=width)
            labelled = torch.full_like(positive, len(y))
        else:
            labelled, positive = (~y.isnan()).sum(0), torch.zeros(width, dtype=torch.int64)
        both = self._communicator.all_reduce_numbers([*labelled.tolist(), *positive.tolist()], "preparation")
        return LabelCounts(labelled_C=both[:width], positive_C=both[width:])
