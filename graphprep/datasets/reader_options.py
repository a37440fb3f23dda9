"""A reader's own options, from the registry's `options` into the reader's model."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from graphprep.errors import DatasetError
from graphprep.system.nearest import nearest
from graphprep.system.yaml_config import StrictModel

if TYPE_CHECKING:
    from graphprep.datasets.entry import DatasetEntry


class ReaderOptions(StrictModel):
    """Base of the readers' option models."""


O = TypeVar("O", bound=ReaderOptions)  # noqa: E741


def options_of(entry: DatasetEntry, model: type[O]) -> O:
    """The options of `entry` as the reader's `model`.

    Raises:
        DatasetError: an unknown option, or a wrong value.
    """
    try:
        return model.model_validate(entry.options)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = tuple(model.model_fields)
            hint = nearest(key, known) or f"; it knows {', '.join(known) or 'none'}"
            raise DatasetError(f"{entry.name}: the reader {entry.source} has no option {key!r}{hint}") from problem
        raise DatasetError(f"{entry.name}: the option {key!r} of {entry.source} is wrong: {first['msg']}") from problem
