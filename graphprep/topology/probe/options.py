"""What a probe is asked for: by the command line, and again by each rank that torchrun starts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option, options_in, required, take_options

MOST_SECONDS = 3600.0
LARGEST_SIZE = 2**30
"""bytes of a message"""
DEFAULT_NAME = "probed"
PROGRAM = "graphprep.topology.probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """Options, checked."""

    out: Path = required("The topology to write, on the first machine.", metavar="FILE")
    name: str
    """of the topology"""
    backend: Literal["gloo", "nccl"] | None = option(None, "By default nccl where every rank has a GPU, else gloo.")
    seconds: float = option(60.0, "Seconds that it may take, more or less.", above=0.0, at_most=MOST_SECONDS)
    sizes: tuple[int, ...] = option(
        (4096, 65536, 2**20, 2**23, 2**25),
        "Bytes of the messages between pairs, the smallest first.",
        metavar="BYTES,...",
        separator=",",
        example="4096,1048576",
    )
    timeout: float = option(180.0, "Seconds to wait for another rank.", above=0.0, at_most=MOST_SECONDS)
    replace: bool = option(False, "Replace the file if it is there.")
    quiet: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        """
        Raises:
            UsageError: a value beyond its limits.
        """
        check_options(self)
        if len(set(self.sizes)) < 2 or list(self.sizes) != sorted(set(self.sizes)):
            raise UsageError(f"--sizes {self.sizes_text} must be two or more different sizes, the smallest first")
        if not 1 <= self.sizes[0] <= self.sizes[-1] <= LARGEST_SIZE:
            raise UsageError(f"--sizes {self.sizes_text} must lie between 1 and {LARGEST_SIZE:,} bytes")

    @property
    def sizes_text(self) -> str:
        return ",".join(map(str, self.sizes))

    def to_arguments(self) -> list[str]:
        """The same options for `python -m graphprep.topology.probe`."""
        words = ["--name", self.name]
        for each in options_in(ProbeOptions):
            value = getattr(self, each.name)
            if each.kind is not bool and value is not None:
                words += [each.flag, str(each.joined(value))]
        flags = {"--replace": self.replace, "--quiet": self.quiet, "--debug": self.debug}
        return words + [flag for flag, is_set in flags.items() if is_set]


def parse(arguments: Sequence[str]) -> ProbeOptions:
    """The options of `python -m graphprep.topology.probe`.

    Raises:
        UsageError: an option is unknown, lacks its value, or has a wrong one.
    """
    from graphprep.topology.to_yaml import chosen_name

    parser = _Parser(
        prog=f"torchrun --nproc-per-node K -m {PROGRAM}",
        description="Measure the links between the ranks, and write them as a topology (docs/topology.md).",
    )
    for each in options_in(ProbeOptions):
        settings: dict[str, Any] = {"action": "store_true", "help": each.help}
        if each.kind is not bool:
            default = None if each.is_required else each.default
            shown = "" if default is None else f" ({each.joined(default)})"
            settings = {"type": str if each.is_tuple else each.kind, "default": default, "required": each.is_required}
            settings |= {"choices": tuple(each.choices) or None, "metavar": each.metavar, "help": each.help + shown}
        parser.add_argument(each.flag, **settings)
    parser.add_argument("--name", help="Of the topology; by default the file's.")
    parser.add_argument("-q", "--quiet", action="store_true", help="No progress.")
    parser.add_argument("--debug", action="store_true", help="Show tracebacks.")
    values = vars(parser.parse_args(arguments))
    values["name"] = chosen_name(values["name"], values["out"], DEFAULT_NAME)
    return take_options(ProbeOptions, values, **{name: values.pop(name) for name in ("name", "quiet", "debug")})


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are errors of ours."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see python -m {PROGRAM} --help")
