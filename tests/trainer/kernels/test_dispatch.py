"""When Triton's kernels are used."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from trainer.kernels import dispatch


def test_a_cpu_has_torch_s_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter in Python that a run on CPUs falls into."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not dispatch.serves(torch.device("cpu"))


@pytest.mark.parametrize(
    ("release", "is_enough"), [(None, False), ("3.2.0", False), ("3.4.0", True), ("4.0.0+git1", True)]
)
def test_triton_is_optional(release: str | None, is_enough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch for Windows and macOS comes without it, and an old torch with one that may not compile these kernels."""

    def version(name: str) -> str:
        if release is None:
            raise PackageNotFoundError(name)
        return release

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(dispatch, "version", version)
    monkeypatch.setattr(dispatch, "_is_installed", dispatch._is_installed.__wrapped__)
    assert dispatch.serves(torch.device("cpu")) == is_enough


def test_a_gpu_has_triton_s_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """AMD's GPUs are called cuda too, and nothing has been compiled for them."""
    monkeypatch.setattr(dispatch, "_is_installed", lambda: True)
    monkeypatch.setattr(dispatch, "_works", lambda device: True)
    assert dispatch.serves(torch.device("cuda", 0))
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert not dispatch.serves(torch.device("cuda", 0))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_where_triton_does_not_work_has_torch_s(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine without a C compiler, which would end the run; here it is the GPU that is not there."""
    monkeypatch.setattr(dispatch.log, "propagate", True)  # __main__ of another test sets it
    monkeypatch.setattr(dispatch, "_is_installed", lambda: True)
    monkeypatch.setattr(dispatch, "_works", dispatch._works.__wrapped__)
    assert not dispatch.serves(torch.device("cuda", 0))
    [record] = caplog.records
    assert record.getMessage().startswith("torch's own kernels are used, since Triton's do not work here: ")


@pytest.mark.slow
def test_the_trainer_starts_without_triton() -> None:
    """A second to import what a CPU never uses, and an ImportError where it is not installed."""
    script = "import sys, trainer.run, trainer.kernels.dispatch; sys.exit('triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
