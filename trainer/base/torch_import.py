"""Importing torch without what it says about a machine that has only torch."""

from __future__ import annotations

import os
import warnings


def before_torch() -> None:
    """Prepare this process for importing torch.

    torch works without numpy and warns that it is not there; the trainer has no use for it. GPUs are numbered as
    nvidia-smi and the topology number them, by PCI bus.
    """
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
