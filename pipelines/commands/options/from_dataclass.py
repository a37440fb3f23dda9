"""Options of a command from a dataclass of `graphprep.system.options`, whose fields have their help and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from graphprep.system.options import Option, options_in
from pipelines.commands.common import PATH, Command


def options_of(request: type, *names: str, **changes: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Give a command the options of a dataclass; `take_options` makes one of what it is called with.

    Args:
        request: the dataclass.
        names: of the options that it gets; none for all.
        changes: what is another here, by the option's name: parameters of `click.option`.
    """

    def decorate(command: Command) -> Command:
        for option in reversed(options_in(request)):
            if not names or option.name in names:
                command = _parameter(option, changes.get(option.name, {}))(command)
        return command

    return decorate


def _parameter(option: Option, changes: Mapping[str, Any]) -> Callable[[Command], Command]:
    if option.is_argument:
        return click.argument(option.name, metavar=option.metavar, nargs=-1, type=_type_of(option))
    settings: dict[str, Any] = {"help": option.help, "required": option.is_required}
    declaration = option.flag
    if option.kind is not bool:
        settings |= {"type": _type_of(option), "metavar": option.metavar}
        settings["multiple"] = option.is_tuple and option.separator is None
    elif option.is_optional:
        declaration += f"/--no-{option.flag[2:]}"
    else:
        settings["is_flag"] = True
    if not option.is_required:
        settings |= {"default": option.joined(option.default), "show_default": option.default not in (None, ())}
    if option.default_words is not None:
        settings |= {"default": None, "show_default": option.default_words}
    return click.option(declaration, option.name, **{**settings, **changes})


def _type_of(option: Option) -> click.ParamType[Any]:
    if option.choices:
        return _Choice(tuple(option.choices))
    if option.kind is Path:
        return PATH
    if option.separator is not None or option.kind is str:
        return click.STRING
    limits: dict[str, Any] = {"max": option.at_most, "min_open": option.above is not None}
    limits["min"] = option.above if option.at_least is None else option.at_least
    return _IntRange(**limits) if option.kind is int else _FloatRange(**limits)


# Help and completion show these choices and limits; the dataclass refuses other values, in a sentence that says more.
class _Choice(click.Choice[str]):
    def convert(self, value: Any, _param: click.Parameter | None, _context: click.Context | None) -> str:
        return str(value)


class _IntRange(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        return click.INT.convert(value, param, context)


class _FloatRange(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        return click.FLOAT.convert(value, param, context)
