"""Learnt embeddings of nodes that have no features: their owner has them, with the optimiser's state of them.

Every other weight is the same on all ranks, and its gradients are all-reduced. The gradient of a node's own row is
complete at its owner, since those of its copies are sent back there; so nothing of these rows is ever sent but what any
layer sends. The first values are drawn from (seed, type, node, column), so they do not depend on the parts.
Checkpoints hold the rows of all ranks in the dataset's order, and so suit any number of ranks.

Letters: k rows of one type on this rank, K of that type in the graph, F values a row, V values of all of these rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainer.base.hash_rng import EMBEDDING, key_of, randint
from trainer.base.optimiser import Optimiser, optimiser
from trainer.config.options import Options
from trainer.dist.communicator import Communicator
from trainer.exchange.node_rows import gather_rows

_FINEST = 1 << 31


class Embedding(nn.Module):
    """The learnt rows of one type's nodes that this rank owns."""

    def __init__(self, ids_k: Tensor, *, num_nodes: int, width: int, seed: int, number: int) -> None:
        """Draw the first values, uniformly as attention vectors are (Glorot and Bengio 2010).

        Args:
            ids_k: int64, the numbers of the nodes within their type.
            num_nodes: K.
            width: F.
            seed: of the run.
            number: of the type, so that no two types have the same rows.
        """
        super().__init__()
        self.ids_k, self.num_nodes = ids_k, num_nodes
        bound = (6.0 / (1 + width)) ** 0.5
        numbers_kF = ids_k.unsqueeze(1) * width + torch.arange(width)
        chances_kF = randint(numbers_kF, key_of(seed, 0, number, EMBEDDING), _FINEST).double() / _FINEST
        self.rows_kF = nn.Parameter(((2 * chances_kF - 1) * bound).float())

    def forward(self) -> Tensor:
        return self.rows_kF


class OwnedRows:
    """The embeddings of this rank in training."""

    def __init__(
        self, embeddings: Mapping[str, tuple[Embedding, float]], options: Options, communicator: Communicator
    ) -> None:
        """Make them views of an optimiser's vector.

        Args:
            embeddings: by the name of their rows in the network's state, each with its L2 coefficient; the same names
                on every rank.
            options: of the run.
            communicator: the ranks of the run.
        """
        self._embeddings = {name: embedding for name, (embedding, _) in embeddings.items()}
        self._communicator = communicator
        self._optimiser: Optimiser | None = None
        if embeddings:
            decays = [(embedding.rows_kF, decay) for embedding, decay in embeddings.values()]
            self._optimiser = optimiser(options.optimiser, decays, momentum=options.momentum)

    @property
    def names(self) -> Sequence[str]:
        """The names of their rows in the network's state."""
        return list(self._embeddings)

    @property
    def num_values(self) -> int:
        """How many values they have on all ranks."""
        return sum(one.num_nodes * one.rows_kF.shape[1] for one in self._embeddings.values())

    @property
    def num_odd(self) -> int:
        """How many values of this rank's are NaN or infinite."""
        return 0 if self._optimiser is None else int((~self._optimiser.weights_W.isfinite()).sum())

    def flatten_gradients(self) -> Tensor | None:
        """Their gradients, float32 [V], which are cleared; None where no rank has embeddings."""
        return None if self._optimiser is None else self._optimiser.flatten_gradients()

    def step(self, gradient_V: Tensor, lr: float) -> None:
        """Change them by the gradient of the whole loss, with step size `lr`."""
        assert self._optimiser is not None
        self._optimiser.step(gradient_V, lr)

    def state(self, best: Mapping[str, Tensor]) -> dict[str, Any]:
        """All ranks' rows, as they are and as they were `best`, and the optimiser's state of them, by name and in the
        dataset's order, on rank 0; every rank has to call it."""
        if self._optimiser is None:
            return {}
        of_optimiser = {name: self._by_name(values_V) for name, values_V in self._optimiser.state_dict().items()}
        state: dict[str, Any] = {}
        for name, embedding in self._embeddings.items():
            own = {"rows": embedding.rows_kF.detach(), "best": best[name]}
            own |= {key: values[name] for key, values in of_optimiser.items()}
            state[name] = {
                key: gather_rows(
                    rows_kF, embedding.ids_k, num_nodes=embedding.num_nodes, communicator=self._communicator
                )
                for key, rows_kF in own.items()
            }
        return state

    def fits(self, state: Mapping[str, Any]) -> bool:
        """Whether the state is of embeddings of the same names, numbers and width."""
        shapes = {name: (one.num_nodes, one.rows_kF.shape[1]) for name, one in self._embeddings.items()}
        return {name: tuple(of["rows"].shape) for name, of in state.items()} == shapes

    @torch.no_grad()
    def load_state_dict(self, steps: int, state: Mapping[str, Any]) -> dict[str, Tensor]:
        """Load this rank's rows of a state that fits; returns the best rows, by name."""
        if self._optimiser is None:
            return {}
        own = {
            name: {key: rows_KF[one.ids_k].to(self._communicator.device) for key, rows_KF in state[name].items()}
            for name, one in self._embeddings.items()
        }
        for name, embedding in self._embeddings.items():
            embedding.rows_kF.copy_(own[name]["rows"])
        of_optimiser = {
            key: torch.cat([values[key].reshape(-1) for values in own.values()]) for key in self._optimiser.state_dict()
        }
        self._optimiser.load_state_dict(steps, of_optimiser)
        return {name: values["best"] for name, values in own.items()}

    def _by_name(self, values_V: Tensor) -> dict[str, Tensor]:
        rows = [embedding.rows_kF for embedding in self._embeddings.values()]
        pieces = torch.split(values_V, [of.numel() for of in rows])
        return {name: piece.view_as(of) for name, piece, of in zip(self._embeddings, pieces, rows, strict=True)}
