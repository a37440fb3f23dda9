"""Tables become stores: files and databases by a schema, or tables that are in memory already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from graphprep.api.call import library_call, work
from graphprep.api.graphs import UNNAMED
from graphprep.api.options import TableOptions
from graphprep.core.splits import SplitRule
from graphprep.datasets.importing.options import ImportOptions
from graphprep.errors import UsageError
from graphprep.store.store import GraphStore
from graphprep.system import progress
from graphprep.system.files.session_folder import new_folder
from graphprep.system.options import take_options

IN_MEMORY = ("__arrow_c_stream__", "__dataframe__")
"""what tables of pandas, Polars and Arrow have"""


@library_call(TableOptions, ImportOptions)
def import_tables(schema: str | Path | Mapping[str, Any], **options: Unpack[TableOptions]) -> GraphStore:
    """Convert tables of nodes and edges to a store, as `graphprep import --schema` does, or find that it is there.

    Args:
        schema: a YAML file, or its content as a dictionary: `nodes`, `edges`, `tables`, as docs/import.md describes
            them. There a `file` may also be a pandas.DataFrame or a pyarrow.Table, whose columns are read by their
            types (the index of a DataFrame is left out); names of files are relative to the working directory.

    Returns:
        The store `name` in GRAPHPREP_HOME or at `out`; without both one that is removed when Python ends. By node
        type: x float32 [N, F], y int64 [N] (-1 for none; words are classes, whose names the store keeps) or float
        [N, C], train_mask, val_mask and test_mask bool [N, 1], time int64 or float64 [N]. By edge type: weights
        float32 [E], time [E], features float32 [E, F], label int64 [E] or float [E, 1].

    Raises:
        DatasetError: with its place, a value does not fit; or the schema is wrong, or another store lies there.
        UsageError: options do not go together, or a package is missing.
    """
    from graphprep.datasets.importing.import_request import request_of
    from graphprep.datasets.importing.schema import schema_of
    from pipelines.ingest import import_files

    values: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    name, out = values.pop("name", None), values.pop("out", None)
    if isinstance(schema, Mapping):
        of_split = take_options(ImportOptions, values)
        request = schema_of(_with_files(schema), SplitRule(seed=of_split.seed, splits=of_split.splits))
    else:
        request = request_of(take_options(ImportOptions, {**values, "schema": Path(schema)}))
    for option in ("seed", "splits"):
        values.pop(option, None)
    if name is None and out is None:
        out = new_folder() / f"{UNNAMED}.zarr"
        progress.say(f"no name was given: {out} is removed when Python ends; name= keeps it")
    name = name or Path(str(out)).name.removesuffix(".zarr")
    with work(values) as (limit, executor):
        return import_files(request, name=name, out=out, memory_limit=limit, executor=executor, **values).store


def _with_files(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with an Arrow file in place of each table that is in memory."""
    return {section: _section(value, str(section)) for section, value in schema.items()}


def _section(value: Any, called: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _section(below, called if key == "file" else f"{called}.{key}") for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_section(below, f"{called}.{position}") for position, below in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    return _written(value, called) if any(hasattr(value, method) for method in IN_MEMORY) else value


def _written(table: Any, called: str) -> str:
    """A table in an Arrow file of its own.

    Raises:
        UsageError: a column has values of several types, or the name of another.
    """
    import pyarrow as pa

    try:
        made = pa.Table.from_pandas(table, preserve_index=False) if hasattr(table, "iloc") else pa.table(table)
    except (ValueError, TypeError, NotImplementedError) as problem:  # Arrow's errors are these
        words = " ".join(str(problem).split())
        raise UsageError(
            f"{called}: Arrow cannot hold this table ({words}); give columns of one type each, with a name each"
        ) from problem
    made = made.replace_schema_metadata(
        None
    )  # pandas' versions are in it, and the file's checksum is in the store's key
    path = new_folder() / f"{called.replace('/', '-')}.arrow"
    with pa.ipc.new_file(str(path), made.schema) as file:
        file.write_table(made)
    return str(path)
