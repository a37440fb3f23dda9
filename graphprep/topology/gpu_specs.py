"""GPUs by name, with their published specifications, for the step of partitions and for plans of other machines.

Peaks are those of one device as torch sees it: of an MI250X one of its two dies. Memory bandwidth in 1e9 bytes a
second, fp32 in 1e12 operations a second without tensor cores and sparsity, which is what torch multiplies fp32 with by
default, memory in 1e9 bytes. No kernel reaches a peak; what counts is `STREAMED` of the bandwidth where rows are read
in order, `GATHERED` where rows are fetched by the columns of edges, and `MULTIPLIED` of the operations. These shares
are estimates for graphs in a locality order; `graphprep doctor --rates` measures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphprep.errors import UsageError
from graphprep.system.nearest import nearest

STREAMED, GATHERED, MULTIPLIED = 0.8, 0.5, 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The published specifications of one GPU."""

    name: str
    pattern: str
    """A regular expression that some part of the driver's name matches."""
    memory_gb: float
    gbytes_per_s: float
    fp32_tflops: float
    source: str

    @property
    def streamed_bytes_per_s(self) -> float:
        """Of rows that are read or written in order."""
        return 1e9 * self.gbytes_per_s * STREAMED

    @property
    def gathered_bytes_per_s(self) -> float:
        """Of rows that are fetched by the columns of edges."""
        return 1e9 * self.gbytes_per_s * GATHERED

    @property
    def operations_per_s(self) -> float:
        """Of dense products in fp32."""
        return 1e12 * self.fp32_tflops * MULTIPLIED


