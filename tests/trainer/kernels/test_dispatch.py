"""When Triton's kernels are used."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
import torch

from trainer.kernels import dispatch


def test_a_cpu_has_torch_s_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter in Python that a run on CPUs falls into."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not dispatch.serves(torch.device("cpu"))


def test_triton_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch for Windows, and of macOS, comes without it."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    dispatch._is_installed.cache_clear()
    try:
        assert not dispatch.serves(torch.device("cpu"))
        assert not dispatch.serves(torch.device("cuda", 0))
    finally:
        dispatch._is_installed.cache_clear()


def test_a_gpu_has_triton_s_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """AMD's GPUs are called cuda too, and nothing has been compiled for them."""
    monkeypatch.setattr(dispatch, "_is_installed", lambda: True)
    assert dispatch.serves(torch.device("cuda", 0))
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert not dispatch.serves(torch.device("cuda", 0))


@pytest.mark.slow
def test_the_trainer_starts_without_triton() -> None:
    """A second to import what a CPU never uses, and an ImportError where it is not installed."""
    script = "import sys, trainer.run, trainer.kernels.dispatch; sys.exit('triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
