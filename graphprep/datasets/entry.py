"""A dataset's entry in datasets.yaml: every key with its type and its limits.

An entry is everything that differs between two datasets of the same source: where the files are, how many bytes they
have, what to do with the edges, and the counts that must come out. A new dataset of a known source is an entry and no
code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveInt,
    Tag,
    field_validator,
    model_validator,
)

from graphprep.core.choices import Duplicates, SelfLoops
from graphprep.core.splits import SplitRule
from graphprep.core.types import Treatment
from graphprep.datasets.readers import READERS
from graphprep.errors import DatasetError
from graphprep.system.home import NAME_PATTERN
from graphprep.system.nearest import nearest
from graphprep.system.yaml_config import FaultAt, StrictModel

SCHEMES = ("https", "http", "file")
Counted = int | Mapping[str, int]
"""a number, or numbers by type"""


class FileEntry(StrictModel):
    """One file to download."""

    url: str
    name: str = ""
    """the file's name in raw/NAME/; the last part of the URL where it is not given"""
    bytes: NonNegativeInt | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")

    @property
    def file_name(self) -> str:
        return self.name or unquote(PurePosixPath(urlsplit(self.url).path).name)

    @model_validator(mode="after")
    def _plain_name(self) -> Self:
        if urlsplit(self.url).scheme not in SCHEMES:
            raise FaultAt(f"a URL begins with one of {', '.join(SCHEMES)}", ("url",))
        if not NAME_PATTERN.fullmatch(self.file_name):
            raise FaultAt(f"{self.file_name!r} is no plain file name; give one as `name`", ("name",))
        return self


class TreatmentEntry(StrictModel):
    """What is done to the edges; see `graphprep.core.types.Treatment`."""

    undirected: bool = False
    duplicates: Duplicates = "keep"
    self_loops: SelfLoops = "keep"


def _kind_of(value: object) -> str:
    return "by type" if isinstance(value, Mapping) else "number"


def _count(number: Any) -> Any:
    """One number, or one for each type; the discriminator keeps the errors of a wrong number to one."""
    return Annotated[
        Annotated[number, Tag("number")] | Annotated[dict[str, number], Tag("by type"), Field(min_length=1)],
        Discriminator(_kind_of),
    ]


if TYPE_CHECKING:  # what the two are once they have been checked
    Count = int | dict[str, int]
    Size = Count
else:
    Count, Size = _count(NonNegativeInt), _count(PositiveInt)


class Expected(StrictModel):
    """The counts that a correct conversion has; edges are directed and counted after the treatment.

    A count is one number, or a mapping from node types (for edges: from edge types, author__writes__paper) to numbers
    where there are several. What is not known beforehand is left out, and then not compared.
    """

    nodes: Size | None = None
    edges: Count | None = None
    features: Count | None = None
    classes: Count | None = None
    train: Count | None = None
    """nodes of the first split, as are the two below"""
    val: Count | None = None
    test: Count | None = None

    def total(self, name: str) -> int | None:
        """The count called `name` over all types (of features and classes the largest), None where it is not known."""
        count: Count | None = getattr(self, name)
        if not isinstance(count, Mapping):
            return count
        return max(count.values()) if name in ("features", "classes") else sum(count.values())

    @property
    def feature_values(self) -> int:
        """Nodes times features, over all types; 0 where the features are not known."""
        if isinstance(self.features, Mapping) and isinstance(self.nodes, Mapping):
            return sum(self.nodes.get(kind, 0) * width for kind, width in self.features.items())
        return (self.total("nodes") or 0) * (self.total("features") or 0)

    def check(self, counts: Mapping[str, Counted], *, dataset: str) -> None:
        """Compare what came out with what must.

        Args:
            counts: by the names of this class's fields, a number or numbers by type; those that are absent are not
                compared, and numbers by type are added up where one number is expected.
            dataset: its name, for the message.

        Raises:
            DatasetError: some differ; all of them are named.
        """
        wrong = [
            f"{came or 0:,} {name}{f' of type {kind}' if kind else ''} instead of {count:,}"
            for name, expected in self.model_dump(exclude_none=True).items()
            if name in counts
            for kind, came, count in _side_by_side(counts[name], expected)
            if came != count
        ]
        if wrong:
            raise DatasetError(
                f"{dataset} came out with {', '.join(wrong)}: its files are not the ones that the registry describes; "
                "remove them and fetch again"
            )


def _side_by_side(actual: Counted, expected: Counted) -> Iterator[tuple[str, int | None, int]]:
    """(type or nothing, what came, what must come) for each number that is expected."""
    if isinstance(expected, Mapping):
        by_type = actual if isinstance(actual, Mapping) else {"": actual}
        for kind, count in expected.items():
            yield kind, by_type.get(kind), count
        for kind in by_type.keys() - expected.keys():
            yield kind, by_type[kind], 0
    else:
        yield "", sum(actual.values()) if isinstance(actual, Mapping) else actual, expected


class DatasetEntry(StrictModel):
    """One dataset."""

    name: str = ""
    """the key it has in the registry"""
    title: str
    aliases: tuple[str, ...] = ()
    """other names that find it; names of their own come first"""
    source: str
    """the name of the reader in graphprep.datasets.readers"""
    options: dict[str, Any] = Field(default_factory=dict)
    """the reader's own options; the reader checks them"""
    files: tuple[FileEntry, ...] = ()
    licence: str
    citation: str
    homepage: str
    treatment: TreatmentEntry = TreatmentEntry()
    split: SplitRule | None = None
    protocol: Literal["transductive", "inductive"] = "transductive"
    """inductive: while it trains, a model may see only the training nodes and the edges between them"""
    expected: Expected

    @property
    def edge_treatment(self) -> Treatment:
        return Treatment(**self.treatment.model_dump())

    @property
    def num_bytes(self) -> int | None:
        """The size of all files together, None where one is not known."""
        sizes = [file.bytes for file in self.files]
        return sum(size for size in sizes if size is not None) if None not in sizes else None

    @field_validator("source")
    @classmethod
    def _known_source(cls, source: str) -> str:
        if source not in READERS:
            raise ValueError(f"{source!r} is no reader{nearest(source, READERS)}; there are {', '.join(READERS)}")
        return source

    @model_validator(mode="after")
    def _distinct_files(self) -> Self:
        names: set[str] = set()
        for position, file in enumerate(self.files):
            if file.file_name in names:
                raise FaultAt(f"a second file is called {file.file_name!r}", ("files", position, "url"))
            names.add(file.file_name)
        return self


def canonical(name: str) -> str:
    """The form in which names are compared: lower case, `-` for `_`."""
    return name.strip().lower().replace("_", "-")
