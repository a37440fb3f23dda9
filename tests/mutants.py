"""Change one operator or number of chosen modules at a time, and see whether the tests of their room notice.

`python -m tests.mutants --seed 1 --each 5 --out FILE.json`. It works on a copy of the checkout in a temporary folder. A
mutant survives where all tests of its rooms pass; survivors are printed, and are either equivalent (the result is the
same, only slower or in another order) or a test that is missing. (DeMillo, Lipton and Sayward, Hints on test data
selection, 1978.)
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS: dict[str, tuple[str, ...]] = {
    "graphprep/cache/blocks.py": ("tests/cache/test_round_trip.py", "tests/cache/test_part_graph.py"),
    "graphprep/cache/edge_buckets.py": ("tests/cache/test_edge_buckets.py", "tests/cache/test_round_trip.py"),
    "graphprep/cache/write_parts.py": ("tests/cache/test_round_trip.py", "tests/cache/test_damage.py"),
    "graphprep/cache/resume.py": ("tests/cache/test_resume.py",),
    "graphprep/traffic/counts.py": ("tests/traffic",),
    "graphprep/traffic/links.py": ("tests/traffic",),
    "graphprep/partition/constraints.py": ("tests/partition/test_constraints.py", "tests/partition/test_search.py"),
    "graphprep/partition/refine/mapping.py": ("tests/partition/refine",),
    "graphprep/partition/refine/refine.py": ("tests/partition/refine",),
    "trainer/exchange/exchange.py": ("tests/trainer/exchange", "tests/trainer/test_parity.py"),
    "trainer/exchange/halo_exchange.py": ("tests/trainer/exchange",),
    "trainer/exchange/row_routes.py": ("tests/trainer/exchange", "tests/trainer/test_parity.py"),
}
"""The tests that have to notice a change of each module."""
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}


class Mutant(NamedTuple):
    """One change of one module."""

    path: str
    line: int
    before: str
    after: str
    start: int
    """offset of the change in the module's text"""
    stop: int


def mutants(path: str) -> list[Mutant]:
    """All changes of a module, in the order of its lines; none in signatures, messages and tuning constants."""
    text = (ROOT / path).read_text()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def between(left: ast.expr, right: ast.expr, after: str) -> Mutant | None:
        start = starts[(left.end_lineno or 0) - 1] + (left.end_col_offset or 0)
        stop = starts[right.lineno - 1] + right.col_offset
        before = text[start:stop]
        if before.strip("() \n") == "" or "\n" in before or "#" in before or not text.isascii():
            return None
        inner = before.strip("() \n")
        return Mutant(path, left.end_lineno or 0, before, before.replace(inner, after), start, stop)

    def changes() -> Iterator[Mutant | None]:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                yield between(node.left, node.comparators[0], COMPARISONS[type(node.ops[0])])
            elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
                yield between(node.left, node.right, ARITHMETIC[type(node.op)])
            elif isinstance(node, ast.BoolOp):
                yield between(node.values[0], node.values[1], "or" if isinstance(node.op, ast.And) else "and")
            elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
                start = starts[node.lineno - 1] + node.col_offset
                stop = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                after = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
                yield Mutant(path, node.lineno, text[start:stop], after, start, stop)

    found = {change for change in changes() if change is not None and not _is_left_out(text, change)}
    return sorted(found, key=lambda change: (change.line, change.start))


def _is_left_out(text: str, change: Mutant) -> bool:
    line = text.splitlines()[change.line - 1]
    is_type_or_path = change.before.strip() == "|" or (change.before.strip() == "/" and '"' in line)
    is_constant = line[:1].isupper()
    return is_type_or_path or is_constant or line.lstrip().startswith(("@", "def ", "class ", "raise ", 'f"'))


def is_noticed(mutant: Mutant, folder: Path, seconds: float) -> bool:
    """Whether a test fails, or does not end in time, with the change in the copy in `folder`."""
    path = folder / mutant.path
    original = path.read_text()
    try:
        path.write_text(original[: mutant.start] + mutant.after + original[mutant.stop :])
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *ROOMS[mutant.path]]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=seconds, check=False)
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(original)


def main() -> None:
    """Print and write which of the chosen mutants the tests notice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of changes")
    parser.add_argument("--each", type=int, default=5, help="changes of each module")
    parser.add_argument("--seconds", type=float, default=600, help="after which a mutant counts as noticed")
    parser.add_argument("--out", type=Path, help="JSON file of the result")
    options = parser.parse_args()
    chosen = [
        mutant
        for path in ROOMS
        for mutant in sorted(random.Random(f"{options.seed} {path}").sample(mutants(path), options.each))
    ]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", ".demo", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, folder, ignore=ignored)
        for mutant in chosen:
            started = time.monotonic()
            noticed = is_noticed(mutant, folder, options.seconds)
            row = {
                "path": mutant.path,
                "line": mutant.line,
                "before": mutant.before.strip(),
                "after": mutant.after.strip(),
            }
            rows.append({**row, "noticed": noticed, "seconds": round(time.monotonic() - started, 1)})
            print("noticed " if noticed else "SURVIVED", *row.values(), flush=True)
            if options.out:
                options.out.write_text(json.dumps({"seed": options.seed, "mutants": rows}, indent=1) + "\n")
    survived = sum(not row["noticed"] for row in rows)
    print(f"{len(rows) - survived} of {len(rows)} changes were noticed")


if __name__ == "__main__":
    main()
