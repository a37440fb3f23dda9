"""Adam on all weights as one vector.

Gradients are summed over the ranks in one flat buffer, so the step is taken on that buffer: the weights are views of
one vector too, and an update is seven vector operations whatever the number of layers. It is the published algorithm,
with L2 regularisation in the gradient. (torch.optim does the same, after importing its compiler: two seconds a rank.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """The weights of a network as one float32 vector [W], and the steps that change them."""

    def __init__(self, decays: Sequence[tuple[nn.Parameter, float]], *, lr: float) -> None:
        """Make the parameters views of one vector.

        Args:
            decays: every parameter with its L2 coefficient.
            lr: step size.
        """
        self._parameters, self._lr = [parameter for parameter, _ in decays], lr
        self.weights_W = torch.cat([parameter.detach().reshape(-1) for parameter in self._parameters])
        self._decay_W = torch.cat([torch.full_like(parameter, decay).reshape(-1) for parameter, decay in decays])
        self._mean_W, self._square_W = torch.zeros_like(self.weights_W), torch.zeros_like(self.weights_W)
        self._steps = 0
        pieces = torch.split(self.weights_W, [parameter.numel() for parameter in self._parameters])
        for parameter, piece in zip(self._parameters, pieces, strict=True):
            parameter.data = piece.view_as(parameter)

    def take_gradients(self) -> Tensor:
        """This rank's gradients, float32 [W]; the parameters are left without."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        return torch.cat([gradient.reshape(-1) for gradient in gradients])

    @torch.no_grad()
    def step(self, gradient_W: Tensor) -> None:
        """Change the weights by the gradient [W] of the whole loss."""
        self._steps += 1
        gradient_W = gradient_W + self._decay_W * self.weights_W
        self._mean_W.lerp_(gradient_W, 1 - _BETA_1)
        self._square_W.mul_(_BETA_2).addcmul_(gradient_W, gradient_W, value=1 - _BETA_2)
        correction_1, correction_2 = 1 - _BETA_1**self._steps, 1 - _BETA_2**self._steps
        scale_W = (self._square_W / correction_2).sqrt_().add_(_EPSILON)
        self.weights_W.addcdiv_(self._mean_W, scale_W, value=-self._lr / correction_1)
