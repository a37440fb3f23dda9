"""Validation and test on sampled neighbourhoods (`--eval-fanouts`): the scores of those nodes alone that are measured.

Neighbours are drawn by hashes, the same in every evaluation of a run and on any number of ranks, so that epochs are
compared by the same draws. The metric is that of all ranks' nodes together, as on the whole graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES
from trainer.base.traffic_log import TrafficLog
from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.labels import Labels
from trainer.data.part import Part
from trainer.dist.communicator import Communicator
from trainer.minibatch.batch_graph import BatchGraph
from trainer.minibatch.batch_stream import BatchStream
from trainer.models import Network
from trainer.training.batch_seeds import gathered
from trainer.training.features_by import FeaturesBy
from trainer.training.sample_from import chosen_source
from trainer.training.tasks import Learnt


class SampledEvaluation:
    """The batches of nodes that are measured, and the model's scores of them."""

    def __init__(
        self,
        options: Options,
        cache: Cache,
        part: Part,
        network: Network,
        learnt: Learnt,
        removed: Tensor | None,
        communicator: Communicator,
        traffic_log: TrafficLog,
        *,
        sums: str | None,
        num_outputs: int,
        features_by: FeaturesBy,
    ) -> None:
        """Gather the nodes of all ranks; every rank has to call it.

        Args:
            options: of the run.
            cache: whose graph it is.
            part: this rank's.
            network: what is evaluated.
            learnt: labels of nodes, or pairs, for which all nodes are evaluated.
            removed: pairs of nodes between which there is no edge; None for none.
            communicator: the ranks of the run.
            traffic_log: of this rank's bytes.
            sums: what edges count in the model's sums; None where it makes none.
            num_outputs: C, of labelled nodes.
            features_by: what ranks exchange for layer 1, chosen with the first batches of training.
        """
        self._options, self._network, self._removed = options, network, removed
        self._num_outputs, self._device = num_outputs, communicator.device
        self._cache, self._communicator, self._features_by = cache, communicator, features_by
        self._num_rows, self._first_row = part.num_rows, part.target.start
        self._stream = BatchStream(options, cache, part, communicator, traffic_log, sums=sums)
        self._validated = self._all = torch.arange(cache.target.num_nodes)
        if isinstance(learnt, Labels):
            val_k, both_k = (
                gathered(part.target_ids[rows_k.cpu() - self._first_row], communicator)
                for rows_k in (learnt.val, torch.cat([learnt.val, learnt.test]))
            )
            self._validated = val_k.sort().values
            if options.save_predictions is None:
                is_measured_N = torch.zeros(cache.target.num_nodes, dtype=torch.bool)
                is_measured_N[both_k] = True
                self._all = is_measured_N.nonzero().flatten()
        self._seeds = self._validated

    def start(self, most: int) -> None:
        """Start the samplers for at most so many validations."""
        if most:
            self._start(self._validated, most)

    def start_last(self) -> None:
        """Start them once more for the last evaluation, which is of validation and test nodes and of what is saved."""
        self._stream.close()
        self._start(self._all, 1)

    def close(self) -> None:
        """End the samplers; every rank has to call it after the same evaluation."""
        self._stream.close()

    @torch.no_grad()
    def scores(self, epoch: int) -> Tensor:
        """This rank's rows, float32 [n, C], with zeros for nodes that are not measured."""
        scores_nC: Tensor | None = None
        self._network.train(False)
        for _ in range(self._steps):
            batch = self._stream.pipeline.next()
            features, layers, num_rows = self._stream.input_of(batch)
            context = PassContext.evaluation(epoch)
            graph = BatchGraph(
                features, layers, context, first_share=0.0, share=0.0, stored_type=TYPES[self._options.precision]
            )
            rows_kC = self._network.run_on(graph, context, num_rows=num_rows)
            if scores_nC is None:
                scores_nC = rows_kC.new_zeros(self._num_rows, rows_kC.shape[1])
            scores_nC[batch.slot.arrays["seed_row"].to(rows_kC.device) + self._first_row] = rows_kC
        return torch.zeros(self._num_rows, self._num_outputs, device=self._device) if scores_nC is None else scores_nC

    @property
    def _steps(self) -> int:
        assert self._options.batch_size is not None
        return -(-len(self._seeds) // self._options.batch_size)

    def _start(self, seeds: Tensor, epochs: int) -> None:
        self._seeds = seeds
        batch = {"fanouts": self._options.eval_fanout_list, "is_evaluation": True}
        if len(seeds):
            self._stream.start(
                seeds,
                removed=self._removed,
                batch=batch,
                epochs=(1, epochs),
                steps=self._steps,
                table_of=self._features_by.table,
                source=chosen_source(self._options, self._cache, self._communicator, speaks=False),
            )
