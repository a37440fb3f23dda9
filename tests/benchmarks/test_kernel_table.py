"""What the Triton kernels compile to, without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kernel_table


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed here, which compiles the trainer's kernels",
)
def test_kernels_are_within_their_limits(tmp_path: Path) -> None:
    """A spill to local memory, too many registers or rows that are loaded number by number: seen by no result.

    In a process of its own, since kernels that are interpreted here cannot be compiled here. With GRAPHPREP_SOAK=1 all
    for three generations, else those of bf16 for one.
    """
    out, environment = tmp_path / "table.json", {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("TRITON_INTERPRET", None)
    architectures, match = (
        (["80", "90", "100"], "") if os.environ.get("GRAPHPREP_SOAK") else (["90"], "bf16|softmax, 4")
    )
    words = [
        sys.executable,
        "-m",
        "benchmarks.kernel_table",
        "--out",
        str(out),
        "--match",
        match,
        "--arch",
        *architectures,
    ]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    rows: list[dict[str, Any]] = json.loads(out.read_text())
    assert {row["architecture"] for row in rows} == {f"sm_{number}" for number in architectures}
    assert {row["kernel"].split(",")[0].split()[0] for row in rows} == {"spmm", "pack", "unpack", "softmax"}
    for row in rows:
        assert 0 < row["registers"] <= 64, row
        assert row["spills"] == row["local_bytes"] == 0, row
        if row["is_aligned"]:
            assert max(map(int, row["loads"])) >= 64, row


def test_a_bad_kernel_is_seen() -> None:
    """A table whose verdict is always good."""
    good = {"registers": 64, "spills": 0, "rows_are_wide": True}
    assert kernel_table.is_good(good)
    for bad in ({"registers": 65}, {"spills": 1}, {"rows_are_wide": False}):
        assert not kernel_table.is_good({**good, **bad})
