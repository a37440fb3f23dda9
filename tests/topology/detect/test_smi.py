"""Getting nvidia-smi's words: tools that are absent, fail or hang, and files in other encodings."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.errors import TopologyError
from graphprep.topology.detect import detected, read_saved, run_here, smi
from tests.topology.detect.saved_files import SAVED, text_of


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nvidia-smi to be written, the only one on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "nvidia-smi"


def write(tool: Path, script: str) -> None:
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    tool.chmod(0o755)


def test_both_outputs_of_the_tool(tool: Path) -> None:
    """Guards against a query that is not asked, and then GPUs without a name."""
    write(
        tool, f'if [ "$1" = topo ]; then grep -v MiB {SAVED}/g5-12xlarge.txt; else grep MiB {SAVED}/g5-12xlarge.txt; fi'
    )
    found = detected(run_here(), name="g5")
    assert [rank.memory_gb for rank in found.topology.ranks] == [24.1] * 4
    assert any("A10G" in comment for comment in found.comments)


def test_a_query_that_fails_leaves_the_names_unknown(tool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against an old driver's missing query that takes the matrix along."""
    write(tool, f'if [ "$1" = topo ]; then grep -v MiB {SAVED}/g5-12xlarge.txt; else echo Unknown option; exit 6; fi')
    assert detected(run_here(), name="g5").topology.num_ranks == 4
    assert "warning: names and memory of the GPUs stay unknown" in capsys.readouterr().err


def test_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a laptop without a driver that gets no word on what to do."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TopologyError, match=r"nvidia-smi is not here: .* --file saved\.txt"):
        run_here()


def test_a_driver_that_is_gone(tool: Path) -> None:
    """Guards against the tool's own words being lost, or taken for a matrix."""
    write(tool, "echo 'NVIDIA-SMI has failed because it could not talk to the driver.'; exit 9")
    with pytest.raises(TopologyError, match=r"failed with status 9 and said: NVIDIA-SMI has failed .* driver$"):
        run_here()


def test_a_driver_that_hangs(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against waiting for ever for a GPU that has fallen off the bus."""
    monkeypatch.setattr(smi, "SECONDS", 0.2)
    write(tool, "exec sleep 60")
    with pytest.raises(TopologyError, match="did not answer within"):
        run_here()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_of_other_systems(tmp_path: Path, encoding: str) -> None:
    """Guards against PowerShell's UTF-16 and editors' byte order marks."""
    path = tmp_path / "saved.txt"
    path.write_text(text_of("dgx-1"), encoding=encoding)
    assert detected(read_saved(path), name="x").topology.num_ranks == 8


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Guards against tracebacks for a slip in a path, a picture, or a whole disk."""
    path = tmp_path / "saved.txt"
    with pytest.raises(TopologyError, match="No such file"):
        read_saved(path)
    with pytest.raises(TopologyError, match="directory"):
        read_saved(tmp_path)
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(TopologyError, match="UTF-8"):
        read_saved(path)
    with path.open("wb") as file:
        file.truncate(smi.MAX_SAVED_BYTES + 1)
    with pytest.raises(TopologyError, match="bytes"):
        read_saved(path)
