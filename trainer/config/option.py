"""The description of an option, written once: help, values and group, in the metadata of its field.

The command line (command_line.py), the keys of TOML files (config.py) and the table in docs/training-reference.md
(options_table.py) are all made of these.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

from trainer.base.errors import OptionError

_T = TypeVar("_T")
_KEY = "option"
"""Of a field's metadata."""
_MOST_WHOLE = 2**31 - 1
_LEAST, _MOST = 1e-30, 1e30
"""Larger numbers overflow fp32 in a product or two, and smaller ones become 0 there."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that an option accepts. Called with a text, as an argparse type, it gives the number."""

    words: str
    """`a whole number from 1 to 1000`."""
    kind: type[int] | type[float]
    accepts: Callable[[float], bool]

    def __call__(self, text: str) -> float:
        try:
            value = self.kind(text)
        except ValueError:
            value = math.nan
        if not self.accepts(value):
            shown = text if len(text) <= 40 else text[:37] + "..."
            raise argparse.ArgumentTypeError(f"expected {self.words}, not {shown!r}")
        return value


def whole(least: int, most: int = _MOST_WHOLE) -> Range:
    """Whole numbers from `least` to `most`."""
    end = f" to {most}" if most < _MOST_WHOLE else ""
    return Range(f"a whole number from {least}{end}", int, lambda value: least <= value <= most)


def number(least: float = _LEAST, most: float = _MOST, *, or_zero: bool = False) -> Range:
    """Numbers from `least` to `most`, and 0 if `or_zero`."""
    words = f"{'0, or a number' if or_zero else 'a number'} from {least:g} to {most:g}"
    return Range(words, float, lambda value: least <= value <= most or (or_zero and value == 0))


SHARE = Range("a share from 0 and below 1", float, lambda value: 0 <= value < 1)
PROBABILITY = Range("a share from 0 to 1", float, lambda value: 0 <= value <= 1)


def checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """An argparse type that gives the text itself, once `check` has raised no OptionError."""

    def convert(text: str) -> str:
        try:
            check(text)
        except OptionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return convert


@dataclass(frozen=True, slots=True)
class Group:
    """A section of `--help` and of the table. Called, it makes a field of a dataclass of options."""

    title: str
    decides_result: bool = True
    """Whether its options decide what is learnt, and so have to be the same on every rank."""
    may_change: bool = False
    """The default of its options' `may_change`."""

    def __call__(
        self,
        default: _T,
        help: str,
        metavar: str | None = None,
        convert: Callable[[str], object] | None = None,
        **details: Any,
    ) -> _T:
        """A field with a default; the rest are fields of `Option`."""
        return field(default=default, metadata=self.metadata(help, metavar=metavar, convert=convert, **details))

    def metadata(self, help: str, **details: Any) -> Mapping[str, Any]:
        """The metadata of a field; the arguments are fields of `Option`."""
        return {_KEY: Option(group=self, help=help, **{"may_change": self.may_change, **details})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. Its field gives what is above `name`; `options_of` adds the rest."""

    group: Group
    help: str
    """What it does, with the meaning of special values."""
    metavar: str | None = None
    """The word for its value in `--help`; None for switches, and where `choices` are all the words."""
    convert: Callable[[str], object] | None = None
    """An argparse type; None for any text."""
    may_change: bool = False
    """Whether a resumed run may have another value than the run that it resumes."""
    choices: tuple[str, ...] = ()
    default_words: str | None = None
    """What a default of None means."""
    model_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Other defaults, by model; the command line and TOML files have them."""
    models: tuple[str, ...] = ()
    """The models that have it; empty for all."""
    tasks: tuple[str, ...] = ()
    """The tasks that have it; empty for all."""
    short: tuple[str, ...] = ()
    """Its flag of one letter."""
    name: str = ""
    kind: type = str
    """int, float, str or bool, whether or not None is a value too."""
    default: Any = None
    """dataclasses.MISSING where it has to be given."""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def full_help(self) -> str:
        """The help, beginning with the models or tasks that have it where not all have."""
        have = ", ".join(self.models or self.tasks)
        return f"{have}: {self.help}" if have else self.help

    def default_for(self, model: str) -> Any:
        """The default where `model` is trained."""
        return self.model_defaults.get(model, self.default)

    @property
    def default_text(self) -> str | None:
        """The default as people read it; None where there is nothing to say."""
        text = self.default_words or (None if self.default in (None, MISSING) else str(self.default))
        others = [f"{model}: {value}" for model, value in self.model_defaults.items()]
        return "; ".join(filter(None, [text, *others])) or None


def options_of(options_class: type) -> Mapping[str, Option]:
    """The options of a dataclass whose fields are all made by groups: by name, in their order."""
    hints = get_type_hints(options_class)
    options = {}
    for one in fields(options_class):
        hint = hints[one.name]
        kind = next(iter(get_args(hint)), hint)
        options[one.name] = replace(one.metadata[_KEY], name=one.name, kind=kind, default=one.default)
    return MappingProxyType(options)
