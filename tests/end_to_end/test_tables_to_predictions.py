"""From messy tables to predictions by the ids of the tables: features of edges, names of classes, splits, times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import graphprep as gp
from graphprep.cache.rebuild import rebuild_edge_arrays, rebuild_rows
from tests.datasets.importing.columns.bank import KINDS, tables, written_as


@pytest.mark.slow
def test_the_whole_way(tmp_path: Path) -> None:
    """Guards against predictions beside another node's id, classes by another's name, and lost features of edges."""
    people, moved = tables(5, accounts=60, transfers=300)
    store = gp.import_tables(written_as("sqlite", tmp_path / "bank", people, moved), name="bank")
    cache = gp.partition(store, parts=2)
    (edge_type,) = store.num_edges
    of_cache = rebuild_edge_arrays(cache, edge_type)
    for name, array in store.loaded().edge_arrays[edge_type].items():
        np.testing.assert_array_equal(of_cache[name], array)
    np.testing.assert_array_equal(rebuild_rows(cache, "account", "time"), store.node_array("account", "time")[:])  # type: ignore[index]

    run = gp.train(cache, model="gatv2", edge_features="features", epochs=60, seed=1)
    table = run.prediction_table()
    assert table["id"].tolist() == people["account"].tolist()
    classes = sorted(KINDS)
    assert list(table) == ["id", "prediction", *(f"score_{name}" for name in classes)]
    assert table["prediction"].tolist() == [classes[best] for best in run.predictions().argmax(axis=1)]
    train = (people["part"] == "train").to_numpy()
    assert (table["prediction"] == people["kind"])[train].mean() > 0.9
    run.write_predictions(tmp_path / "predictions.csv")
    assert pd.read_csv(tmp_path / "predictions.csv")["prediction"].tolist() == table["prediction"].tolist()
