"""What has to be set before torch is imported."""

from __future__ import annotations

import os
import warnings


def prepare_torch_import() -> None:
    """Prepare this process for importing torch.

    torch works without numpy, which the trainer does not use, and warns that it is absent. GPUs are numbered as
    nvidia-smi and the topology number them, by PCI bus.
    """
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
