"""The optimisers, each on all weights as one vector.

Gradients are summed over the ranks in one flat buffer, so the step is taken on that buffer: the weights are views of
one vector too, and an update is a few vector operations whatever the number of layers. (torch.optim does the same,
after importing its compiler: two seconds a rank.) The algorithms are the published ones:

    adam    Kingma and Ba 2015, with L2 regularisation in the gradient
    adamw   Loshchilov and Hutter 2019: the same, with the weights themselves shrunk by lr * decay instead
    sgd     momentum * velocity + gradient, L2 regularisation in the gradient; the first velocity is the gradient

W is the number of weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class Optimiser:
    """The weights of a network as one float32 vector [W], and the steps that change them."""

    def __init__(self, decays: Sequence[tuple[nn.Parameter, float]]) -> None:
        """Make the parameters views of one vector.

        Args:
            decays: every parameter with its decay coefficient.
        """
        self._parameters = [parameter for parameter, _ in decays]
        self.weights_W = torch.cat([parameter.detach().reshape(-1) for parameter in self._parameters])
        self._decay_W = torch.cat([torch.full_like(parameter, decay).reshape(-1) for parameter, decay in decays])
        self.steps = 0
        pieces = torch.split(self.weights_W, [parameter.numel() for parameter in self._parameters])
        for parameter, piece in zip(self._parameters, pieces, strict=True):
            parameter.data = piece.view_as(parameter)

    def flatten_gradients(self) -> Tensor:
        """This rank's gradients as one vector, float32 [W]; the parameters' own are then None."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        return torch.cat([gradient.reshape(-1) for gradient in gradients])

    @torch.no_grad()
    def step(self, gradient_W: Tensor, lr: float) -> None:
        """Change the weights by the gradient [W] of the whole loss, with step size `lr`."""
        self.steps += 1
        self._step(gradient_W, lr)

    def _step(self, gradient_W: Tensor, lr: float) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        """The vectors [W] that it keeps between steps beside `steps`; copy them before you change them."""
        raise NotImplementedError

    def load_state_dict(self, steps: int, state: dict[str, Tensor]) -> None:
        """Restore the state of an optimiser of the same kind."""
        self.steps = steps
        for name, vector_W in self.state_dict().items():
            vector_W.copy_(state[name])


class Adam(Optimiser):
    """Adam; with `decoupled` AdamW."""

    def __init__(self, decays: Sequence[tuple[nn.Parameter, float]], *, decoupled: bool = False) -> None:
        super().__init__(decays)
        self._decoupled = decoupled
        self._mean_W, self._square_W = torch.zeros_like(self.weights_W), torch.zeros_like(self.weights_W)

    def _step(self, gradient_W: Tensor, lr: float) -> None:
        if self._decoupled:
            self.weights_W.sub_(lr * self._decay_W * self.weights_W)
        else:
            gradient_W = gradient_W + self._decay_W * self.weights_W
        self._mean_W.lerp_(gradient_W, 1 - _BETA_1)
        self._square_W.mul_(_BETA_2).addcmul_(gradient_W, gradient_W, value=1 - _BETA_2)
        correction_1, correction_2 = 1 - _BETA_1**self.steps, 1 - _BETA_2**self.steps
        scale_W = (self._square_W / correction_2).sqrt_().add_(_EPSILON)
        self.weights_W.addcdiv_(self._mean_W, scale_W, value=-lr / correction_1)

    def state_dict(self) -> dict[str, Tensor]:
        return {"mean": self._mean_W, "square": self._square_W}


class Sgd(Optimiser):
    """Gradient descent with momentum; 0 is without."""

    def __init__(self, decays: Sequence[tuple[nn.Parameter, float]], *, momentum: float) -> None:
        super().__init__(decays)
        self._momentum, self._velocity_W = momentum, torch.zeros_like(self.weights_W)

    def _step(self, gradient_W: Tensor, lr: float) -> None:
        self._velocity_W.mul_(self._momentum).add_(gradient_W).addcmul_(self._decay_W, self.weights_W)
        self.weights_W.add_(self._velocity_W, alpha=-lr)

    def state_dict(self) -> dict[str, Tensor]:
        return {"velocity": self._velocity_W}


def optimiser(kind: str, decays: Sequence[tuple[nn.Parameter, float]], *, momentum: float) -> Optimiser:
    """The optimiser that option `optimiser` names."""
    if kind == "sgd":
        return Sgd(decays, momentum=momentum)
    return Adam(decays, decoupled=kind == "adamw")


def clipped(gradient_W: Tensor, limit: float, length: Tensor | None = None) -> Tensor:
    """The gradient [W], shortened to the length `limit` if it is longer.

    Args:
        gradient_W: the whole gradient, or a piece of it.
        limit: 0 means no limit.
        length: of the whole gradient; None if `gradient_W` is the whole.
    """
    if not limit:
        return gradient_W
    if length is None:
        length = torch.linalg.vector_norm(gradient_W)
    shorter_W: Tensor = gradient_W * (limit / length.clamp(min=limit))
    return shorter_W
