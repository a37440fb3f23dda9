"""Getting nvidia-smi's words: from the tool on this machine, or from a file that was saved on another."""

from __future__ import annotations

import codecs
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from graphprep.errors import TopologyError
from graphprep.system import progress
from graphprep.system.files.regular_file import regular_file

TOOL = "nvidia-smi"
TOPOLOGY = (TOOL, "topo", "-m")
QUERY = (TOOL, "--query-gpu=name,pci.bus_id,memory.total", "--format=csv,noheader")
SECONDS = 60
"""A driver that has lost a GPU can keep nvidia-smi waiting for ever."""
MAX_SAVED_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What nvidia-smi printed."""

    text: str
    """Of `topo -m`, and of the query where that was to be had."""
    origin: str
    """What messages call it."""


def run_here() -> Seen:
    """Ask the tool on this machine.

    Raises:
        TopologyError: it is not there, fails, or does not answer within `SECONDS`.
    """
    if shutil.which(TOOL) is None:
        raise TopologyError(
            f"{TOOL} is not here: on the machine with the GPUs run `{' '.join(TOPOLOGY)} > saved.txt`, "
            "and give --file saved.txt"
        )
    matrix = _run(TOPOLOGY)
    try:
        gpus = _run(QUERY)
    except TopologyError as problem:
        progress.warn(f"names and memory of the GPUs stay unknown: {problem}")
        gpus = ""
    return Seen(text=f"{matrix}\n{gpus}", origin=f"`{' '.join(TOPOLOGY)}`")


def read_saved(path: Path) -> Seen:
    """Read what was saved on another machine, in UTF-8 or, as PowerShell writes it, in UTF-16.

    Raises:
        TopologyError: the file cannot be read, is no text, or is far too large.
    """
    try:
        with regular_file(path).open("rb") as file:
            data = file.read(MAX_SAVED_BYTES + 1)
    except OSError as problem:
        raise TopologyError(f"cannot read {path}: {problem.strerror}; give the saved output of {TOOL}") from problem
    if len(data) > MAX_SAVED_BYTES:
        raise TopologyError(f"{path} has more than {MAX_SAVED_BYTES:,} bytes; give the saved output of {TOOL} alone")
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return Seen(text=data.decode(encoding), origin=str(path))
    except UnicodeDecodeError as problem:
        raise TopologyError(
            f"{path} is not text in UTF-8 (byte {problem.start}); save the output of {TOOL} anew"
        ) from problem


def _run(command: tuple[str, ...]) -> str:
    words = " ".join(command)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as problem:
        raise TopologyError(f"`{words}` did not answer within {SECONDS} s; see whether the driver is well") from problem
    except OSError as problem:
        raise TopologyError(f"`{words}` could not be started: {problem.strerror}") from problem
    if done.returncode:
        said = next((line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()), "nothing")
        raise TopologyError(f"`{words}` failed with status {done.returncode} and said: {said.rstrip('.')}")
    return done.stdout
