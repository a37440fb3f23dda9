"""Generations by the names that nvidia-smi prints."""

from __future__ import annotations

import pytest

from graphprep.topology.link_rates import assumed, generation_of


@pytest.mark.parametrize(
    ("name", "nvlink", "nvlinks", "pcie"),
    [
        ("Tesla V100-SXM2-16GB", 25, 6, 3),
        ("Tesla P100-SXM2-16GB", 20, 4, 3),
        ("NVIDIA A100-SXM4-80GB", 25, 12, 4),
        ("NVIDIA A100 80GB PCIe", 25, 12, 4),
        ("NVIDIA H100 80GB HBM3", 25, 18, 5),
        ("NVIDIA GH200 480GB", 25, 18, 5),
        ("NVIDIA B200", 50, 18, 5),
        ("NVIDIA GB200", 50, 18, 5),
        ("NVIDIA A10G", 0, 0, 4),
        ("NVIDIA A10", 0, 0, 4),
        ("NVIDIA RTX A6000", 14.0625, 4, 4),
        ("NVIDIA RTX 6000 Ada Generation", 0, 0, 4),
        ("Quadro RTX 6000", 25, 2, 3),
        ("NVIDIA GeForce RTX 3090", 14.0625, 4, 4),
        ("NVIDIA GeForce RTX 4090", 0, 0, 4),
        ("NVIDIA GeForce RTX 5090", 0, 0, 5),
        ("NVIDIA L40S", 0, 0, 4),
        ("Tesla T4", 0, 0, 3),
    ],
)
def test_names(name: str, nvlink: float, nvlinks: int, pcie: int) -> None:
    """Guards against an A10 that is taken for an A100, and an RTX 6000 of one generation for that of another."""
    found = generation_of(name)
    assert found is not None
    assert (found.nvlink, found.nvlinks, found.pcie) == (nvlink, nvlinks, pcie)


def test_names_that_are_not_known() -> None:
    """Guards against a new model that gets the figures of one whose name it contains."""
    assert generation_of("NVIDIA A1000X9") is None
    assert generation_of("AMD Instinct MI300X") is None
    assert [assumed(nvlinks).pcie for nvlinks in (0, 2, 8, 12, 18)] == [3, 3, 4, 4, 5]
