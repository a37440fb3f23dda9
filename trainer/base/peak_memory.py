"""The most memory that this rank has held so far, read without waiting for a GPU."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")


def peak_memory(device: torch.device) -> int:
    """Bytes: on a GPU those of tensors there, else those of the process in the machine's memory."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        # Where Linux has it: `ru_maxrss` counts what the process that started this one held, too.
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
