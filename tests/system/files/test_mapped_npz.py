"""Arrays mapped where they lie in an .npz file are those that NumPy loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphprep.system.files.mapped_npz import mapped_npz


def test_what_numpy_loads_is_mapped(tmp_path: Path) -> None:
    """Guards against an offset that is wrong by a header, and against arrays without entries, never mapped."""
    rng = np.random.default_rng(0)
    arrays = {
        "indptr": np.arange(1000),
        "a_name_that_is_longer_than_others": rng.standard_normal((7, 3)).astype(np.float32),
        "nothing": np.empty((0, 4), np.int32),
        "facts": np.array("words"),
    }
    with (tmp_path / "a.npz").open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    found = mapped_npz(tmp_path / "a.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    assert isinstance(found["indptr"], np.memmap)
