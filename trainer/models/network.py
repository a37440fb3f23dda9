"""The model of a run: built from the options, called with the graph, and checked if it is the user's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.base.precision import TYPES
from trainer.config.options import Options, is_own_model
from trainer.dist.communicator import Communicator
from trainer.layers.aggregate import Aggregation
from trainer.layers.graph import Graph
from trainer.layers.norms import norm
from trainer.layers.typed_features import FirstInput
from trainer.minibatch.batch_graph import BatchGraph
from trainer.models import own, own_norms
from trainer.models.embeddings import Embedding
from trainer.models.plan import Plan, Types
from trainer.models.stacked import Stacked, layer_type
from trainer.sparse.dropout import Dropout


def model_type(options: Options, communicator: Communicator) -> type[nn.Module]:
    """The class of the model that the options name; every rank has to call it.

    Raises:
        OptionError: it is the user's own, and cannot be loaded.
    """
    return own.load(options.model, communicator) if is_own_model(options.model) else Stacked


def sums_of(options: Options, model: type[nn.Module]) -> str | None:
    """What in-edges count in the model's neighbour sums: `gcn`, `mean`, `sum`; None where it makes none."""
    return layer_type(options).sums if model is Stacked else getattr(model, "sums", None)


class Network(nn.Module):
    """A model, and the graph that it is trained on."""

    def __init__(
        self,
        model: type[nn.Module],
        options: Options,
        aggregation: Aggregation,
        dropout: Dropout,
        *,
        num_features: int,
        num_classes: int,
        num_nodes: int,
        communicator: Communicator,
        types: Types | None = None,
        num_edge_features: int = 0,
        decoder: Callable[[Plan], nn.Module | None] | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            model: the model's class, from `model_type`.
            options: of the run.
            aggregation: this part's in-edges.
            dropout: the masks of the run.
            num_features: of a node.
            num_classes: scores a node.
            num_nodes: N, of all ranks.
            communicator: the ranks of the run.
            types: node types and relations, where the model tells them apart.
            num_edge_features: of an edge, of those that the model reads.
            decoder: makes what scores pairs from the rows that the model gives; None where these are scores of nodes.
        """
        super().__init__()
        plan = Plan(
            num_features=num_features,
            num_classes=num_classes,
            options=options,
            generator=torch.Generator().manual_seed(options.seed),
            norm=lambda width: norm(options.norm, width, num_nodes=num_nodes, communicator=communicator),
            types=types,
            num_edge_features=num_edge_features,
        )
        self._is_own, self._num_classes = model is not Stacked, num_classes
        self._communicator, self._is_checked = communicator, False
        self.remarks: list[str] = []
        """Sentences for the log about what a user's model is made of."""
        self._aggregation, self._dropout, self._options = aggregation, dropout, options
        self.decoder: nn.Module | None = None
        if not self._is_own:
            self.model: nn.Module = model(plan)
            self.decoder = decoder(plan) if decoder is not None else None
            return
        with torch.random.fork_rng(devices=[]):
            # What the model draws from torch's own generator is the same on every rank too.
            torch.manual_seed(options.seed)
            with found_by_every_rank(), own.in_words(options.model, TrainingError):
                self.model = model(plan)
                if not any(True for _ in self.model.parameters()):
                    raise TrainingError(f"--model {options.model} has no parameters to train")
                self.model, self.remarks = own_norms.over_all_ranks(self.model, communicator)
        self.decoder = decoder(plan) if decoder is not None else None

    def forward(self, features: FirstInput, context: PassContext) -> Tensor:
        """The scores of this rank's rows, float32 [n, C], by one pass over the whole graph."""
        return self._run(features, context)[0]

    def embeddings(self, features: FirstInput, context: PassContext) -> Tensor:
        """What the last layer reads of this rank's own rows in one pass, [n, F].

        Raises:
            TrainingError: it reads the features.
        """
        rows_nF = self._run(features, context)[1].last_rows_nF
        if rows_nF is None:
            with found_by_every_rank():
                raise TrainingError("--save-embeddings: the model has no layer that reads another one's rows")
        return rows_nF

    @torch.no_grad()
    def histories(self, features: FirstInput, context: PassContext) -> list[tuple[Tensor | None, Callable[[], Tensor]]]:
        """What each layer reads in one pass, [n, F], None for the features that layer 1 reads; and what computes its
        sums over neighbours, [n, F], which every rank has to call in the same order.

        Args:
            features: of this rank's part, where types are not distinguished.
            context: an evaluation, whose pass is exact.
        """
        _, graph = self._run(features, context, keeps_inputs=True)
        assert graph.inputs is not None
        inputs = graph.inputs[: self._options.layers - 1]  # and none of what dense layers after them read
        later = [(rows_nF, partial(graph.sums, rows_nF, layer)) for layer, rows_nF in enumerate(inputs, start=2)]
        return [(None, graph.features.aggregate), *later]

    def _run(self, features: FirstInput, context: PassContext, *, keeps_inputs: bool = False) -> tuple[Tensor, Graph]:
        """The scores, and the graph that the model was called with."""
        graph = Graph(
            features,
            self._aggregation,
            self._dropout,
            context,
            first_share=self._options.first_dropout,
            share=self._options.dropout,
            stored_type=TYPES[self._options.precision],
            keeps_inputs=keeps_inputs,
        )
        return self.run_on(graph, context, num_rows=self._aggregation.num_rows), graph

    def run_on(self, graph: Graph | BatchGraph, context: PassContext, *, num_rows: int) -> Tensor:
        """The scores of a graph's rows, float32 [n, C]; `num_rows` is n."""
        if not self._is_own:
            scores_nC: Tensor = self.model(graph)
            return scores_nC
        with (
            own.in_words(self._options.model, TrainingError),
            own_norms.seeded(context, seed=self._options.seed, rank=self._communicator.rank),
        ):
            scores = self._first_scores(graph) if context.training and not self._is_checked else self.model(graph)
        return own.check_scores(self._options.model, scores, num_rows, self._num_classes)

    def _first_scores(self, graph: Graph | BatchGraph) -> object:
        """The scores of a user's model in its first training pass, in which it is checked."""
        before = own_norms.versions(self.model)
        with own_norms.NoLocalNorms():
            scores: object = self.model(graph)
        own_norms.check_buffers(self.model, before, self._communicator)
        self._is_checked = True
        return scores

    @property
    def embeddings_by_name(self) -> dict[str, Embedding]:
        """The learnt rows of this rank's nodes, by their name in the network's state."""
        return {f"{name}.rows_kF": module for name, module in self.named_modules() if isinstance(module, Embedding)}

    def decays(self, weight_decay: float) -> list[tuple[str, nn.Parameter, float]]:
        """Every parameter with its name and L2 coefficient: `weight_decay` or 0, as the model's `decayed` says; without
        one, 0 for parameters of one dimension."""
        if hasattr(self.model, "decayed"):
            decayed = set(self.model.decayed())  # type: ignore[operator]
        else:
            decayed = {parameter for parameter in self.parameters() if parameter.dim() > 1}
        return [
            (name, parameter, weight_decay if parameter in decayed else 0.0)
            for name, parameter in self.named_parameters()
        ]
