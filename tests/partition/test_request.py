"""Options are checked where they enter."""

from __future__ import annotations

import pytest

from graphprep.errors import UsageError
from graphprep.partition.request import PartitionRequest


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "metsi"},
        {"imbalance": 0.9},
        {"row_bytes": 0},
        {"seed": -1},
        {"imbalance": float("nan")},
        {"minimise": "cut"},
        {"limits": ("node",)},
        {"fanouts": (3, 2)},
        {"batch_size": 8},
        {"fanouts": (-2,), "purpose": "sampling"},
        {"fanouts": (), "purpose": "sampling"},
    ],
)
def test_wrong_options_are_named(wrong: dict[str, object]) -> None:
    """Guards against options that reach native code unchecked."""
    with pytest.raises(UsageError, match=f"--{next(iter(wrong)).replace('_', '-')}"):
        PartitionRequest(**wrong)  # type: ignore[arg-type]
