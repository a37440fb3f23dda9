"""Which column is what."""

from __future__ import annotations

import pytest

from graphprep.datasets.importing.edges.edge_columns import Roles, roles


@pytest.mark.parametrize(
    ("names", "columns", "weights", "times", "expected"),
    [
        (None, 2, False, False, Roles(0, 1)),
        (None, 3, True, False, Roles(0, 1, 2)),
        (None, 3, False, True, Roles(0, 1, None, 2)),
        (None, 4, True, True, Roles(0, 1, 2, 3)),
        (None, 3, True, True, None),
        (None, 1, False, False, None),
        (["dst", "src"], 2, False, False, Roles(1, 0)),
        ([" Target ", "id", "SOURCE"], 3, False, False, Roles(2, 0)),
        (["a", "b"], 2, False, False, Roles(0, 1)),
        (["src", "b", "c"], 3, False, False, Roles(0, 1)),
        (["a", "to", "c"], 3, False, False, Roles(0, 1)),
        (["a", "b", "src"], 3, False, False, None),
        (["to", "b"], 2, False, False, None),
        (["src", "dst", "weight", "x"], 4, False, True, Roles(0, 1, None, 3)),
        (["src", "dst", "weight"], 3, False, True, None),
        (["src", "dst", "time", "x"], 4, True, True, Roles(0, 1, 3, 2)),
        (["t", "w", "u", "v"], 4, True, True, Roles(2, 3, 1, 0)),
        (["src", "src", "dst"], 3, False, False, Roles(0, 2)),
    ],
)
def test_roles(names: list[str] | None, columns: int, weights: bool, times: bool, expected: Roles | None) -> None:
    """Guards against a weight that is taken for a time, and against ends that are guessed when names contradict."""
    assert roles(names, columns, weights=weights, times=times) == expected