_A100 = "NVIDIA A100 data sheet (2021)"
_V100 = "NVIDIA V100 data sheet (2020)"
_H100 = "NVIDIA H100 data sheet (2023)"
_AMPERE = "NVIDIA Ampere GA102 architecture white paper"
GPUS = (
    Gpu(name="B200", pattern=r"G?B200", memory_gb=180, gbytes_per_s=8000, fp32_tflops=75,
        source="NVIDIA DGX B200 data sheet, an eighth of the system"),
    Gpu(name="H200", pattern=r"H200", memory_gb=141, gbytes_per_s=4800, fp32_tflops=67,
        source="NVIDIA H200 data sheet (2024), SXM"),
    Gpu(name="GH200", pattern=r"GH200", memory_gb=96, gbytes_per_s=4000, fp32_tflops=67,
        source="NVIDIA GH200 data sheet (2023), HBM3"),
    Gpu(name="H100-PCIe", pattern=r"H100.*PCIe", memory_gb=80, gbytes_per_s=2000, fp32_tflops=51, source=_H100),
    Gpu(name="H100-NVL", pattern=r"H100.*NVL", memory_gb=94, gbytes_per_s=3900, fp32_tflops=60, source=_H100),
    Gpu(name="H100-SXM", pattern=r"H100", memory_gb=80, gbytes_per_s=3350, fp32_tflops=67, source=_H100),
    Gpu(name="A100-PCIe-80GB", pattern=r"A100.*PCIe.*80(GB)?|A100.*80GB.*PCIe", memory_gb=80, gbytes_per_s=1935,
        fp32_tflops=19.5, source=_A100),
    Gpu(name="A100-SXM-80GB", pattern=r"A100.*80(GB)?", memory_gb=80, gbytes_per_s=2039, fp32_tflops=19.5,
        source=_A100),
    Gpu(name="A100-40GB", pattern=r"A100", memory_gb=40, gbytes_per_s=1555, fp32_tflops=19.5, source=_A100),
    Gpu(name="A30", pattern=r"A30", memory_gb=24, gbytes_per_s=933, fp32_tflops=10.3, source="NVIDIA A30 data sheet"),
    Gpu(name="A40", pattern=r"A40", memory_gb=48, gbytes_per_s=696, fp32_tflops=37.4, source="NVIDIA A40 data sheet"),
    Gpu(name="A10G", pattern=r"A10G", memory_gb=24, gbytes_per_s=600, fp32_tflops=35,
        source="NVIDIA A10G data sheet"),
    Gpu(name="A10", pattern=r"A10", memory_gb=24, gbytes_per_s=600, fp32_tflops=31.2, source="NVIDIA A10 data sheet"),
    Gpu(name="RTX-A6000", pattern=r"(RTX[ -])?A6000", memory_gb=48, gbytes_per_s=768, fp32_tflops=38.7,
        source="NVIDIA RTX A6000 data sheet"),
    Gpu(name="L40S", pattern=r"L40S", memory_gb=48, gbytes_per_s=864, fp32_tflops=91.6,
        source="NVIDIA L40S data sheet"),
    Gpu(name="L40", pattern=r"L40", memory_gb=48, gbytes_per_s=864, fp32_tflops=90.5, source="NVIDIA L40 data sheet"),
    Gpu(name="L4", pattern=r"L4", memory_gb=24, gbytes_per_s=300, fp32_tflops=30.3, source="NVIDIA L4 data sheet"),
    Gpu(name="T4", pattern=r"T4", memory_gb=16, gbytes_per_s=300, fp32_tflops=8.1, source="NVIDIA T4 data sheet"),
    Gpu(name="V100S-PCIe", pattern=r"V100S", memory_gb=32, gbytes_per_s=1134, fp32_tflops=16.4, source=_V100),
    Gpu(name="V100-PCIe-32GB", pattern=r"V100.*PCIe.*32(GB)?", memory_gb=32, gbytes_per_s=900, fp32_tflops=14,
        source=_V100),
    Gpu(name="V100-PCIe-16GB", pattern=r"V100.*PCIe", memory_gb=16, gbytes_per_s=900, fp32_tflops=14, source=_V100),
    Gpu(name="V100-SXM-32GB", pattern=r"V100.*32(GB)?", memory_gb=32, gbytes_per_s=900, fp32_tflops=15.7, source=_V100),
    Gpu(name="V100-SXM-16GB", pattern=r"V100", memory_gb=16, gbytes_per_s=900, fp32_tflops=15.7, source=_V100),
    Gpu(name="P100-SXM", pattern=r"P100", memory_gb=16, gbytes_per_s=732, fp32_tflops=10.6,
        source="NVIDIA Pascal P100 architecture white paper"),
    Gpu(name="RTX-5090", pattern=r"5090", memory_gb=32, gbytes_per_s=1792, fp32_tflops=104.8,
        source="NVIDIA RTX Blackwell architecture white paper"),
    Gpu(name="RTX-4090", pattern=r"4090", memory_gb=24, gbytes_per_s=1008, fp32_tflops=82.6,
        source="NVIDIA Ada architecture white paper"),
    Gpu(name="RTX-3090", pattern=r"3090", memory_gb=24, gbytes_per_s=936, fp32_tflops=35.6, source=_AMPERE),
    Gpu(name="MI300X", pattern=r"MI300X", memory_gb=192, gbytes_per_s=5300, fp32_tflops=163.4,
        source="AMD Instinct MI300X data sheet"),
    Gpu(name="MI250X", pattern=r"MI250X?", memory_gb=64, gbytes_per_s=1638, fp32_tflops=23.9,
        source="AMD Instinct MI250X data sheet, half of its 128 GB, 3276.8 GB/s and 47.9 TFLOPS: one die"),
    Gpu(name="MI210", pattern=r"MI210", memory_gb=64, gbytes_per_s=1638, fp32_tflops=22.6,
        source="AMD Instinct MI210 data sheet"),
)  # fmt: skip
"""The first that matches counts."""


def gpu_called(name: str, *, where: str) -> Gpu:
    """The specifications of the GPU that a driver or a user calls `name`.

    Args:
        name: for instance NVIDIA A100-SXM4-40GB, or a name of `GPUS`.
        where: the source of the name, for the message.

    Raises:
        UsageError: it is none of `GPUS`.
    """
    for gpu in GPUS:
        if name.lower() == gpu.name.lower():
            return gpu
    for gpu in GPUS:
        if re.search(rf"(?<![A-Za-z0-9])({gpu.pattern})(?![A-Za-z0-9])(?!.*Laptop)", name, re.IGNORECASE):
            return gpu
    names = [gpu.name for gpu in GPUS]
    raise UsageError(
        f"{where} names the GPU {name!r}, whose rates are not known{nearest(name, names)}; give --rates FILE of "
        f"`graphprep doctor --rates FILE` there, or --gpu with the nearest of {', '.join(names)}"
    )
