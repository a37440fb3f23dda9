"""What README.md and docs/*.md show as code: blocks by page, and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
Kind = Literal["shell", "yaml", "toml", "doctest", "python", "other"]
PROGRAMS = (
    "graphprep",
    "torchrun",
    "make",
    "git",
    "pip",
    "python",
    "rsync",
    "ssh",
    "mkdir",
    "srun",
    "nvidia-smi",
    "cp",
)
SHELL = re.compile(rf"(?:{'|'.join(PROGRAMS)})\s|\{{\s|#SBATCH|[A-Z_]+=|export [A-Z_]+=|source\s|unset\s|cat\s|PATH=")


@dataclass(frozen=True)
class Block:
    """One block of code."""

    page: str
    line: int
    """of the page, from 1"""
    text: str

    @property
    def kind(self) -> Kind:
        first = self.text.lstrip().split("\n", 1)[0]
        if first.startswith(">>>"):
            return "doctest"
        if re.match(r"(import|from) \w+|data = ", first):
            return "python"
        if SHELL.match(first):
            return "shell"
        if first.startswith("# run.toml"):
            return "toml"
        return "yaml" if re.match(r"(name|nodes|tables|datasets|machines):", first) else "other"

    def commands(self) -> list[str]:
        """Logical lines of a shell: continued ones joined, comments left in."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        found: list[str] = []
        for line in joined.splitlines():
            if found and found[-1].count("'") % 2:  # a quoted string goes on
                found[-1] += "\n" + line
            elif line.strip():
                found.append(line)
        return found


def blocks(page: str) -> Iterator[Block]:
    """All blocks of a page: fenced, or indented by four blanks after an empty line outside of lists."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    number, start, fenced = 0, 0, False
    kept: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("```"):
            if fenced:
                yield Block(page, start, "\n".join(kept))
                kept = []
            fenced, start = not fenced, number + 1
        elif fenced:
            kept.append(line)
        elif line.startswith("    ") and (kept or number == 1 or not lines[number - 2].strip()):
            start = start if kept else number
            kept.append(line[4:])
        elif kept and line.strip():
            yield Block(page, start, "\n".join(kept).rstrip())
            kept = []
        elif kept:
            kept.append("")
    if kept:
        yield Block(page, start, "\n".join(kept).rstrip())
