"""The registry: what graphprep knows about each dataset, read from datasets.yaml and checked to the line.

An entry is everything that differs between two datasets of the same source: where the files are, how many bytes they
have, what to do with the edges, and the counts that must come out. A new dataset of a known source is an entry and no
code. Names are compared in lower case with `_` for `-`, since people write ogbn_arxiv and Cora.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from graphprep.errors import DatasetError, UnknownDatasetError
from graphprep.graph import Duplicates, SelfLoops, Treatment
from graphprep.home import NAME_PATTERN
from graphprep.sources import READERS
from graphprep.yaml_lines import FaultAt, nearest, validated

FILE_NAME = "datasets.yaml"
SCHEMES = ("https", "http", "file")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileEntry(_Entry):
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


class TreatmentEntry(_Entry):
    """What is done to the edges; see `graphprep.graph.Treatment`."""

    undirected: bool = False
    duplicates: Duplicates = "keep"
    self_loops: SelfLoops = "keep"


class SplitEntry(_Entry):
    """A seeded split; see `graphprep.split`."""

    train: PositiveInt = 20
    val: NonNegativeInt = 30
    seed: NonNegativeInt = 0


class Expected(_Entry):
    """The counts that a correct conversion has. Edges are directed and counted after the treatment."""

    nodes: PositiveInt
    edges: NonNegativeInt
    features: NonNegativeInt
    classes: NonNegativeInt
    train: NonNegativeInt
    val: NonNegativeInt
    test: NonNegativeInt

    def check(self, found: Mapping[str, int], *, dataset: str) -> None:
        """Compare what came out with what must.

        Args:
            found: counts by the names of this class's fields; those that are absent are not compared.
            dataset: its name, for the message.

        Raises:
            DatasetError: some differ; all of them are named.
        """
        wrong = [
            f"{found[name]:,} {name} instead of {count:,}"
            for name, count in self.model_dump().items()
            if found.get(name, count) != count
        ]
        if wrong:
            raise DatasetError(
                f"{dataset} came out with {', '.join(wrong)}: its files are not the ones that the registry describes; "
                "remove them and fetch again"
            )


class DatasetEntry(_Entry):
    """One dataset."""

    name: str = ""
    """the key it has in the registry"""
    title: str
    source: str
    """the name of the reader in graphprep.sources"""
    options: dict[str, Any] = Field(default_factory=dict)
    """the reader's own options; the reader checks them"""
    files: tuple[FileEntry, ...] = ()
    licence: str
    citation: str
    homepage: str
    treatment: TreatmentEntry = TreatmentEntry()
    split: SplitEntry | None = None
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


class Registry(_Entry):
    """The whole file."""

    datasets: dict[str, DatasetEntry]

    @model_validator(mode="after")
    def _canonical_names(self) -> Self:
        for name in self.datasets:
            if name != canonical(name) or not NAME_PATTERN.fullmatch(name):
                raise FaultAt("a name is lower case with '-' between its words", ("datasets", name))
        return self


def canonical(name: str) -> str:
    """The form in which names are compared: lower case, `-` for `_`."""
    return name.strip().lower().replace("_", "-")


def registry_path() -> Path:
    """datasets.yaml inside the installed package, or beside the package in a checkout.

    Raises:
        DatasetError: it is in neither place.
    """
    package = Path(__file__).parent
    for folder in (package, package.parent):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    raise DatasetError(
        f"{FILE_NAME} is missing from {package}: the installation is incomplete, install graphprep again"
    )


def load_registry(path: Path | None = None) -> dict[str, DatasetEntry]:
    """All entries by name, in the file's order.

    Args:
        path: another registry file than the package's own.

    Raises:
        DatasetError: the file cannot be read, or breaks a rule; the message names the line.
    """
    path = path or registry_path()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise DatasetError(f"{path} cannot be read as text: {problem}") from problem
    registry = validated(Registry, text, origin=str(path), error=DatasetError)
    return {name: found.model_copy(update={"name": name}) for name, found in registry.datasets.items()}


def entry(name: str, registry: Mapping[str, DatasetEntry] | None = None) -> DatasetEntry:
    """The entry called `name`, in whatever case, with `_` or `-`.

    Raises:
        UnknownDatasetError: there is none; the message names the ones that are close.
    """
    known = load_registry() if registry is None else registry
    found = known.get(canonical(name))
    if found is None:
        close = difflib.get_close_matches(canonical(name), known, n=3)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UnknownDatasetError(f"no dataset is called {name!r}: {hint}`graphprep list` shows all that are known")
    return found
