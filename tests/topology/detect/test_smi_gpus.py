"""The lines of `nvidia-smi --query-gpu`."""

from __future__ import annotations

import pytest

from graphprep.topology.detect.smi_gpus import Gpu, parse


def test_name_bus_and_memory() -> None:
    """Guards against MiB that are taken for MB, and bus numbers that are read as decimals."""
    text = "NVIDIA A100-SXM4-40GB, 00000000:0F:00.0, 40960 MiB\n"
    assert parse(text) == (Gpu(name="NVIDIA A100-SXM4-40GB", bus=(0, 15, 0, 0), memory_gb=42.9),)


@pytest.mark.parametrize("memory", ["[N/A]", "[Not Supported]", "0 MiB", "[Insufficient Permissions]"])
def test_memory_that_is_not_told(memory: str) -> None:
    """Guards against a GPU that is lost, or of no memory, where a driver keeps a field to itself."""
    assert [gpu.memory_gb for gpu in parse(f"Tesla V100, 0000:07:00.0, {memory}")] == [None]


def test_other_lines_are_none() -> None:
    """Guards against a matrix or a CSV header that is read as a GPU."""
    assert parse("name, pci.bus_id, memory.total [MiB]\nGPU0\t X \tNV4\nNo devices were found\n") == ()
