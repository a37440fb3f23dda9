"""Forms of a pipeline's file from the dataclasses of its steps: what may be written under `import`, `generate` ...

A key is the name of a field, and has its type, limits, choices and default. Truth values are no numbers, and numbers no
texts, but where a column may be given by its number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    create_model,
)

from graphprep.system.options import Option, options_in
from graphprep.topology.units import Number

Column = Annotated[StrictStr, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""a column's name, or its number from 1"""


class Form(BaseModel):
    """Unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


def form_of(name: str, *requests: type, axes: bool = False) -> type[Form]:
    """The form of some dataclasses together.

    Args:
        name: of the form.
        requests: the dataclasses.
        axes: whether a key may have a list of values, each of which is then checked by the dataclass alone.
    """
    keys: dict[str, Any] = {}
    for option in (option for request in requests for option in options_in(request)):
        kind = _axis(_type_of(option)) if axes else _checked(option)
        default = ... if option.is_required else option.joined(option.default) if axes else option.default
        if hasattr(Form, option.name):  # a name that pydantic has a use for
            keys[f"{option.name}_"] = (kind, Field(default, alias=option.name))
        else:
            keys[option.name] = (kind, default)
    return create_model(name, __base__=Form, **keys)


def values_in(form: Form) -> dict[str, Any]:
    """What is written in a form, by the names of options."""
    return form.model_dump(by_alias=True, exclude_unset=True)


def _type_of(option: Option) -> Any:
    """The type of one value, or of one item of a tuple."""
    if option.or_number:
        return Column
    return {bool: StrictBool, int: StrictInt, float: Number, str: StrictStr, Path: StrictStr}[option.kind]


def _checked(option: Option) -> Any:
    """The type of a value, with its choices and limits."""
    kind: Any = Literal[tuple(option.choices)] if option.choices else _type_of(option)
    if option.limits:
        kind = Annotated[kind, Field(ge=option.at_least, gt=option.above, le=option.at_most)]
    if option.is_tuple and option.or_number:
        kind = Annotated[tuple[kind, ...], BeforeValidator(lambda value: value if isinstance(value, list) else [value])]
    elif option.is_tuple:
        kind = Annotated[list[kind], Field(min_length=int(option.is_required))]
    return kind | None if option.is_optional else kind


def _axis(value: Any) -> Any:
    """One value, or a list of them; the discriminator keeps the errors of a wrong value to one."""
    return Annotated[
        Annotated[value, Tag("one")] | Annotated[list[value], Tag("several"), Field(min_length=1)],
        Discriminator(lambda value: "several" if isinstance(value, list) else "one"),
    ]
