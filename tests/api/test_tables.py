"""Tables from Python: a schema's file or its content, tables in memory, and what cannot be one."""

from __future__ import annotations

import copy
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

import cli
import graphprep as gp
from graphprep.errors import DatasetError, UsageError
from tests.api.test_graphs import assert_same
from tests.datasets.importing.columns.bank import tables, with_tables, written_as


def test_a_file_its_content_and_the_command(tmp_path: Path) -> None:
    """Guards against a function that does other than the command, and a schema that is changed on the way."""
    schema = written_as("csv", tmp_path / "bank", *tables(0))
    (tmp_path / "bank.yaml").write_text(yaml.safe_dump(schema))
    before = copy.deepcopy(schema)
    store = gp.import_tables(schema, name="bank", seed=3)
    assert schema == before
    assert gp.import_tables(tmp_path / "bank.yaml", name="bank", seed=3).key == store.key
    command = ["import", "--schema", str(tmp_path / "bank.yaml"), "--name", "bank", "--seed", "3"]
    done = CliRunner().invoke(cli.main, command)
    assert done.exit_code == 0, done.output
    assert gp.open_store("bank").key == store.key
    with pytest.raises(DatasetError, match="was made from other files or options; give replace=True"):
        gp.import_tables(schema, name="bank", seed=4)


def test_tables_of_pandas_and_arrow_are_alike() -> None:
    """Guards against an index that becomes a column, and a table that only one library can give."""
    people, moved = tables(1)
    of_pandas = gp.import_tables(with_tables({"file": people.set_index(people.index + 5)}, {"file": moved}))
    arrow = [pa.Table.from_pandas(table, preserve_index=False) for table in (people, moved)]
    assert_same(of_pandas, gp.import_tables(with_tables({"file": arrow[0]}, {"file": arrow[1]})))


def test_what_is_no_table() -> None:
    """Guards against a traceback of Arrow's."""
    people, moved = tables(1)
    mixed = people.assign(age=["old", *people["age"][1:]])
    with pytest.raises(
        UsageError, match=r"nodes.account: Arrow cannot hold this table .*give columns of one type each"
    ):
        gp.import_tables(with_tables({"file": mixed}, {"file": moved}))
    twice = pd.concat([people, people[["age"]]], axis=1)
    with pytest.raises(UsageError, match=r"Duplicate column names found"):
        gp.import_tables(with_tables({"file": twice}, {"file": moved}))
    with pytest.raises(DatasetError, match=r"the schema: nodes.account.file must be a valid string, found a list of 1"):
        gp.import_tables(with_tables({"file": [1]}, {"file": moved}))
    with pytest.raises(DatasetError, match=r"the schema: unknown key 'tabels' \(did you mean 'tables'\?\)"):
        gp.import_tables({"tabels": {}})
