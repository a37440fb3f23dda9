"""The graph that a model is called with in one pass: the features, and an exchange for the rows of each layer.

Layers are counted as a model asks for their input: `features` is layer 1's, the first `rows` layer 2's, and so on;
with node types, the first `rows` are layer 1's. The number decides dropout masks and which copies are used, so a model
has to ask in the same order in every pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trainer.base.freed_memory import give_back_freed_memory
from trainer.base.pass_context import PassContext
from trainer.layers.aggregate import Aggregation
from trainer.layers.inputs import Hidden, LayerInput
from trainer.layers.typed_features import FirstInput, TypedFeatures
from trainer.sparse.dropout import Dropout
from trainer.sparse.rematerialise import rematerialised


class Graph:
    """One pass over the graph."""

    def __init__(
        self,
        features: FirstInput,
        aggregation: Aggregation,
        dropout: Dropout,
        context: PassContext,
        *,
        first_share: float,
        share: float,
        stored_type: torch.dtype,
        keeps_inputs: bool = False,
    ) -> None:
        """Begin a pass.

        Args:
            features: of this rank's part.
            aggregation: its in-edges.
            dropout: the masks of the run.
            context: the pass.
            first_share: of the entries of layer 1's input that is zeroed in training.
            share: of those of the rows after that.
            stored_type: what rows are kept and multiplied in.
            keeps_inputs: whether `inputs` gets what each layer reads.
        """
        self.inputs: list[Tensor] | None = [] if keeps_inputs else None
        """What the layers from the second on (with types, from the first on) read of this rank's own rows."""
        self._aggregation, self._dropout, self._context = aggregation, dropout, context
        self._first_share, self._share, self._stored_type = first_share, share, stored_type
        self.by_type: TypedFeatures | None = None
        """The features of each type, from which the model makes layer 1's rows; None where `features` are its input."""
        if isinstance(features, TypedFeatures):
            self._layer, self.by_type = 0, features
        else:
            self._layer, self._features = 1, features
            self.features: LayerInput = features.of_pass(context)
            """The first layer's input: `own`, `aggregate` and the others of `trainer.layers.inputs.LayerInput`."""
        self.last_rows_nF: Tensor | None = None
        """What the last of the layers so far reads of this rank's own rows; None if that is the features, or in
        training, where it would be kept longer than the backward pass needs it."""

    def rows(self, rows_nF: Tensor) -> Hidden:
        """The next layer's input: what the layer before gave, one row a node of this rank."""
        self._layer += 1
        self._remember(rows_nF)
        return self._hidden(rows_nF, self._layer)

    def through(self, layer: Callable[[LayerInput], Tensor], rows_nF: Tensor | None) -> Tensor:
        """What `layer` makes of the next layer's input, or of the features for None; computed again for the backward
        pass where the exchange is sequential, so that nothing of the layer is kept but its input."""
        if rows_nF is not None:
            self._layer += 1
            self._remember(rows_nF)
        number, times = self._layer, 0

        def run(rows_nF: Tensor | None) -> Tensor:
            nonlocal times
            times += 1
            if self._aggregation.exchange.is_sequential:
                give_back_freed_memory()
            if rows_nF is not None:
                return layer(self._hidden(rows_nF, number, again=times > 1))
            return layer(self.features if times == 1 else self._features.again(self._context))

        if not (self._aggregation.exchange.is_sequential and self._context.training):
            return run(rows_nF)
        return rematerialised(run, rows_nF)

    def sums(self, rows_nF: Tensor, layer: int) -> Tensor:
        """A H: the sums over neighbours of what a layer reads, by number."""
        return self._hidden(rows_nF, layer).aggregate()

    def _remember(self, rows_nF: Tensor) -> None:
        if self.inputs is not None:
            self.inputs.append(rows_nF)
        self.last_rows_nF = None if self._context.training else rows_nF

    def _hidden(self, rows_nF: Tensor, layer: int, *, again: bool = False) -> Hidden:
        rows_nF = rows_nF.to(self._stored_type)
        share = self._share if layer > 1 else self._first_share
        mask = self._dropout.mask(share, layer, rows_nF.shape[1], self._context)
        return Hidden(rows_nF, self._aggregation, mask, self._dropout, layer=layer, context=self._context, again=again)
