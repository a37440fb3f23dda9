"""How much memory tensors hold at the same time, seen operation by operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """Follows every tensor that an operation reads or gives out, forward and backward, until it is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self._live = {key: (seen, size) for key, (seen, size) in self._live.items() if not seen.expired()}
        for value in tree_leaves((args, result)):
            if isinstance(value, Tensor) and value.layout == torch.strided:
                seen = StorageWeakRef(value.untyped_storage())
                self._live[seen.cdata] = (seen, value.untyped_storage().nbytes())
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self._live.values()))
        return result
