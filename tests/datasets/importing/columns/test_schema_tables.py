"""Tables with keys and foreign keys become a typed graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from graphprep.core.types import EdgeType
from graphprep.datasets.importing.schema import load_schema, schema_of
from graphprep.datasets.importing.user_files import read_files
from graphprep.errors import DatasetError
from tests.datasets.user_graphs import edges_of, written

SCHEMA = """
tables:
  customers: {file: customers.csv, key: customer_id, label: segment, split_column: part, features: [age]}
  products: {file: products.parquet, key: product_id}
  orders:
    file: orders.csv
    foreign_keys: {customer_id: customers, product: products}
    time_column: at
    features: [{column: price, normalise: minmax}]
"""


def write(folder: Path, orders: str) -> Path:
    written(folder / "customers.csv", "customer_id,age,segment,part\nc1,30,new,train\nc2,40,old,val\nc3,50,new,test\n")
    pd.DataFrame({"product_id": [10, 20]}).to_parquet(folder / "products.parquet")
    written(folder / "orders.csv", orders)
    return written(folder / "shop.yaml", SCHEMA)


def test_keys_and_foreign_keys(tmp_path: Path) -> None:
    """Guards against rows that are joined to others than their keys say, and null keys that become nodes."""
    orders = (
        "customer_id,product,price,at\nc2,20,5,2024-01-01\nc1,,7,2024-01-02\n,10.0,9,2024-01-03\nc2,10,5,2024-01-03\n"
    )
    raw = read_files(load_schema(write(tmp_path, orders)))
    assert {name: table.num_nodes for name, table in raw.nodes.items()} == {"customers": 3, "products": 2, "orders": 4}
    found = {table.type: edges_of(table) for table in raw.edges}
    assert found == {
        EdgeType("orders", "customer_id", "customers"): [(0, 1), (1, 0), (3, 1)],
        EdgeType("customers", "rev_customer_id", "orders"): [(1, 0), (0, 1), (1, 3)],
        EdgeType("orders", "product", "products"): [(0, 1), (2, 0), (3, 0)],
        EdgeType("products", "rev_product", "orders"): [(1, 0), (0, 2), (0, 3)],
    }
    assert raw.nodes["orders"].x.tolist() == [[0], [0.5], [1], [0]]  # type: ignore[union-attr]
    assert raw.nodes["orders"].more["time"].tolist() == [1704067200 + day * 86400 for day in (0, 1, 2, 2)]
    assert raw.notes["classes"] == {"customers": ["new", "old"]}
    lines = "\n".join(raw.notes["read_as"])  # type: ignore[arg-type]
    assert "orders__customer_id__customers from a row to column 'customer_id'; 1 rows have no 'customer_id'" in lines


def test_a_dangling_key(tmp_path: Path) -> None:
    """Guards against an edge to a row that is not there."""
    orders = "customer_id,product,price,at\nc2,20,5,1\nc1,30,7,2\n"
    with pytest.raises(
        DatasetError, match=r"orders.csv, line 3, column 'product': the node 30 has no row in .*products"
    ):
        read_files(load_schema(write(tmp_path, orders)))


def test_a_key_to_its_own_table() -> None:
    """Guards against a source that is the number of a row where rows have a key."""
    from graphprep.api.tables import import_tables

    staff = pd.DataFrame({"id": ["ann", "bob", "cy"], "boss": [None, "ann", "ann"]})
    store = import_tables({"tables": {"staff": {"file": staff, "key": "id", "foreign_keys": {"boss": "staff"}}}})
    matrix = store.loaded().edges[EdgeType("staff", "boss", "staff")]
    assert matrix.indptr.tolist() == [0, 2, 2, 2]
    assert matrix.indices.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"a": {"file": "a.csv", "key": "k", "foreign_keys": {"b": "aa"}}}, r"no table is called 'aa' \(did you mean"),
        ({"a": {"file": "a.csv", "foreign_keys": {"b": "a"}}}, "the table 'a' has no `key` that the column could have"),
        ({"a": {"key": "k"}}, "name its `file`, or a `database` and a `table`"),
        ({"a": {"file": "a.csv", "key": "k"}}, "or a table with foreign keys under `tables`"),
        ({"a b": {"file": "a.csv", "key": "k"}}, "the name 'a b' is not of letters"),
        (
            {"a": {"file": "a.csv", "key": "k", "foreign_keys": {"b c": "a", "b-c": "a"}}},
            "the edge type a__b-c__a is there twice",
        ),
    ],
)
def test_mistakes(tables: dict[str, Any], words: str) -> None:
    """Guards against keys that point nowhere."""
    with pytest.raises(DatasetError, match=words):
        schema_of({"tables": tables})
