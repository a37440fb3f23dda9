"""The doctor: it names what is amiss and never fails over it."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graphprep.report.doctor_tables import print_doctor
from graphprep.system import doctor
from tests.end_to_end.test_cli import run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers of other processes, by the first word of the command; the real ones are not asked."""
    answers: dict[str, Any] = {}

    def answer(command: list[str], **_: Any) -> Any:
        found = answers.get("nvidia-smi" if "nvidia-smi" in command[0] else "torch")
        if isinstance(found, Exception):
            raise found
        return subprocess.CompletedProcess(command, *found)

    monkeypatch.setattr(subprocess, "run", answer)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}" if name in answers else None)
    no_gpu = {"cuda_built": None, "cuda_available": False, "nccl": False, "gloo": True, "gpus": [], "threads": 2}
    answers["torch"] = (0, json.dumps(no_gpu), "")
    return answers


@pytest.mark.slow
def test_this_machine(graphprep_home: Path) -> None:
    """Guards against findings that are no JSON, and against a home that is reported where it is not."""
    document = json.loads(run("doctor", "--json").stdout)
    assert document["home"] == str(graphprep_home)
    assert document["packages"]["numpy"]
    assert document["cores"] >= 1
    assert document["memory_free_bytes"] > 0
    assert "problem" not in document["torch"]


@pytest.mark.parametrize(
    ("name", "answer", "advice"),
    [
        ("torch", (-11, "", ""), "torch cannot be used: it ended with status -11"),
        ("torch", (1, "", "ImportError: libcudart.so.12: no such file"), "libcudart.so.12"),
        ("torch", subprocess.TimeoutExpired("x", 1), "no answer within"),
        ("nvidia-smi", (0, "NVIDIA H100, 81559 MiB, 550.1\n", ""), "the driver shows 1 GPUs and torch"),
        ("nvidia-smi", (9, "NVIDIA-SMI has failed: driver mismatch\n", ""), "driver mismatch"),
        ("nvidia-smi", PermissionError("not allowed"), "not allowed"),
    ],
)
def test_what_is_amiss_is_said(asked: dict[str, Any], name: str, answer: Any, advice: str) -> None:
    """Guards against a doctor that dies of the illness it is asked about."""
    asked[name] = answer
    found = doctor.examine()
    assert any(advice in text for text in found["advice"])
    shown = io.StringIO()
    print_doctor(found, shown)
    assert advice in shown.getvalue()


def test_a_healthy_machine_gets_no_advice(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, graphprep_home: Path
) -> None:
    """Guards against advice that is always there, and so is never read."""
    monkeypatch.setattr(doctor.memory, "available", lambda: 8 * 10**9)
    monkeypatch.setattr(doctor, "_free_disk", lambda folder: 10**11)
    for name in doctor.THREAD_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    assert doctor.examine()["advice"] == []
    monkeypatch.setenv("OMP_NUM_THREADS", "1000")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "many")
    monkeypatch.setattr(doctor, "_free_disk", lambda folder: 10**8)
    monkeypatch.setattr(doctor.memory, "available", lambda: 10**8)
    advice = " ".join(doctor.examine()["advice"])
    for words in ("OMP_NUM_THREADS=1000", "NUMBA_NUM_THREADS=many", "0.1 GB are free in", "0.1 GB of memory"):
        assert words in advice
