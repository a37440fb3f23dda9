"""Options from a TOML file, and all options of a run as one.

The file has one line an option, named as on the command line without its dashes (`eval-every` or `eval_every`), and no
tables. What the command line gives wins. A run's own `config.toml` has every option, and starts the same run again.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.base.errors import OptionError
from trainer.base.nearest import nearest
from trainer.base.regular_file import regular_file
from trainer.config.options import OPTIONS, Options

_WORDS = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}


def read_config(file: str, check: Callable[[str, Any], Any]) -> dict[str, Any]:
    """The options of a file.

    Args:
        file: its path.
        check: returns an option's value, from its name and the value of the right type in the file, or raises
            OptionError.

    Raises:
        OptionError: the file cannot be read or is not TOML; an option is unknown or has a wrong value: file and line.
    """
    try:
        text = regular_file(Path(file)).read_bytes().decode()
        content = tomllib.loads(text)
    except OSError as error:
        raise OptionError(f"--config {file} cannot be read ({error.strerror}); give a file in TOML") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"--config {file} is not UTF-8; give a file in TOML") from error
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*) \(at (?:line (\d+), column \d+|end of document)\)$", str(error), re.DOTALL)
        what, line = (match[1], match[2] or text.count("\n") + 1) if match else (str(error), 1)
        raise OptionError(f"{file}:{line}: {what}; the file is not TOML") from error
    except RecursionError as error:
        raise OptionError(f"--config {file} is nested too deeply; give options at the top of the file") from error
    except ValueError as error:  # a whole number of thousands of digits
        raise OptionError(f"--config {file}: {error.args[0].partition(';')[0]}; give a shorter number") from error
    values, lines = dict[str, Any](), dict[str, int]()
    for key, value in content.items():
        name, line = key.replace("-", "_"), _line_of(key, text)
        if isinstance(value, dict):
            raise OptionError(f"{file}:{line}: [{key}] is a table; give options at the top of the file, outside tables")
        if name not in OPTIONS or name == "config":
            raise OptionError(
                f"{file}:{line}: there is no option {key!r}{nearest(name, OPTIONS)}; "
                "`python -m trainer --help` lists them"
            )
        if name in values:
            raise OptionError(f"{file}:{line}: {key} is the option of line {lines[name]} again; give it once")
        if not _is_of(value, OPTIONS[name].kind):
            raise OptionError(f"{file}:{line}: {key} is {_WORDS[OPTIONS[name].kind]}, not {_shown(value)}")
        try:
            values[name] = check(name, value)
        except OptionError as error:
            raise OptionError(f"{file}:{line}: {error}") from None
        lines[name] = line
    return values


def to_toml(options: Options) -> str:
    """Every option of a run that is not absent, one a line."""
    lines = ["# All options of a run; trainer --config reads this file."]
    for name in OPTIONS:
        value = getattr(options, name)
        if value is not None and name != "config":
            lines.append(f"{name} = {_written(value)}")
    return "\n".join(lines) + "\n"


def _is_of(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def _shown(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | int | float | str) else f"a {type(value).__name__}"


def _written(value: Any) -> str:
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _line_of(key: str, text: str) -> int:
    """The line of `key`, from 1; 1 where it is written in a way that the search misses."""
    name = re.escape(key)
    match = re.search(rf"^[ \t]*(?:\[+[ \t]*)?(?:{name}|\"{name}\"|'{name}')[ \t]*[=.\]]", text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 1
