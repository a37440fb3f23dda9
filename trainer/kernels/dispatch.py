"""Decides whether Triton's kernels compute with a tensor, or torch's own.

They do on NVIDIA GPUs where the package `triton` is installed, as it is with torch for CUDA on Linux. With
TRITON_INTERPRET=1, Triton's own variable, they also compute with tensors of the CPU, slowly, in Python: the tests do
that, since it runs the same kernels.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache

import torch

WIDE = 16
"""Columns from which on Triton's product is used."""


def serves(device: torch.device) -> bool:
    """Whether tensors of `device` are computed with by Triton's kernels."""
    if device.type == "cpu":
        return os.environ.get("TRITON_INTERPRET") == "1" and _is_installed()
    return device.type == "cuda" and torch.version.hip is None and _is_installed()


@cache
def _is_installed() -> bool:
    return importlib.util.find_spec("triton") is not None
