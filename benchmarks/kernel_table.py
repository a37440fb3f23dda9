"""What the trainer's Triton kernels compile to: registers, spills and the widths of global loads, without a GPU.

    python -m benchmarks.kernel_table                          a table for sm_80, sm_90 and sm_100
    python -m benchmarks.kernel_table --arch 90 --out table.json
    python -m benchmarks.kernel_table --match "bf16|softmax"   some of them, by a regular expression

The trainer launches its kernels on tensors of the CPU, for a driver that has Triton compile them for an architecture
and then runs nothing; their machine code is read by the cuobjdump of Triton's wheel. Returns 1 if a kernel spills to
local memory, takes more than 64 registers a thread, or does not load aligned rows by at least 64 bits at a time, and 2
if Triton is not installed.

Rows of int8 messages are not aligned (a row of F values takes F + 2 bytes), nor are rows of an odd number of values or
of scores. Sources, weights and begins of rows are one number an edge or row, of 32 or 64 bits.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from trainer.base.precision import TYPES
from trainer.kernels.row_pieces import LONGEST, RowPieces

ARCHITECTURES = (80, 90, 100)
MOST_REGISTERS, NARROWEST_LOAD = 64, 64
ROWS, DEGREE = 16, 4
"""of the matrices, which only have to have the right types"""
PACKED_WIDTH = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Some launches of the trainer."""

    names: tuple[str, ...]
    """Of each kernel that they compile where no case before did."""
    launch: Callable[[], object]
    row_bits: int
    """Bits of rows (or scores) that a thread loads at the same time; 0 where these are not aligned."""


def cases() -> Iterator[Case]:
    """Launches of every kernel, in the types and sizes that are in the table."""
    for name, stored in TYPES.items():
        for width in (128, 256, 41):
            yield spmm_case((f"spmm {name}, {width} wide",), stored, width)
        yield spmm_case((f"spmm {name}, 4 heads, 64 wide",), stored, 4 * 64, heads=4)
        yield spmm_case((f"spmm {name}, 64 wide, no weights",), stored, 64, heads=0)
        yield spmm_case((f"spmm {name}, 128 wide, int64",), stored, 128, index=torch.int64)
        yield spmm_case((f"spmm {name}, 128 wide, added",), stored, 128, adds=True)
        names = (f"spmm {name}, 128 wide, pieces of long rows", "spmm fp32, 128 wide, sums of pieces")
        yield spmm_case(names, stored, 128, degree=LONGEST + 1)
    yield from pack_cases()
    yield from softmax_cases()


def pieces_of(degree: int, index: torch.dtype = torch.int32) -> RowPieces:
    """Rows of as many edges each."""
    indptr = torch.arange(ROWS + 1, dtype=index) * degree
    return RowPieces.of(indptr, indptr)


