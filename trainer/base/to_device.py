"""Copies from the host's memory to a device, without waiting for what the device is computing."""

from __future__ import annotations

import torch
from torch import Tensor


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """`values`, which are in the host's memory, on `device`.

    A GPU copies pinned memory when it has done the work before, and the host goes on meanwhile. With other memory the
    host waits for that.
    """
    return values if device.type == "cpu" else values.pin_memory().to(device, non_blocking=True)
