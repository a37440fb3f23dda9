"""What links carry where nobody has measured them: figures by generation, each with the document that it is from.

All are gigabytes (1e9 bytes) a second in each direction. NVLink's are what NVIDIA publishes. PCIe's are three quarters
of the line rate, which is what copies between two GPUs reach after packet headers and flow control. Latencies are round
figures of ours, as no standard fixes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

PCIE_X16_GBYTES_PER_S = {3: 12.0, 4: 24.0, 5: 48.0}
"""By PCIe generation; PCI-SIG's line rates after coding are 15.75, 31.5 and 63."""
SOCKET_GBYTES_PER_S = 19.2
"""Between two sockets: Intel QPI at 9.6 GT/s; UPI and AMD's Infinity Fabric are no slower."""
NVLINK_LATENCY_US = 2.0
NVSWITCH_LATENCY_US = 1.0
"""Of each of the two links on the way through the switch."""
PCIE_LATENCY_US = 3.0
NETWORK_LATENCY_US = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What the GPUs of one generation have."""

    models: str
    """A regular expression that matches a whole word of the name that nvidia-smi prints."""
    nvlink: float
    """Of one NVLink; 0 where there is none."""
    nvlinks: int
    """NVLinks a GPU has."""
    pcie: int
    """PCIe generation, 16 lanes."""
    source: str

    @property
    def pcie_gbytes_per_s(self) -> float:
        return PCIE_X16_GBYTES_PER_S[self.pcie]


_DATA_SHEET = "NVIDIA's data sheets"
GENERATIONS = (
    Generation(models="G?B[123]00", nvlink=50, nvlinks=18, pcie=5, source="NVIDIA Blackwell data sheet"),
    Generation(
        models="H100|H200|H800|H20|GH200", nvlink=25, nvlinks=18, pcie=5, source="NVIDIA H100 architecture white paper"
    ),
    Generation(models="A100|A800", nvlink=25, nvlinks=12, pcie=4, source="NVIDIA A100 architecture white paper"),
    Generation(models="V100|V100S|GV100", nvlink=25, nvlinks=6, pcie=3, source="NVIDIA V100 architecture white paper"),
    Generation(models="P100|GP100", nvlink=20, nvlinks=4, pcie=3, source="NVIDIA P100 architecture white paper"),
    Generation(models="A30", nvlink=25, nvlinks=4, pcie=4, source="NVIDIA A30 data sheet"),
    Generation(models="A40|A6000|A5500|A5000|A4500|3090", nvlink=14.0625, nvlinks=4, pcie=4, source=_DATA_SHEET),
    Generation(models="RTX PRO|50[5-9]0", nvlink=0, nvlinks=0, pcie=5, source=_DATA_SHEET),
    Generation(
        models="Ada|A10G?|A16|A2|L4|L40S?|L20|A[24]000|40[5-9]0|30[5-8]0",
        nvlink=0,
        nvlinks=0,
        pcie=4,
        source=_DATA_SHEET,
    ),
    Generation(models="Quadro RTX|TITAN RTX|20[6-8]0", nvlink=25, nvlinks=2, pcie=3, source=_DATA_SHEET),
    Generation(models="T4|P4|P40|M60|TITAN|Quadro|GTX", nvlink=0, nvlinks=0, pcie=3, source=_DATA_SHEET),
)
"""The first that matches counts."""


def generation_of(name: str) -> Generation | None:
    """The generation of a GPU by the name that nvidia-smi prints; None for a name that is not listed."""
    return next((one for one in GENERATIONS if re.search(rf"(?<!\w)({one.models})(?!\w)", name)), None)


def assumed(nvlinks: int) -> Generation:
    """What to assume of GPUs whose name is not known.

    Args:
        nvlinks: the most that join two of them: through NVSwitch A100 shows 8 or 12, H100 more.
    """
    model = "H100" if nvlinks > 12 else "A100" if nvlinks >= 8 else "V100"
    return replace(next(one for one in GENERATIONS if model in one.models), nvlinks=MOST_NVLINKS, source="assumed")


MOST_NVLINKS = max(generation.nvlinks for generation in GENERATIONS)
