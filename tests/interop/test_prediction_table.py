"""Tables of predictions call classes by their names where they have names."""

from __future__ import annotations

import numpy as np

from graphprep.interop.prediction_table import class_names, columns_of


def test_names_of_classes() -> None:
    """Guards against the name of another class, and names where numbers are predicted."""
    scores = np.array([[0.1, 0.9], [0.8, 0.2]], np.float32)
    table = columns_of(scores, None, "classes", ["no", "yes"])
    assert table["prediction"].tolist() == ["yes", "no"]
    assert np.array_equal(table["score_yes"], scores[:, 1])
    assert columns_of(np.array([1, 0]), None, "classes", ["no", "yes"])["prediction"].tolist() == ["yes", "no"]
    assert list(columns_of(scores, None, "regression", ["no", "yes"])) == ["id", "score_0", "score_1"]
    assert columns_of(scores, None, "classes")["prediction"].tolist() == [1, 0]


def test_where_names_are_kept() -> None:
    """Guards against the names of another node type."""
    assert class_names({"source": {"classes": {"a": ["x"]}}}, "a") == ["x"]
    assert class_names({"source": {"classes": {"a": ["x"]}}}, "b") is None
    assert class_names({"source": {"classes": ["x"]}}, "node") == ["x"]
    assert class_names({"source": {}}, "node") is None
