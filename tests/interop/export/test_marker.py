"""graphprep.json: what an export says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphprep.interop.export.marker import MARKER, marker_of, read_marker
from tests.interop.export.exported import exported


def test_it_says_what_was_exported(tmp_path: Path) -> None:
    """Guards against an export that cannot be told from another."""
    _, cache, folder = exported("plain", "npz", tmp_path)
    found = read_marker(folder)
    files = {name: (folder / name).stat().st_size for name in ("graph.npz", "part_0.npz", "part_1.npz", "part_2.npz")}
    assert found == {**marker_of(cache, "npz"), "files": files}
    assert found != marker_of(cache, "pyg")
    assert json.loads((folder / MARKER).read_text())["num_parts"] == 3


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"graphprep_kind": "cache"}'])
def test_any_other_folder_is_none(tmp_path: Path, content: str | None) -> None:
    """Guards against somebody's folder that is taken for an export, and so replaced."""
    if content is not None:
        (tmp_path / MARKER).write_text(content)
    assert read_marker(tmp_path) is None
