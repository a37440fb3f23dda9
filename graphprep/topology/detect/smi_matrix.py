"""The matrix that `nvidia-smi topo -m` prints: how any two GPUs, and any GPU and NIC, are joined.

    <tab>GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID
    GPU0  X   NV12 PIX  0-63         0             N/A
    ...

Drivers underline the header with escape codes, separate by tabs or spaces, leave cells of the affinity columns empty,
and name NICs after themselves (mlx5_0) or by number with a legend. Around the matrix a saved file may hold anything: a
prompt, warnings, the legend, other tools' output. So the header is found by its first GPU, rows by the names that the
header lists, and the rest is passed by. What a matrix must have, and an error says where it lacks it: a row for every
GPU, a known word in every cell, the same word both ways.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphprep.errors import TopologyError

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_GPU = re.compile(r"GPU\d+")
_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_NVLINKS = re.compile(r"NV(\d{1,2})")
_CLOSENESS = {"PIX": 1, "PSB": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
SWITCH, BRIDGES, HOST_BRIDGE, NUMA_NODE, SYSTEM = range(1, 6)
"""How far apart two devices are on PCIe: one switch, several, one host bridge, one NUMA node, farther."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """One cell. Where NVLink joins two GPUs, nvidia-smi does not say how PCIe does."""

    nvlinks: int = 0
    closeness: int | None = None
    """SWITCH .. SYSTEM; None where only NVLink is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All that the matrix says."""

    gpus: tuple[str, ...]
    """GPU0, GPU1 ..., in the order of the header."""
    nics: tuple[str, ...]
    """As the legend names them, else as the header does."""
    cells: dict[tuple[int, int], Joined]
    """By positions: GPUs first, then NICs; both orders, without the diagonal."""
    affinity: tuple[str | None, ...]
    """The NUMA node of each GPU, or its CPUs where only those are named; None if unknown."""

    def ordered(self, gpus: Sequence[int]) -> Matrix:
        """The same with its GPUs in another order.

        Args:
            gpus: which GPU comes first, second ...
        """
        places = [*gpus, *range(len(gpus), len(gpus) + len(self.nics))]
        new = {old: place for place, old in enumerate(places)}
        return Matrix(
            gpus=tuple(self.gpus[gpu] for gpu in gpus),
            nics=self.nics,
            cells={(new[a], new[b]): joined for (a, b), joined in self.cells.items()},
            affinity=tuple(self.affinity[gpu] for gpu in gpus),
        )


def parse(text: str, *, origin: str) -> Matrix:
    """Find the matrix in `text`.

    Args:
        text: what `nvidia-smi topo -m` printed, with anything around it.
        origin: what to call the text in messages.

    Raises:
        TopologyError: one sentence with the line: no matrix, a row or a cell missing, a word that is unknown, or two
            that contradict each other.
    """
    lines = [_ESCAPE.sub("", line).strip("\r\n\f") for line in text.splitlines()]
    start = next((number for number, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        raise TopologyError(
            f"{origin} holds no matrix of `nvidia-smi topo -m` (a line GPU0, GPU1 ... and one such row a GPU); "
            "save that command's whole output"
        )
    gpus, nics = _devices(lines[start])
    places = {name: position for position, name in enumerate((*gpus, *nics))}
    found: dict[tuple[int, int], tuple[Joined, str, int]] = {}
    affinity: list[str | None] = [None] * len(gpus)
    seen: dict[str, int] = {}
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        words = line.split()
        if words and words[0].lower().startswith("legend"):
            break
        if not words or words[0] not in places:
            continue
        name = words[0]
        if name in seen:
            raise TopologyError(f"{origin}, line {number}: {name} has a row already, on line {seen[name]}")
        seen[name] = number
        if len(words) <= len(places):
            raise TopologyError(
                f"{origin}, line {number}: the row of {name} has {len(words) - 1} of {len(places)} cells"
            )
        for place, word in enumerate(words[1 : 1 + len(places)]):
            if place != places[name]:
                found[places[name], place] = (_joined(word, f"{origin}, line {number}"), word, number)
            elif word != "X":
                raise TopologyError(f"{origin}, line {number}: {name} and itself are joined by {word!r}, not 'X'")
        if places[name] < len(gpus):
            affinity[places[name]] = _affinity(lines[start], line, words[1 + len(places) :])
    for name in gpus:
        if name not in seen:
            raise TopologyError(f"{origin}, line {start + 1}: the matrix has a column {name} and no row of that name")
    _agree(found, (*gpus, *nics), origin)
    cells = {pair: joined for pair, (joined, _, _) in found.items()}
    legend = _legend(lines)
    return Matrix(gpus=gpus, nics=tuple(legend.get(nic, nic) for nic in nics), cells=cells, affinity=tuple(affinity))


def _is_header(line: str) -> bool:
    words = line.split()
    return bool(words) and bool(_GPU.fullmatch(words[0])) and words[1:2] != ["X"] and not _is_cell(words[1:2])


def _is_cell(words: list[str]) -> bool:
    return any(_NVLINKS.fullmatch(word) or word in _CLOSENESS for word in words)


def _devices(header: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """GPUs, and the NICs that stand between them and the affinity columns."""
    for column in _COLUMNS:
        header = header.replace(column, "")
    words = header.split()
    gpus = tuple(word for word in words if _GPU.fullmatch(word))
    return gpus, tuple(word for word in words if not _GPU.fullmatch(word))


def _joined(word: str, where: str) -> Joined:
    if match := _NVLINKS.fullmatch(word):
        return Joined(nvlinks=int(match[1]))
    if word not in _CLOSENESS:
        raise TopologyError(f"{where}: {word!r} is none of NV#, {', '.join(_CLOSENESS)}")
    return Joined(closeness=_CLOSENESS[word])


def _affinity(header: str, line: str, rest: list[str]) -> str | None:
    """What tells a GPU's NUMA node: that column, else the CPUs.

    A tab for every cell keeps empty ones in their place; where spaces came in their stead, the first two words count.
    """
    cells: dict[str, str] = {}
    if "\t" in line and "\t" in header:
        cells = dict(zip(header.strip().split("\t"), (cell.strip() for cell in line.split("\t")[1:]), strict=False))
    else:
        cells = dict(zip([column for column in _COLUMNS if column in header], rest, strict=False))
    for column in ("NUMA Affinity", "CPU Affinity"):
        if cells.get(column, "")[:1].isdigit():
            return f"{column} {cells[column]}"
    return None


def _agree(found: dict[tuple[int, int], tuple[Joined, str, int]], names: tuple[str, ...], origin: str) -> None:
    for (a, b), (joined, word, number) in found.items():
        other = found.get((b, a))
        if other is not None and other[0] != joined:
            raise TopologyError(
                f"{origin}, line {number}: {names[a]} is joined to {names[b]} by {word}, "
                f"and {names[b]} to {names[a]} by {other[1]} (line {other[2]})"
            )


def _legend(lines: list[str]) -> dict[str, str]:
    """`NIC0: mlx5_0` lines."""
    matches = (re.fullmatch(r"\s*(NIC\d+):\s*(\S+)\s*", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}
