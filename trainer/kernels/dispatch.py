"""Decides whether Triton's kernels compute with a tensor, or torch's own.

They do on NVIDIA GPUs where the package `triton` is installed, as it is with torch for CUDA on Linux, and where it
works: it needs a C compiler once. With TRITON_INTERPRET=1, Triton's own variable, they also compute with tensors of the
CPU, slowly, in Python: the tests do that, since it runs the same kernels.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import torch

log = logging.getLogger("trainer")

WIDE = 16
"""Columns from which on Triton's product is used."""
_OLDEST = (3, 4)
"""The oldest release of Triton that the kernels have been compiled by."""


def serves(device: torch.device) -> bool:
    """Whether tensors of `device` are computed with by Triton's kernels."""
    if device.type == "cpu":
        return os.environ.get("TRITON_INTERPRET") == "1" and _is_installed()
    return device.type == "cuda" and torch.version.hip is None and _is_installed() and _works(device)


@cache
def _is_installed() -> bool:
    try:
        major, minor = version("triton").split(".")[:2]
    except PackageNotFoundError:
        return False
    return (int(major), int(minor)) >= _OLDEST


@cache
def _works(device: torch.device) -> bool:
    """Whether a kernel can be compiled and launched; if not, the log says why, once."""
    try:
        from trainer.kernels.pack import unpack_int8

        unpack_int8(torch.zeros(1, 3, dtype=torch.uint8, device=device), torch.float32)
    except Exception as error:  # noqa: BLE001 # whatever Triton lacks here, torch's kernels do without it
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        log.warning("torch's own kernels are used, since Triton's do not work here: %s", reason)
        return False
    return True
