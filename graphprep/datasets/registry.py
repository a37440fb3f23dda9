"""The registry: the entries of datasets.yaml and of OGB's table by name, checked to the line.

Names are compared in lower case with `-` for `_`, since people write ogbn_arxiv and Cora.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from graphprep.datasets.entry import DatasetEntry, canonical
from graphprep.errors import DatasetError, UnknownDatasetError
from graphprep.system.files.regular_file import regular_file
from graphprep.system.home import NAME_PATTERN
from graphprep.system.yaml_config import FaultAt, StrictModel, validated

FILE_NAME = "datasets.yaml"


class Registry(StrictModel):
    """The whole file."""

    datasets: dict[str, DatasetEntry]
    aliases: dict[str, str] = Field(default_factory=dict)
    """further names of datasets that another table than this file lists"""

    @model_validator(mode="after")
    def _canonical_names(self) -> Self:
        for name in self.datasets:
            if name != canonical(name) or not NAME_PATTERN.fullmatch(name):
                raise FaultAt("a name is lower case with '-' between its words", ("datasets", name))
        return self

    @model_validator(mode="after")
    def _distinct_aliases(self) -> Self:
        owners = {name: name for name in self.datasets}
        for name, dataset in self.datasets.items():
            for alias in dataset.aliases:
                if alias != canonical(alias):
                    raise FaultAt("an alias is lower case with '-' between its words", ("datasets", name, "aliases"))
                if (owner := owners.setdefault(alias, name)) != name:
                    raise FaultAt(f"{alias!r} already means {owner}", ("datasets", name, "aliases"))
        return self


def registry_path() -> Path:
    """datasets.yaml inside the installed package, or beside the package in a checkout.

    Raises:
        DatasetError: it is in neither place.
    """
    package = Path(__file__).parents[1]
    for folder in (package, package.parent):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    raise DatasetError(
        f"{FILE_NAME} is missing from {package}: the installation is incomplete, install graphprep again"
    )


def load_registry(path: Path | None = None) -> dict[str, DatasetEntry]:
    """All entries by name, in the file's order, then those of OGB's own table that the file does not name.

    Args:
        path: another registry file than the package's own; OGB's table is not read then.

    Raises:
        DatasetError: the file cannot be read, or breaks a rule; the message names the line.
    """
    listed: dict[str, DatasetEntry] = {}
    is_own = path is None
    if path is None:
        from graphprep.datasets import ogb_table

        path, listed = registry_path(), ogb_table.entries()
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise DatasetError(f"{path} cannot be read as text: {problem}") from problem
    registry = validated(Registry, text, origin=str(path), error=DatasetError, by_libyaml=is_own)
    named = {name: dataset.model_copy(update={"name": name}) for name, dataset in registry.datasets.items()}
    known = named | {name: dataset for name, dataset in listed.items() if name not in named}
    for alias, name in registry.aliases.items():
        if name in known:
            known[name] = known[name].model_copy(update={"aliases": (*known[name].aliases, alias)})
    return known


def entry(name: str, registry: Mapping[str, DatasetEntry] | None = None) -> DatasetEntry:
    """The entry called `name`, or that has it as an alias, in whatever case, with `_` or `-`.

    Raises:
        UnknownDatasetError: there is none; the message names the ones that are close.
    """
    known = load_registry() if registry is None else registry
    owners = {alias: dataset for dataset in known.values() for alias in dataset.aliases}
    dataset = known.get(canonical(name)) or owners.get(canonical(name))
    if dataset is None:
        close = difflib.get_close_matches(canonical(name), [*known, *owners], n=3)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UnknownDatasetError(f"no dataset is called {name!r}: {hint}`graphprep list` shows all that are known")
    return dataset
