"""What is made of a column: the same however its rows come, and nothing that was not asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from graphprep.datasets.importing.columns.features import MOST_ONE_HOT, Feature, FeatureColumns
from graphprep.datasets.importing.columns.table_source import Batch, TableReader
from graphprep.datasets.importing.spool import Spool
from graphprep.errors import DatasetError


class Reader(TableReader):
    called, is_text = "the table", False

    def place(self, row: int) -> str:
        return f"row {row}"


def made(column: Any, *, rows: int = 1000, **how: Any) -> tuple[np.ndarray, FeatureColumns]:
    """x of one column, read so many rows at a time."""
    array = column if isinstance(column, pa.Array) else pa.array(column)
    features = FeatureColumns([Feature(column="c", **{"as": how.pop("kind", "auto"), **how})], Spool(), "the table")
    for start in range(0, len(array), rows):
        some = array.slice(start, rows)
        features.add(Batch(Reader(), start, {"c": some}, len(some)))
    return features.finish(), features


@pytest.mark.parametrize(
    ("column", "how"),
    [
        ([1.5, None, 1e6, -3], {"fill": "mean", "normalise": "standard"}),
        ([4, 4, 4, 4], {"normalise": "standard"}),
        (["b", "a", None, "b"], {}),
        (["b", "a", None, "c"], {"kind": "codes"}),
        ([[1.0, 2.0], [3.0, 5.0], [1.0, 9.0], [0.0, 0.0]], {"normalise": "minmax"}),
        (["one two", "", None, "two one"], {"kind": "hash", "width": 5}),
        ([None, None, "x", "y"], {}),
        ([None, None, None, 2.0], {"fill": 0}),
    ],
)
def test_rows_may_come_in_any_batches(column: list[Any], how: dict[str, Any]) -> None:
    """Guards against classes, means and kinds that depend on where a batch ends."""
    array = pa.array(column)
    whole, _ = made(array, **how)
    assert whole.dtype == np.float32
    for rows in (1, 2, 3):
        again, _ = made(array, rows=rows, **how)
        assert np.array_equal(whole, again)


def test_values() -> None:
    """Guards against a normalisation by other figures, and codes in another order than the classes."""
    x, features = made([1.0, None, 3.0], fill="mean", normalise="standard")
    assert np.allclose(x[:, 0], [-1.2247449, 0, 1.2247449])
    assert features.facts()[0] == {
        **{"column": "c", "as": "number", "missing": 1, "fill": 2.0, "width": 1},
        **{"subtracted": [2.0], "divided_by": [pytest.approx(0.81649658)]},
    }
    assert made([4, 4], normalise="minmax")[0].tolist() == [[0], [0]]
    assert made([True, False])[0].tolist() == [[1], [0]]
    assert made(["10", "9", "10"], kind="codes")[0].tolist() == [[1], [0], [1]]
    assert made([10.0, 9.0, None], kind="one-hot")[0].tolist() == [[0, 1], [1, 0], [0, 0]]
    assert made(["[1, 2]", "(3 4)"])[0].tolist() == [[1, 2], [3, 4]]
    assert made(pa.array(["x", "y"]).dictionary_encode())[0].tolist() == [[1, 0], [0, 1]]


def test_hashes_are_fixed() -> None:
    """Guards against a hash that another version or process gives otherwise: a model's weights would fit no more."""
    x, _ = made(["graph", "Graph neural-graph"], kind="hash", width=4)
    assert x.tolist() == [pytest.approx([0, 1, 0, 0]), pytest.approx([0, 0.8**0.5, 0, -(0.2**0.5)])]


@pytest.mark.parametrize(
    ("column", "how", "words"),
    [
        ([1.0, None], {}, r"row 1, column 'c': there is no number; give `fill: 0`"),
        ([1.0, float("nan")], {}, r"row 1, column 'c': there is no number"),
        (
            ["a", "1"],
            {},
            r"table: the column 'c' has numbers \('1'\) and words \('a'\); say `as: number` or `as: one-hot`",
        ),
        (["1,5", None, "2"], {}, r"column 'c' has numbers \('2'\) and words \('1,5'\)"),
        (["2", "1,5"], {}, r"row 1, column 'c': '1,5' is no number; `as: one-hot` reads words"),
        ([None, None], {}, "the column 'c' has no value in any row"),
        ([None, None], {"kind": "number", "fill": "mean"}, "has no number, so it has no mean"),
        ([[1.0], [2.0, 3.0]], {}, r"row 1, column 'c': the list has 2 values where others have 1"),
        ([[1.0], [None]], {}, r"row 1, column 'c': a value of the list is missing"),
        ([b"x"], {}, r"values of the type binary are no numbers"),
        ([*map(str, range(MOST_ONE_HOT + 1))], {"kind": "one-hot"}, "more than 1,000 different values; `as: hash`"),
    ],
)
def test_faults(column: list[Any], how: dict[str, Any], words: str) -> None:
    """Guards against values that become another number in silence."""
    for rows in (1000, 1):
        with pytest.raises(DatasetError, match=words):
            made(pa.array(column), rows=rows, **how)
