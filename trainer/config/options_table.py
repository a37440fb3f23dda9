"""The tables of all options in docs/training-reference.md: `python -m trainer.config.options_table` prints them."""

from __future__ import annotations

from itertools import groupby

from trainer.config.option import Option, Range
from trainer.config.options import OPTIONS


def options_tables() -> str:
    """One Markdown table a group, each under its heading; options that may change in a resumed run have a star."""
    tables = []
    for title, options in groupby(OPTIONS.values(), key=lambda option: option.group.title):
        head = [f"### Options: {title}", "", "| option | values | default | |", "|---|---|---|---|"]
        tables.append("\n".join([*head, *map(_row, options)]))
    return "\n\n".join(tables)


def _row(option: Option) -> str:
    name = option.metavar if option.name == "cache" else " ".join(filter(None, [option.flag, option.metavar]))
    names = ", ".join(f"`{one}`" for one in (name, *option.short))
    star = " *" if option.group.decides_result and option.may_change else ""
    default = "" if option.kind is bool or option.default_text is None else f"`{option.default_text}`"
    if option.default_words:
        default = option.default_words
    return f"| {names}{star} | {_values(option)} | {default} | {option.full_help} |"


def _values(option: Option) -> str:
    """What the option accepts, in words."""
    if option.kind is bool:
        return "switch"
    if isinstance(option.convert, Range):
        return option.convert.words
    return ", ".join(f"`{choice}`" for choice in option.choices)


if __name__ == "__main__":
    print(options_tables())
