"""Edges from Parquet, one batch of rows after the other.

Columns are found by their names (`edge_columns`), else the first two are the ends; an index without a name that pandas
has kept as a column is none of them. Columns of integers are ids; columns
of text are words, dictionary-encoded or not, unless ids were said to be numbers. A row without a value is an error: it
would be no edge. Times may be integers, floats or timestamps, which become integers in the unit of the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.datasets.formats.pandas_index import INDEX_PREFIX, pandas_index
from graphprep.datasets.importing.edges.edge_arrays import node_ids, times, weights
from graphprep.datasets.importing.edges.edge_columns import Roles, roles
from graphprep.datasets.importing.edges.edge_file import EdgeFile, EdgeOptions, EdgeRows, FileRange, Words
from graphprep.datasets.importing.table_files import reading
from graphprep.errors import DatasetError, UsageError

BATCH_ROWS = 1 << 20
ROWS_A_SECTION = 1 << 22


class ParquetEdges(EdgeFile):
    """One file."""

    def __init__(self, path: Path, options: EdgeOptions) -> None:
        """Read the schema.

        Raises:
            DatasetError: it is no Parquet file, or has no columns for what is wanted.
        """
        import pyarrow.parquet as pq

        self.path, self.options = path, options
        with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            self._index = tuple(name for name in pandas_index(schema) if name.startswith(INDEX_PREFIX))
            self._roles = self._find_roles(schema)
            self._check_types(schema)
        used = self._roles.used()
        self._names = [schema.names[position] for position in used]
        self.ignored = tuple(f"column {name!r}" for position, name in enumerate(schema.names) if position not in used)

    def read_as(self) -> str:
        roles = (
            "sources",
            "destinations",
            *(name for name in ("weights", "times") if getattr(self._roles, name[:-1]) is not None),
        )
        words = [f"{what} from column {name!r}" for what, name in zip(roles, self._names, strict=True)]
        words += [f"column {name!r} is the index that pandas keeps" for name in self._index]
        return ", ".join(["Parquet", *words])

    def rows(self) -> Iterator[EdgeRows]:
        """The edges in the file's order.

        Raises:
            DatasetError: a row without a value; a damaged file.
        """
        yield from self._rows(None)

    def sections(self) -> Sequence[FileRange]:
        """Groups of rows, some together; none where ids are words."""
        import pyarrow.parquet as pq

        with reading(self.path), pq.ParquetFile(self.path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            if any(_is_text(schema.field(end).type) for end in (self._roles.src, self._roles.dst)):
                return []
            rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        sections: list[FileRange] = []
        first = count = 0
        for group, more in enumerate(rows, 1):
            count += more
            if count >= ROWS_A_SECTION or group == len(rows):
                sections.append((first, group))
                first, count = group, 0
        return sections

    def rows_of(self, section: FileRange) -> Iterator[EdgeRows]:
        """One of them; see `rows`."""
        return self._rows(range(*section))

    def _rows(self, groups: range | None) -> Iterator[EdgeRows]:
        import pyarrow.parquet as pq

        with reading(self.path), pq.ParquetFile(self.path, page_checksum_verification=True) as file:
            before = range(groups.start) if groups else ()
            start = sum(file.metadata.row_group(group).num_rows for group in before)
            for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, columns=self._names):
                if batch.num_rows:
                    yield self._run(batch, start)
                start += batch.num_rows

    def _find_roles(self, schema: Any) -> Roles:
        names = list(schema.names)
        if len(set(names)) != len(names):
            raise DatasetError(f"two of its columns have one name: {', '.join(names)}")
        try:
            column_roles = roles(
                names,
                len(names),
                weights=self.options.weights,
                times=self.options.times,
                requested=self.options.columns,
                no_ends=[names.index(name) for name in self._index],
            )
        except KeyError as problem:
            raise UsageError(f"{self.path}: {problem.args[0]}") from problem
        if column_roles is None:
            columns = "two columns of ids" + ", weights" * self.options.weights + ", times" * self.options.times
            raise DatasetError(
                f"its columns are {', '.join(names) or 'none'}, among which {columns} cannot be told; name them src, "
                "dst, weight, time, or say which they are (--source, --target, --weight, --time)"
            )
        return column_roles

    def _check_types(self, schema: Any) -> None:
        import pyarrow as pa

        for end in (self._roles.src, self._roles.dst):
            field = schema.field(end)
            words = _is_text(field.type)
            if words and self.options.ids == "numbers":
                raise DatasetError(f"column {field.name!r} holds words, but ids were said to be numbers (--ids)")
            if not words and (self.options.ids == "words" or not pa.types.is_integer(field.type)):
                kinds = "words" if self.options.ids == "words" else "integers or words"
                raise DatasetError(f"column {field.name!r} is of {field.type}, but node ids are {kinds}")
        for position, what in ((self._roles.weight, "weights"), (self._roles.time, "times")):
            if position is None:
                continue
            field = schema.field(position)
            fine = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            if not fine and not (what == "times" and pa.types.is_timestamp(field.type)):
                raise DatasetError(f"column {field.name!r} is of {field.type}, which cannot be {what}")

    def _run(self, batch: Any, start: int) -> EdgeRows:
        import pyarrow as pa

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, column in columns.items():
            if column.null_count:
                odd = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise DatasetError(f"row {start + odd:,} has no value in the column {name!r}")
        src, dst, *rest = (columns[name] for name in self._names)
        values: dict[str, NDArray[Any]] = {}
        for role in ("weight", "time"):
            if getattr(self._roles, role) is None:
                continue
            column = rest.pop(0)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())
            array = column.to_numpy(zero_copy_only=False)
            values[role] = weights(array, start) if role == "weight" else times(array, start)
        return EdgeRows(self._ids(src, start), self._ids(dst, start), **values)

    def _ids(self, column: Any, start: int) -> NDArray[np.int64] | Words:
        import pyarrow as pa

        if not _is_text(column.type):
            return node_ids(column.to_numpy(zero_copy_only=False), start)
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        words = coded.dictionary.to_pylist()
        if None in words or "" in words:
            raise DatasetError(f"a row from {start:,} on has an empty node id")
        return Words(coded.indices.to_numpy(zero_copy_only=False), words)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
