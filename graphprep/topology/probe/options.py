"""What a probe is asked for: by the command line, and again by each rank that torchrun starts."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from graphprep.errors import UsageError
from graphprep.topology.to_yaml import chosen_name

BACKENDS = ("gloo", "nccl")
SECONDS = 60.0
TIMEOUT = 180.0
MOST_SECONDS = 3600.0
SIZES = (4096, 65536, 2**20, 2**23, 2**25)
"""Bytes."""
LARGEST_SIZE = 2**30
DEFAULT_NAME = "probed"
PROGRAM = "graphprep.topology.probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """Options, checked."""

    out: Path
    """The file to write, on the machine of rank 0."""
    name: str
    """Of the topology."""
    backend: str | None = None
    """One of `BACKENDS`; None for NCCL where every rank has a GPU, else gloo."""
    seconds: float = SECONDS
    """That the measurements may take together, more or less."""
    sizes: tuple[int, ...] = SIZES
    """Bytes of the messages of pairs alone, ascending."""
    replace: bool = False
    """Whether a file that is there may be replaced."""
    timeout: float = TIMEOUT
    """Seconds to wait for another rank."""
    quiet: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        """
        Raises:
            UsageError: a number beyond its limits.
        """
        for word, value in (("seconds", self.seconds), ("timeout", self.timeout)):
            if not (math.isfinite(value) and 0 < value <= MOST_SECONDS):
                raise UsageError(f"--{word} {value:g} must be above 0 and at most {MOST_SECONDS:g}")
        if len(set(self.sizes)) < 2 or list(self.sizes) != sorted(set(self.sizes)):
            raise UsageError(f"--sizes {self.sizes_text} must be two or more different sizes, the smallest first")
        if not 1 <= self.sizes[0] <= self.sizes[-1] <= LARGEST_SIZE:
            raise UsageError(f"--sizes {self.sizes_text} must lie between 1 and {LARGEST_SIZE:,} bytes")

    @property
    def sizes_text(self) -> str:
        return ",".join(map(str, self.sizes))

    def to_arguments(self) -> list[str]:
        """The same options for `python -m graphprep.topology.probe`."""
        words = [
            "--out",
            str(self.out),
            "--name",
            self.name,
            "--seconds",
            repr(self.seconds),
            "--sizes",
            self.sizes_text,
        ]
        words += ["--backend", self.backend] if self.backend else []
        words += ["--timeout", repr(self.timeout)]
        flags = {"--replace": self.replace, "--quiet": self.quiet, "--debug": self.debug}
        return words + [flag for flag, is_set in flags.items() if is_set]


def sizes_from(text: str) -> tuple[int, ...]:
    """`4096,65536` as numbers.

    Raises:
        UsageError: a part of it is no number.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise UsageError(
            f"--sizes {text!r} must be whole numbers of bytes with commas between them, as in 4096,1048576"
        )
    return tuple(map(int, words))


def parse(arguments: Sequence[str]) -> ProbeOptions:
    """The options of `python -m graphprep.topology.probe`.

    Raises:
        UsageError: an option is unknown, lacks its value, or has a wrong one.
    """
    parser = _Parser(
        prog=f"torchrun --nproc-per-node K -m {PROGRAM}",
        description="Measure the links between the ranks, and write them as a topology (docs/topology.md).",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the topology to write, on the first machine")
    parser.add_argument("--backend", choices=BACKENDS, help="by default nccl where every rank has a GPU, else gloo")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that it may take, more or less (%(default)g)")
    parser.add_argument("--sizes", default=None, metavar="BYTES,...", help="of messages, the smallest first")
    parser.add_argument("--name", help="of the topology; by default the file's")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds to wait for another rank (%(default)g)")
    parser.add_argument("--replace", action="store_true", help="replace a file that is there")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    found = vars(parser.parse_args(arguments))
    sizes, out = found.pop("sizes"), Path(found.pop("out"))
    found["name"] = chosen_name(found["name"], out, DEFAULT_NAME)
    return ProbeOptions(**found, out=out, sizes=SIZES if sizes is None else sizes_from(sizes))


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are errors of ours."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see python -m {PROGRAM} --help")
