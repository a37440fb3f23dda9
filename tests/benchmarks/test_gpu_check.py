"""The prepared GPU check, rehearsed on the CPU: the same code, smaller."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_check
from tests.end_to_end.test_cli import run

IN_THIS_PROCESS = ("spmm", "features", "attention")
IS_LONG = os.environ.get("GRAPHPREP_SOAK") == "1"


@pytest.mark.slow
@pytest.mark.parametrize("check", IN_THIS_PROCESS)
def test_figures_are_within_their_limits(check: str, tmp_path: Path) -> None:
    """A check that is wrong itself would be found out on the one hour with a GPU."""
    rows = gpu_check.CHECKS[check]("cpu", tmp_path)
    judged = [row for row in rows if row["limit"] is not None]
    assert len(judged) >= 12
    assert not [row for row in judged if not row["ok"]]
    assert all(math.isfinite(row["value"]) for row in rows)


TINY = """
import json
from pathlib import Path
from benchmarks import gpu_check
gpu_check.SIZES["cpu"] |= {"hub": 40, "rows": 20}
print(json.dumps(gpu_check.CHECKS["spmm"]("cpu", Path())))
"""


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed here")
@pytest.mark.skipif(not IS_LONG, reason="tests/trainer/kernels interprets the same kernels; `make soak` takes longer")
def test_products_by_triton_are_within_their_limits() -> None:
    """A comparison of Triton's kernel with itself, or with nothing; by its interpreter, so the graphs are tiny."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", TINY], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    judged = [row for row in rows if row["limit"] is not None]
    assert not [row for row in judged if not row["ok"]]
    for kernels in ("torch", "Triton"):
        assert sum(f"{kernels}'s kernel" in row["case"] for row in judged) >= 19
        assert sum(f"{kernels}'s kernel, of a copy" in row["case"] for row in rows) == 12


def test_a_wrong_figure_is_seen() -> None:
    """Limits that nothing exceeds, or a NaN that passes."""
    assert gpu_check.row("x", 2.0, "", 1.0)["ok"] is False
    assert gpu_check.row("x", float("nan"), "", 1.0)["ok"] is False
    assert gpu_check.row("x", 1.0, "", 1.0)["ok"] is True
    assert gpu_check.row("x", 9.0, "ms")["ok"] is None


@pytest.mark.slow
def test_a_check_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that hangs or aborts would take the other figures with it."""
    rows = gpu_check.run_check("backend", "cpu", tmp_path)
    assert [row["ok"] for row in rows] == [True, None, None, None, None, None]
    monkeypatch.setitem(gpu_check.LIMIT_SECONDS, "backend", 0.01)
    [late] = gpu_check.run_check("backend", "cpu", tmp_path)
    assert late["ok"] is False
    assert "too long" in late["case"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback from deep inside a backend."""
    monkeypatch.setattr("sys.argv", ["gpu_check"])
    assert gpu_check.main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("gpu_check: torch ")
    assert "give --device cpu" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.slow
def test_ranks_that_share_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison of a run with itself, or limits that right losses exceed; of two models, with GRAPHPREP_SOAK=1 of
    all."""
    monkeypatch.setattr(gpu_check, "graphprep", in_this_process)
    if not IS_LONG:
        for model in ("gcn", "sage, broadcast"):
            monkeypatch.delitem(gpu_check.MODELS, model)
    rows = gpu_check.check_ranks("cpu", tmp_path)
    assert len(rows) == 3 * len(gpu_check.MODELS)
    assert all(row["ok"] for row in rows)
    assert all(row["value"] > 0 for row in rows if "on the CPU" not in row["case"])


def in_this_process(*words: str, home: Path) -> str:
    """What a graphprep command prints, without an interpreter of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(home))
        done = run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.soak
def test_the_whole_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that cannot be a process of its own, or figures that do not reach the file: of one check, and with
    GRAPHPREP_SOAK=1 of epochs beside PyG's, Triton's kernels and ranks."""
    here = ("backend", "ranks", "epochs", "kernels") if IS_LONG else ("backend",)
    for check in set(gpu_check.CHECKS) - set(here):
        monkeypatch.delitem(gpu_check.CHECKS, check)
    out = tmp_path / "check.json"
    monkeypatch.setattr("sys.argv", ["gpu_check", "--device", "cpu", "--out", str(out)])
    assert gpu_check.main() == 0
    assert set(json.loads(out.read_text())["checks"]) == set(here)
