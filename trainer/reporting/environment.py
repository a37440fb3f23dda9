"""Where a run takes place: what its seconds and its rounding depend on beside the options."""

from __future__ import annotations

import platform
from typing import Any

import torch


def environment_of(device: torch.device, hosts: list[str]) -> dict[str, Any]:
    """Versions, machine and device of this rank, and the hosts of all, as plain JSON values."""
    on_gpu = device.type == "cuda"
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "threads_a_rank": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "cuda": torch.version.cuda if on_gpu else None,
        "hosts": sorted(set(hosts)),
    }
