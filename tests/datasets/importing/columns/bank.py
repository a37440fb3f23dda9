"""A small messy set of tables: accounts and transfers, with words for ids and labels, and a schema that reads them."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import feather

KINDS = np.array(["retail, small", "business", "fraud"])
SCHEMA: dict[str, Any] = {
    "nodes": {
        "account": {
            "id_column": "account",
            "label": "kind",
            "split_column": "part",
            "time_column": "since",
            "features": [
                {"column": "age", "normalise": "standard"},
                {"column": "income", "fill": "mean", "normalise": "minmax"},
                "city",
                {"column": "city", "as": "codes"},
                "vector",
                {"column": "about", "as": "hash", "width": 8},
            ],
        }
    },
    "edges": [
        {
            **{"source": "account", "relation": "pays", "destination": "account"},
            **{"source_column": "payer", "target_column": "payee", "weight_column": "amount", "time_column": "when"},
            **{"label": "disputed", "features": [{"column": "amount", "normalise": "standard"}, "channel"]},
        }
    ],
}
FORMATS = ("csv", "csv.gz", "tsv", "parquet", "arrow", "folder", "sqlite", "memory")


def tables(seed: int, accounts: int = 40, transfers: int = 160) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Accounts and transfers of one seed."""
    rng = np.random.default_rng(seed)
    ids = np.array([f"acc-{number:03d}" for number in rng.permutation(accounts)])
    kind = rng.integers(0, 3, accounts)
    unknown = rng.random(accounts) < 0.1
    people = pd.DataFrame(
        {
            "account": ids,
            "kind": np.where(unknown, None, KINDS[kind]),
            "part": np.where(unknown, None, rng.choice(["train", "val", "test"], accounts)),
            "age": rng.normal(40, 10, accounts).round(2) + 5 * kind,
            "income": [None if rng.random() < 0.1 else float(value) for value in rng.integers(1000, 9999, accounts)],
            "city": [None if rng.random() < 0.1 else word for word in rng.choice(["Rome", "Oslo", "Bern"], accounts)],
            "about": [" ".join(rng.choice(["loan", "cash", "Tax-free", "née"], 3)) for _ in range(accounts)],
            "since": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, accounts), "D"),
            "vector": [[float(value) for value in rng.integers(-8, 8, 3) / 4 + group] for group in kind],
        }
    )
    moved = pd.DataFrame(
        {
            "payer": rng.choice(ids, transfers),
            "payee": rng.choice(ids, transfers),
            "amount": rng.gamma(2, 50, transfers).round(2),
            "when": rng.integers(0, 10**6, transfers),
            "channel": rng.choice(["web", "atm", "app"], transfers),
            "disputed": [None if rng.random() < 0.5 else word for word in rng.choice(["no", "yes"], transfers)],
            "remark": "-",
        }
    )
    return people, moved


def with_tables(people: Any, moved: Any) -> dict[str, Any]:
    """The schema with these two tables, each a mapping of the keys that say where it lies."""
    [edges] = SCHEMA["edges"]
    return {"nodes": {"account": SCHEMA["nodes"]["account"] | people}, "edges": [edges | moved]}


def written_as(format: str, folder: Path, people: pd.DataFrame, moved: pd.DataFrame) -> dict[str, Any]:
    """The tables in files of one format, and their schema."""
    folder.mkdir()
    if format == "memory":
        return with_tables({"file": people}, {"file": moved})
    if format == "sqlite":
        with closing(sqlite3.connect(folder / "bank.db")) as connection:
            people.assign(vector=people["vector"].map(str)).to_sql("people", connection, index=False)
            moved.to_sql("moved", connection, index=False)
        where = {"database": str(folder / "bank.db")}
        return with_tables(where | {"table": "people"}, where | {"query": "SELECT * FROM moved;"})
    paths = [folder / f"{name}.{format}" for name in ("people", "moved")]
    if format == "folder":  # several files, of two formats
        paths = [folder / "people.parquet", folder / "moved"]
        people.to_parquet(paths[0])
        paths[1].mkdir()
        for number, start in enumerate(range(0, len(moved), 60)):
            some = moved[start : start + 60]
            if number % 2:
                some.to_csv(paths[1] / f"part-{number}.csv", index=False)
            else:
                some.to_parquet(paths[1] / f"part-{number}.parquet", index=False)
        (paths[1] / "_SUCCESS").write_text("")
    for path, table in zip(paths, (people, moved), strict=True):
        match format:
            case "csv" | "tsv" | "csv.gz":
                text = table.to_csv(index=False, sep="\t" if format == "tsv" else ",").encode()
                path.write_bytes(gzip.compress(text) if format == "csv.gz" else text)
            case "parquet":
                table.to_parquet(path)
            case "arrow":
                feather.write_feather(table, path)
    return with_tables({"file": str(paths[0])}, {"file": str(paths[1])})
