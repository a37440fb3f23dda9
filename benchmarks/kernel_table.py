"""What the trainer's Triton kernels compile to: registers, spills and the widths of global loads, without a GPU.

    python -m benchmarks.kernel_table                          a table for sm_80, sm_90 and sm_100
    python -m benchmarks.kernel_table --arch 90 --out table.json

Each kernel is compiled as it is launched (`triton.compile` for a target), and its machine code is read by the cuobjdump
of Triton's wheel. Returns 1 if a kernel spills to local memory, takes more than 64 registers a thread, or does not load
rows by at least 64 bits at a time where rows are aligned, and 2 if Triton is not installed.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARCHITECTURES = (80, 90, 100)
MOST_REGISTERS, NARROWEST_LOAD = 64, 64
FLOATS = {"fp32": "*fp32", "fp16": "*fp16", "bf16": "*i16"}
"""The types of rows, as kernels get them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel with the types and sizes of one launch."""

    name: str
    kernel: Any
    arguments: Mapping[str, object]
    """Of each parameter its type, as Triton writes it, or its value."""
    num_warps: int
    row_bits: int
    """Bits of rows (or scores) that a thread loads at the same time; 0 where these are not aligned."""


def spmm_cases() -> Iterator[Case]:
    from trainer.kernels import spmm
    from trainer.kernels.row_pieces import LONGEST

    launches: tuple[tuple[int, int, str, dict[str, object]], ...] = (
        (128, 1, "", {}),
        (256, 1, "", {}),
        (41, 1, "", {}),
        (64, 4, ", 4 heads", {}),
        (64, 1, ", no weights", {"weights_ptr": None}),
        (128, 1, ", int64, added", {"indices_ptr": "*i64", "begin_ptr": "*i64", "end_ptr": "*i64", "ADDS": True}),
    )
    for name, pointer in FLOATS.items():
        for width, heads, words, changes in launches:
            edges, columns = spmm.tile(width)
            yield Case(
                name=f"spmm {name}, {width} wide{words}",
                kernel=spmm.spmm_kernel,
                arguments={
                    "sums_ptr": "*fp32",
                    "rows_ptr": pointer,
                    "indices_ptr": "*i32",
                    "weights_ptr": "*fp32",
                    "begin_ptr": "*i32",
                    "end_ptr": "*i32",
                    "target_ptr": None,
                    "WIDTH": width,
                    "HEADS": heads,
                    "LONGEST": LONGEST,
                    "IS_BF16": name == "bf16",
                    "ADDS": False,
                    "BLOCK_E": edges,
                    "BLOCK_F": columns,
                    **changes,
                },
                num_warps=1,
                row_bits=0 if width % 8 else edges * columns * _bits(name) // 32,
            )


def pack_cases() -> Iterator[Case]:
    from trainer.kernels import pack

    width = 128
    rows, columns = pack.tile(width)
    common = {"WIDTH": width, "BLOCK_R": rows, "BLOCK_F": columns}
    threads = 32 * pack.WARPS
    for sent in ("fp16", "bf16"):
        yield Case(
            name=f"pack fp32 as {sent}",
            kernel=pack.half_kernel,
            arguments={
                "message_ptr": FLOATS[sent],
                "rows_ptr": "*fp32",
                "picks_ptr": "*i32",
                "num_rows": "i32",
                "GREATEST": 65504.0,
                "TO_BF16": sent == "bf16",
                **common,
            },
            num_warps=pack.WARPS,
            row_bits=rows * columns * 32 // threads,
        )
    for stored, pointer in FLOATS.items():
        yield Case(
            name=f"pack {stored} as int8",
            kernel=pack.int8_kernel,
            arguments={
                "message_ptr": "*i8",
                "rows_ptr": pointer,
                "picks_ptr": "*i32",
                "chances_ptr": "*fp32",
                "num_rows": "i32",
                "IS_BF16": stored == "bf16",
                **common,
            },
            num_warps=pack.WARPS,
            row_bits=rows * columns * _bits(stored) // threads,
        )
        yield Case(
            name=f"unpack int8 to {stored}",
            kernel=pack.unpack_int8_kernel,
            arguments={
                "rows_ptr": pointer,
                "message_ptr": "*i8",
                "num_rows": "i32",
                "TO_BF16": stored == "bf16",
                **common,
            },
            num_warps=pack.WARPS,
            row_bits=0,
        )


def softmax_cases() -> Iterator[Case]:
    from trainer.kernels import segment_softmax
    from trainer.kernels.row_pieces import LONGEST

    for heads in (1, 4, 8):
        edges, heads_at_once = segment_softmax.tile(heads)
        segments = {"begin_ptr": "*i32", "end_ptr": "*i32", "target_ptr": None}
        sizes = {"HEADS": heads, "LONGEST": LONGEST, "BLOCK_E": edges, "BLOCK_H": heads_at_once}
        scores = {"scores_ptr": "*fp32"}
        for name, kernel, results in (
            ("log-sums", segment_softmax.log_sum_kernel, {"log_sums_ptr": "*fp32"}),
            (
                "exponentials",
                segment_softmax.exponentials_kernel,
                {"probabilities_ptr": "*fp32", "log_sums_ptr": "*fp32"},
            ),
        ):
            yield Case(
                name=f"softmax, {name}, {heads} head(s)",
                kernel=kernel,
                arguments={**results, **scores, **segments, **sizes},
                num_warps=1,
                row_bits=edges * heads * 32 // 32 if heads > 1 else 0,
            )


def _bits(name: str) -> int:
    return 32 if name == "fp32" else 16


def cases() -> Iterator[Case]:
    """Every kernel, in the types and sizes that are in the table."""
    yield from spmm_cases()
    yield from pack_cases()
    yield from softmax_cases()


def compiled(case: Case, architecture: int, folder: Path) -> dict[str, Any]:
    """What one kernel is on one architecture."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    is_type = {name: isinstance(value, str) for name, value in case.arguments.items()}
    # In the order of the kernel's parameters.
    names = case.kernel.arg_names
    source = ASTSource(
        case.kernel,
        signature={name: case.arguments[name] if is_type[name] else "constexpr" for name in names},
        constexprs={name: case.arguments[name] for name in names if not is_type[name]},
        # torch's allocations are; the launcher finds it out of each pointer.
        attrs={
            (place,): [["tt.divisibility", 16]]
            for place, name in enumerate(names)
            if is_type[name] and name not in ("end_ptr", "num_rows")
        },
    )
    kernel = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": case.num_warps})
    binary = folder / "kernel.cubin"
    binary.write_bytes(kernel.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"

    words = [str(tool), "-res-usage", "-sass", str(binary)]
    code = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    usage = dict(re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", code))
    operations = re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", code, re.MULTILINE)
    loads = Counter(_width(operation) for operation in operations if operation.startswith("LDG"))
    wide = sum(width * count for width, count in loads.items() if width >= NARROWEST_LOAD)
    return {
        "kernel": case.name,
        "architecture": f"sm_{architecture}",
        "registers": int(usage["REG"]),
        "spills": sum(operation.startswith(("LDL", "STL")) for operation in operations),
        "local_bytes": int(usage["LOCAL"]) + int(usage["STACK"]),
        "shared_bytes": kernel.metadata.shared,
        "loads": {str(width): loads[width] for width in sorted(loads, reverse=True)},
        "is_aligned": bool(case.row_bits),
        "rows_are_wide": wide >= case.row_bits,
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
    parser.add_argument("--only", default="", help="kernels whose names begin so")
    parser.add_argument("--out", type=Path, help="write the table here as JSON")
    arguments = parser.parse_args()
    if importlib.util.find_spec("triton") is None:
        print("kernel_table: triton is not installed here; pip install triton", file=sys.stderr)
        return 2
    rows = []
    print(f"{'kernel':36} {'':7} registers  spills  shared  loads by bits")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if not case.name.startswith(arguments.only):
                continue
            for architecture in arguments.arch:
                row = compiled(case, architecture, Path(folder))
                rows.append(row)
                loads = ", ".join(f"{count} x {width}" for width, count in row["loads"].items())
                verdict = "" if is_good(row) else "  OUTSIDE ITS LIMITS"
                print(
                    f"{row['kernel']:36} {row['architecture']:7} {row['registers']:9}  {row['spills']:6}  "
                    f"{row['shared_bytes']:6}  {loads}{verdict}",
                    flush=True,
                )
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return int(not all(map(is_good, rows)))


if __name__ == "__main__":
    sys.exit(main())
