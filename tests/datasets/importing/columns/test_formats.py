"""The same tables in every format are the same graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.api.tables import import_tables
from tests.api.test_graphs import assert_same
from tests.datasets.importing.columns.bank import FORMATS, KINDS, SCHEMA, tables, written_as


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_stores_of_all_formats_are_equal(tmp_path: Path, seed: int) -> None:
    """Guards against types, missing values, orders or classes that depend on the format of a file."""
    people, moved = tables(seed)
    stores = [import_tables(written_as(format, tmp_path / format, people, moved)) for format in FORMATS]
    for store in stores[1:]:
        assert_same(stores[0], store)
        assert np.array_equal(stores[0].original_ids("account").array(), store.original_ids("account").array())  # type: ignore[union-attr]
        for fact in ("classes", "features", "edge_features", "edge_classes"):
            assert store.attributes["notes"][fact] == stores[0].attributes["notes"][fact]


def test_what_a_store_has(tmp_path: Path) -> None:
    """Guards against values in another row or column than their node, or edge, has in the table."""
    people, moved = tables(3)
    store = import_tables(written_as("csv", tmp_path / "csv", people, moved))
    loaded = store.loaded()
    nodes = loaded.nodes["account"]
    assert store.original_ids("account").array().tolist() == people["account"].tolist()  # type: ignore[union-attr]
    classes = store.attributes["source"]["classes"]["account"]
    assert classes == sorted(KINDS)
    assert [None if label < 0 else classes[label] for label in nodes["y"]] == people["kind"].tolist()
    for part in ("train", "val", "test"):
        assert nodes[f"{part}_mask"][:, 0].tolist() == (people["part"] == part).tolist()
    assert nodes["time"].tolist() == (people["since"].astype("int64") // 10**9).tolist()
    age = people["age"].to_numpy()
    income = people["income"].fillna(people["income"].mean()).to_numpy()
    cities = ["Bern", "Oslo", "Rome"]
    code = np.array([-1 if city is None else cities.index(city) for city in people["city"]])
    expected = np.column_stack(
        [
            (age - age.mean()) / age.std(),
            (income - income.min()) / (income.max() - income.min()),
            code[:, None] == np.arange(3),
            code,
            np.array(people["vector"].tolist()),
        ]
    )
    assert nodes["x"].dtype == np.float32
    assert np.allclose(nodes["x"][:, :9], expected, atol=1e-6)
    assert np.allclose(np.linalg.norm(nodes["x"][:, 9:], axis=1), 1)

    [(edge_type, edges)] = loaded.edges.items()
    arrays = loaded.edge_arrays[edge_type]
    ids = people["account"].to_numpy()
    assert edges.data is not None
    found = sorted(
        zip(
            ids[edges.indices],
            ids[np.repeat(np.arange(len(ids)), np.diff(edges.indptr))],
            edges.data,
            arrays["time"].tolist(),
            arrays["features"].tolist(),
            arrays["label"].tolist(),
            arrays["split"].tolist(),
            strict=True,
        )
    )
    amount = moved["amount"].to_numpy()
    features = np.column_stack(
        [(amount - amount.mean()) / amount.std()] + [moved["channel"] == word for word in ("app", "atm", "web")]
    )
    labels = [-1 if word is None else ["no", "yes"].index(word) for word in moved["disputed"]]
    wanted = sorted(
        zip(
            moved["payer"],
            moved["payee"],
            amount.astype(np.float32),
            moved["when"].tolist(),
            features.astype(np.float32).tolist(),
            labels,
            [{"old": 0, "new": 2}.get(stage, -1) for stage in moved["stage"]],
            strict=True,
        )
    )
    assert [row[:4] for row in found] == [row[:4] for row in wanted]
    assert np.allclose([row[4] for row in found], [row[4] for row in wanted], atol=1e-6)
    assert [row[5:] for row in found] == [row[5:] for row in wanted]
    assert SCHEMA["edges"][0]["features"]  # the fixture is shared and not changed


def test_one_table_is_one_store(tmp_path: Path) -> None:
    """Guards against a second run that reads everything again, and one that misses another column or other rows."""
    people, moved = tables(0)
    schema = written_as("memory", tmp_path / "none", people, moved)
    first = import_tables(schema, name="bank")
    assert import_tables(schema, name="bank").key == first.key
    schema["nodes"]["account"]["features"] = ["age"]
    other = import_tables(schema, name="bank", replace=True)
    assert other.key != first.key
    schema["edges"][0]["file"] = moved.assign(when=moved["when"] + 1)
    assert import_tables(schema, name="bank", replace=True).key != other.key
