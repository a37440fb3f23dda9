"""Norms over nodes in a user's model: replaced by norms over the nodes of all ranks, or refused.

    torch.nn.BatchNorm1d      becomes `RanksBatchNorm`, over the rows of all ranks, as SyncBatchNorm does on GPUs
    torch.nn.Dropout ...      stay; each pass begins with a seed of its own for each rank (`seeded`)
    other norms over nodes    refused: their statistics would be of this rank's rows alone

A call of `torch.nn.functional.batch_norm` or `instance_norm` is refused in the first training pass (`NoLocalNorms`),
and so are buffers of any other module that differ between ranks after it (`check_buffers`). Means over rows in the
model's own code, `x.mean(0)`, cannot be distinguished from other sums, and are the user's to avoid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.overrides import TorchFunctionMode

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.pass_context import PassContext
from trainer.dist.communicator import Communicator
from trainer.layers.norms import standardised

_OVER_NODES = {
    "DiffGroupNorm",
    "GraphNorm",
    "GraphSizeNorm",
    "HeteroBatchNorm",
    "InstanceNorm",
    "MeanSubtractionNorm",
    "PairNorm",
}
"""Classes of PyG and DGL whose statistics are over the nodes that they are called with."""
_REFUSED_CALLS = {functional.batch_norm, functional.instance_norm, torch.batch_norm, torch.instance_norm}
_ADVICE = "use torch.nn.BatchNorm1d, plan.norm(width) with --norm batch, or a norm of each row such as LayerNorm"


class RanksBatchNorm(nn.BatchNorm1d):
    """torch's own batch norm of rows [n, F], over the rows of all ranks; every rank has to call it, with any n.

    On one rank it gives what torch's gives, and its parameters and buffers have the same names.
    """

    communicator: Communicator

    @classmethod
    def of(cls, norm: nn.BatchNorm1d, communicator: Communicator) -> RanksBatchNorm:
        """The same norm with the same parameters and buffers, over the rows of all ranks."""
        made = cls(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        made._parameters, made._buffers = norm._parameters, norm._buffers
        made.training, made.communicator = norm.training, communicator
        return made

    def forward(self, input: Tensor) -> Tensor:  # the name is torch's
        """Rows [n, F] to rows [n, F]."""
        if input.dim() != 2:
            raise ValueError(f"a batch norm over all ranks takes rows [n, F], not a tensor {list(input.shape)}")
        if not self.training and self.running_mean is not None and self.running_var is not None:
            rows_nF = (input - self.running_mean) * (self.running_var + self.eps).rsqrt()
        else:
            count = torch.tensor([len(input)], device=input.device)
            number = max(int(self.communicator.all_reduce(count, "batch norm")), 1)
            rows_nF, mean_F, variance_F = standardised(input, number, self.eps, self.communicator)
            if self.training and self.running_mean is not None and self.running_var is not None:
                self._update_running(mean_F, variance_F * (number / max(number - 1, 1)))
        return rows_nF if self.weight is None else rows_nF * self.weight + self.bias

    @torch.no_grad()
    def _update_running(self, mean_F: Tensor, variance_F: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        share = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if share is None:
                share = 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean_F, share or 0.0)
        self.running_var.lerp_(variance_F, share or 0.0)


def over_all_ranks(model: nn.Module, communicator: Communicator) -> tuple[nn.Module, list[str]]:
    """A user's model with every norm over nodes over those of all ranks.

    Returns:
        the model, changed in place or replaced where it is a batch norm itself, and remarks for the log.

    Raises:
        TrainingError: it has a norm over nodes that cannot be made so; the same on one rank as on several.
    """
    made: dict[nn.Module, nn.Module] = {}
    remarks = []
    for name, module in model.named_modules():
        if type(module) is nn.BatchNorm1d:
            made[module] = RanksBatchNorm.of(module, communicator)
            continue
        names = {kind.__name__ for kind in type(module).__mro__}
        over_graph = "LayerNorm" in names and getattr(module, "mode", None) == "graph"
        if isinstance(module, _BatchNorm | _InstanceNorm) or names & _OVER_NODES or over_graph:
            raise TrainingError(
                f"{type(module).__name__} at {name or 'the model itself'} takes statistics over the rows that it is "
                f"called with, which are one rank's; {_ADVICE}"
            )
    for module in list(model.modules()):
        for name, child in module.named_children():
            if child in made:
                setattr(module, name, made[child])
    if made:
        remarks.append("the model's torch.nn.BatchNorm1d counts the nodes of all ranks")
    if any(isinstance(module, _DropoutNd | nn.RReLU) for module in model.modules()):
        remarks.append(
            "the model's torch.nn.Dropout draws masks by rank, so another number of ranks drops other entries; "
            "graph.rows(H) drops by node, alike on any number"
        )
    return made.get(model, model), remarks


@contextmanager
def seeded(context: PassContext, *, seed: int, rank: int) -> Iterator[None]:
    """What is drawn from torch's own generator in a pass depends on seed, epoch and rank alone."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        key = hashlib.sha256(f"{seed} {context.epoch} {context.training} {rank}".encode()).digest()
        torch.manual_seed(int.from_bytes(key[:8], "little") >> 1)
        yield


class NoLocalNorms(TorchFunctionMode):
    """A context in which a call of torch's functional batch or instance norm is a TrainingError."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _REFUSED_CALLS:
            with found_by_every_rank():
                raise TrainingError(
                    f"the model calls {func.__name__}, which takes statistics over one rank's rows; {_ADVICE}"
                )
        return func(*args, **(kwargs or {}))


def versions(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Something that changes with each of a model's buffers, by name."""
    return {name: (id(value), value._version) for name, value in model.named_buffers()}


def check_buffers(model: nn.Module, before: Mapping[str, tuple[int, int]], communicator: Communicator) -> None:
    """Refuse buffers that differ between ranks; every rank has to call it, after a training pass.

    Args:
        model: of the user's.
        before: its `versions` before the pass.
        communicator: the ranks of the run.

    Raises:
        TrainingError: a buffer was changed, and differs between ranks now.
    """
    buffers, now = dict(model.named_buffers()), versions(model)
    facts = communicator.all_gather_object(
        {name: _digest(buffers[name]) for name in now if now[name] != before.get(name)}
    )
    with found_by_every_rank():
        for rank, of_rank in enumerate(facts):
            for name in sorted(facts[0].keys() | of_rank.keys()):
                if of_rank.get(name) != facts[0].get(name):
                    raise TrainingError(
                        f"the model's buffer {name} differs between ranks 0 and {rank} after the first training pass: "
                        f"it is made of one rank's rows; {_ADVICE}"
                    )


def _digest(values: Tensor) -> str:
    content = bytearray(values.numel() * values.element_size())
    if content:
        flat = values.detach().cpu().contiguous().reshape(-1)
        torch.frombuffer(content, dtype=torch.uint8).copy_(flat.view(torch.uint8))
    return hashlib.sha256(content).hexdigest()