def spmm_case(
    names: tuple[str, ...],
    stored: torch.dtype,
    width: int,
    *,
    heads: int = 1,
    degree: int = DEGREE,
    index: torch.dtype = torch.int32,
    adds: bool = False,
) -> Case:
    """A product; with 0 heads one without weights."""
    from trainer.kernels import spmm

    num_edges = ROWS * degree
    matrix = spmm.CsrMatrix(
        pieces=pieces_of(degree, index),
        indices_E=torch.zeros(num_edges, dtype=index),
        weights=torch.ones(num_edges, heads) if heads else None,
    )
    rows = torch.zeros(ROWS, width, dtype=stored)
    edges, columns = spmm.tile(width // max(heads, 1))
    return Case(
        names=names,
        launch=partial(matrix.add_product, rows, torch.zeros(ROWS, width)) if adds else partial(matrix.product, rows),
        row_bits=0 if width % 8 else edges * columns * 8 * stored.itemsize // 32,
    )


def pack_cases() -> Iterator[Case]:
    """Messages of selected rows, and rows of messages."""
    from trainer.kernels import pack

    rows, columns = pack.tile(PACKED_WIDTH)
    values = rows * columns // (32 * pack.WARPS)
    picks = torch.zeros(ROWS, dtype=torch.int32)
    chances = torch.zeros(ROWS, PACKED_WIDTH)
    message = torch.zeros(ROWS, PACKED_WIDTH + 2, dtype=torch.uint8)
    for sent in ("fp16", "bf16"):
        launch = partial(pack.pack_half, chances, TYPES[sent], clamps=True, picks_R=picks)
        yield Case(names=(f"pack fp32 as {sent}",), launch=launch, row_bits=32 * values)
    for name, stored in TYPES.items():
        launch = partial(pack.pack_int8, chances.to(stored), chances, picks)
        yield Case(names=(f"pack {name} as int8",), launch=launch, row_bits=8 * stored.itemsize * values)
        launch = partial(pack.unpack_int8, message, stored)
        yield Case(names=(f"unpack int8 to {name}",), launch=launch, row_bits=0)


def softmax_cases() -> Iterator[Case]:
    """Softmaxes over in-edges."""
    from trainer.kernels import segment_softmax

    for heads in (1, 4, 8):
        edges, _ = segment_softmax.tile(heads)
        yield Case(
            names=tuple(f"softmax, {heads} head(s), {what}" for what in ("log-sums", "exponentials")),
            launch=partial(segment_softmax.segment_softmax, torch.zeros(ROWS * DEGREE, heads), pieces_of(DEGREE)),
            row_bits=edges * heads if heads > 1 else 0,
        )


@dataclass(slots=True)
class CompilingDriver:
    """A driver of Triton that runs nothing: what is compiled for a GPU that is not here."""

    architecture: int
    """90 for sm_90."""
    binaries: list[tuple[bytes, int]] = field(default_factory=list)
    """Of each kernel that was compiled, with the bytes of shared memory that it takes."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.architecture, 32)

    def get_current_device(self) -> int:
        """Triton keeps what it compiled by device."""
        return self.architecture

    def get_current_stream(self, device: int) -> int:  # noqa: ARG002
        return 0

    def launcher_cls(self, source: object, metadata: object) -> Callable[..., None]:  # noqa: ARG002
        return lambda *arguments: None  # noqa: ARG005

    @property
    def utils(self) -> Any:
        return SimpleNamespace(
            load_binary=self._load,
            get_device_properties=lambda device: {"max_shared_mem": 48 << 10},  # noqa: ARG005
        )

    def _load(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:  # noqa: ARG002
        self.binaries.append((binary, shared))
        return 0, 0, 0, 0, 1024


def compiled(case: Case, architecture: int, folder: Path, known: set[tuple[str, int]]) -> list[dict[str, Any]]:
    """What the kernels of one case are on one architecture, but for those that are `known`, to which they are added."""
    from triton.runtime import driver

    compiling = CompilingDriver(architecture)
    driver.set_active(compiling)
    case.launch()
    new = [name for name in case.names if (name, architecture) not in known]
    known |= {(name, architecture) for name in new}
    return [
        {"kernel": name, "architecture": f"sm_{architecture}", **_read(binary, case.row_bits, folder)}
        | {"shared_bytes": shared}
        for name, (binary, shared) in zip(new, compiling.binaries, strict=True)
    ]


def _read(binary: bytes, row_bits: int, folder: Path) -> dict[str, Any]:
    """Registers, spills and loads of machine code, and whether `row_bits` are loaded by wide loads."""
    import triton

    file = folder / "kernel.cubin"
    file.write_bytes(binary)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    words = [str(tool), "-res-usage", "-sass", str(file)]
    code = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    usage = dict(re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", code))
    operations = re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", code, re.MULTILINE)
    loads = Counter(_width(operation) for operation in operations if operation.startswith("LDG"))
    wide = sum(width * count for width, count in loads.items() if width >= NARROWEST_LOAD)
    return {
        "registers": int(usage["REG"]),
        "spills": sum(operation.startswith(("LDL", "STL")) for operation in operations),
        "local_bytes": int(usage["LOCAL"]) + int(usage["STACK"]),
        "loads": {str(width): loads[width] for width in sorted(loads, reverse=True)},
        "is_aligned": bool(row_bits),
        "rows_are_wide": wide >= row_bits,
    }


def _width(operation: str) -> int:
    """The bits of one global load."""
    for word, width in ((".256", 256), (".128", 128), (".64", 64), (".U16", 16), (".S16", 16), (".U8", 8), (".S8", 8)):
        if word in operation:
            return width
    return 32


def is_good(row: Mapping[str, Any]) -> bool:
    """Whether a kernel is within the limits."""
    return not row["spills"] and row["registers"] <= MOST_REGISTERS and row["rows_are_wide"]


def main() -> int:
    """Returns 1 if a kernel is not within the limits, 2 without Triton."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, nargs="+", default=ARCHITECTURES, help="compute capabilities, 90 for sm_90")
    parser.add_argument("--match", default="", metavar="REGEX", help="only launches with a kernel whose name has this")
    parser.add_argument("--out", type=Path, help="write the table here as JSON")
    arguments = parser.parse_args()
    if importlib.util.find_spec("triton") is None:
        print("kernel_table: triton is not installed here; pip install triton", file=sys.stderr)
        return 2
    rows, known = [], set[tuple[str, int]]()
    print(f"{'kernel':40} {'':7} registers  spills  shared  loads by bits")
    with tempfile.TemporaryDirectory() as folder:
        for case in (case for case in cases() if any(re.search(arguments.match, name) for name in case.names)):
            found = [compiled(case, architecture, Path(folder), known) for architecture in arguments.arch]
            for row in chain.from_iterable(found):
                rows.append(row)
                loads = ", ".join(f"{count} x {width}" for width, count in row["loads"].items())
                verdict = "" if is_good(row) else "  OUTSIDE ITS LIMITS"
                print(
                    f"{row['kernel']:40} {row['architecture']:7} {row['registers']:9}  {row['spills']:6}  "
                    f"{row['shared_bytes']:6}  {loads}{verdict}",
                    flush=True,
                )
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(not all(map(is_good, rows)))


if __name__ == "__main__":
    sys.exit(main())
