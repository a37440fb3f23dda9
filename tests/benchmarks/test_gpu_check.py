"""The prepared GPU check, rehearsed on the CPU: the same code, smaller."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_check

IN_THIS_PROCESS = ("spmm", "features", "attention")


@pytest.mark.parametrize("check", IN_THIS_PROCESS)
def test_figures_are_within_their_limits(check: str, tmp_path: Path) -> None:
    """A check that is wrong itself would be found out on the one hour with a GPU."""
    rows = gpu_check.CHECKS[check]("cpu", tmp_path)
    judged = [row for row in rows if row["limit"] is not None]
    assert len(judged) >= 12
    assert not [row for row in judged if not row["ok"]]
    assert all(math.isfinite(row["value"]) for row in rows)


def test_a_wrong_figure_is_seen() -> None:
    """Limits that nothing exceeds, or a NaN that passes."""
    assert gpu_check.row("x", 2.0, "", 1.0)["ok"] is False
    assert gpu_check.row("x", float("nan"), "", 1.0)["ok"] is False
    assert gpu_check.row("x", 1.0, "", 1.0)["ok"] is True
    assert gpu_check.row("x", 9.0, "ms")["ok"] is None


def test_a_check_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that hangs or aborts would take the other figures with it."""
    rows = gpu_check.run_check("backend", "cpu", tmp_path)
    assert [row["ok"] for row in rows] == [True, None]
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
@pytest.mark.soak
def test_the_whole_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that share a device, and epochs beside PyG's; without the checks that are made above."""
    for check in IN_THIS_PROCESS:
        monkeypatch.delitem(gpu_check.CHECKS, check)
    out = tmp_path / "check.json"
    monkeypatch.setattr("sys.argv", ["gpu_check", "--device", "cpu", "--out", str(out)])
    assert gpu_check.main() == 0
    assert set(json.loads(out.read_text())["checks"]) == {"backend", "ranks", "epochs"}
