"""Options of a step, each declared once: a keyword-only dataclass whose fields carry help, choices and limits.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionRequest:
        seed: int = option(0, "Seed of all random numbers.", at_least=0, at_most=2**31 - 1)

The options of a command (`pipelines/commands/options/from_dataclass.py`), the keys of a pipeline's file
(`pipelines/run/forms.py`) and the tables of docs/ (`docs/option_tables.py`) are derived from such a class. It calls
`check_options` in `__post_init__`, so that a wrong value is refused with the same sentence wherever it comes from.

`graphprep --help` imports all of these classes: nothing here or in their modules imports a heavy package.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from graphprep.errors import UsageError
from graphprep.system.nearest import nearest

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One field of a dataclass, with all that its forms on the command line, in YAML and in docs/ need."""

    name: str
    kind: type
    """int, float, str, bool or Path: of the value, or of the items of a tuple"""
    is_tuple: bool
    is_optional: bool
    """whether it may be None"""
    default: Any
    """MISSING if there is none"""
    text: str
    """the help: a sentence or two, with the unit and the meaning of special values"""
    metavar: str | None = None
    """what stands for the value in the help of a command; None: its type"""
    default_words: str | None = None
    """what the help shows in place of a default that a command or file decides by other options"""
    choices: Mapping[str, str] = field(default_factory=dict)
    """the values of a text, each with a remark, which may be empty; none: any value. Those of a Literal are known"""
    at_least: float | None = None
    above: float | None = None
    """a lower limit that is not allowed itself; there is an upper one too"""
    at_most: float | None = None
    separator: str | None = None
    """of a tuple: what stands between its items in one text; None: the option may be given again"""
    example: str | None = None
    """a text with separators, for the error of a wrong one"""
    or_number: bool = False
    """of a text: whether a whole number in YAML is meant too, as the number of a column"""
    names: Mapping[str, int] = field(default_factory=dict)
    """of a tuple of numbers: words that stand for some of them"""
    word: str | None = None
    """what the command line calls it, where that is a word that Python does not let a name be"""
    is_argument: bool = False
    """of a tuple: whether the command takes it by position, without a name"""

    @property
    def flag(self) -> str:
        """What the command line calls it."""
        return f"--{(self.word or self.name).replace('_', '-')}"

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def help(self) -> str:
        """The help, with those choices that have remarks."""
        if not any(self.choices.values()):
            return self.text
        listed = ", ".join(f"{name} ({remark})" if remark else name for name, remark in self.choices.items())
        return f"{self.text.rstrip('.')}: {listed}."

    @property
    def limits(self) -> str:
        """The limits of a number as the end of a sentence; empty if there are none."""
        if self.above is not None:
            return f"above {self.above:.15g} and at most {self.at_most:.15g}, e.g. {self.default}"
        if self.at_least is None:
            return ""
        return f"at least {self.at_least}" if self.at_most is None else f"from {self.at_least} to {self.at_most}"

    def check(self, value: Any) -> None:
        """Raises:
        UsageError: the value is none of the choices, beyond the limits or not finite.
        """
        if self.is_tuple and self.kind is int and value is not None and self.at_least is not None:
            for number in value:
                if number < self.at_least:
                    raise UsageError(f"{self.flag} {self.joined(value)}: {number} must be {self.limits}")
        if value is None or self.is_tuple:
            return
        if self.choices and value not in self.choices:
            known = ", ".join(self.choices)
            raise UsageError(f"{self.flag} {value!r} is unknown{nearest(value, self.choices)}; use one of {known}")
        if self.kind not in (int, float):
            return
        shown = f"{self.flag} {value:.12g}" if isinstance(value, float) else f"{self.flag} {value}"
        is_low = value < self.at_least if self.at_least is not None else self.above is not None and value <= self.above
        if math.isnan(value) or is_low or (self.at_most is not None and value > self.at_most):
            raise UsageError(f"{shown} must be {self.limits or 'a finite number'}")
        if math.isinf(value):
            raise UsageError(f"{shown} must be a finite number")

    def parsed(self, value: Any) -> Any:
        """The items of a tuple that is written as one text; any other value as it is.

        Raises:
            UsageError: an item is no whole number.
        """
        if self.separator is None or not isinstance(value, str):
            return tuple(value) if self.is_tuple and value is not None else value
        words = [word.strip() for word in value.split(self.separator)]
        if self.kind is not int:
            return tuple(words)
        words = [str(self.names.get(word, word)) for word in words]
        first = slice(1, None) if self.at_least is not None and self.at_least < 0 else slice(None)
        if not all(word.isascii() and (word[first] if word[:1] == "-" else word).isdecimal() for word in words):
            between = "commas" if self.separator == "," else self.separator
            raise UsageError(
                f"{self.flag} {value!r} must be whole numbers with {between} between them, e.g. {self.example}"
            )
        return tuple(map(int, words))

    def joined(self, value: Any) -> Any:
        """The inverse of `parsed`."""
        return value if self.separator is None or value is None else self.separator.join(map(str, value))


def option(default: T, text: str, **settings: Any) -> T:
    """A field of a dataclass that is an option; `settings` are further fields of `Option`."""
    made: T = field(default=default, metadata={"text": text, **settings})
    return made


def required(text: str, **settings: Any) -> Any:
    """An option without a default."""
    return field(metadata={"text": text, **settings})


@functools.cache
def options_in(request: Callable[..., Any]) -> tuple[Option, ...]:
    """The fields of a dataclass that are options, its own before those of its base class."""
    own, hints = inspect.get_annotations(request), get_type_hints(request)
    declared = [each for each in fields(request) if each.metadata]  # type: ignore[arg-type]
    found = []
    for each in sorted(declared, key=lambda each: each.name not in own):
        kind = hints[each.name]
        is_union = get_origin(kind) in (Union, types.UnionType)
        kind = next(part for part in get_args(kind) if part is not type(None)) if is_union else kind
        is_tuple = get_origin(kind) is tuple
        settings: dict[str, Any] = dict(each.metadata)
        if get_origin(kind) is Literal:
            settings.setdefault("choices", dict.fromkeys(get_args(kind), ""))
        found.append(
            Option(
                name=each.name,
                kind=str if get_origin(kind) is Literal else get_args(kind)[0] if is_tuple else kind,
                is_tuple=is_tuple,
                is_optional=is_union,
                default=each.default,
                **settings,
            )
        )
    return tuple(found)


def check_options(request: Any) -> None:
    """Check all options of a dataclass.

    Raises:
        UsageError: a value is none of its choices, beyond its limits or not finite.
    """
    kind: Callable[..., Any] = type(request)
    for each in options_in(kind):
        each.check(getattr(request, each.name))


def take_options(request: Callable[..., T], values: MutableMapping[str, Any], **others: Any) -> T:
    """Make a request of those of the values that are its options, and remove these.

    Args:
        request: the dataclass.
        values: by name; a tuple with a separator may be one text.
        others: fields that are no options.

    Raises:
        UsageError: a value is wrong.
    """
    known = [each for each in options_in(request) if each.name in values]
    return request(**{each.name: each.parsed(values.pop(each.name)) for each in known}, **others)
