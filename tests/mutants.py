"""Change one operator or number of chosen modules at a time, and see whether the tests of their room notice.

`python -m tests.mutants --seed 1 --each 5 --out FILE.json`. It works on a copy of the checkout in a temporary folder,
where all the tests have to pass first. A mutant survives where all tests of its rooms pass; survivors are printed, and
are either equivalent (the result is the same, only slower or in another order) or a test that is missing; `--again
FILE.json` tries the survivors of an earlier call. (DeMillo, Lipton and Sayward, Hints on test data selection, 1978.)
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

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
    "trainer/exchange/exchange.py": ("tests/trainer/exchange", "tests/trainer/config/test_numbers.py"),
    "trainer/exchange/halo_exchange.py": ("tests/trainer/exchange", "tests/trainer/config/test_numbers.py"),
    "trainer/exchange/row_routes.py": ("tests/trainer/exchange",),
}
"""The tests that have to notice a change of each module."""
LARGE = ("hypothesis", "networkx", "numba", "pyarrow.parquet", "pydantic", "pytest", "scipy.sparse", "torch", "zarr")
"""packages that are imported once, before the forks in which tests run"""
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


def failure(folder: Path, tests: list[str], seconds: float) -> str:
    """The end of what pytest prints if a test fails or does not end in time in the copy in `folder`; "" if all pass."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            _run_pytest(folder, tests, output.fileno())
        deadline = time.monotonic() + seconds
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"no end in {seconds:.0f} s"
            time.sleep(0.1)
        output.seek(0)
        return output.read()[-2000:] if ended[1] else ""


def _run_pytest(folder: Path, tests: list[str], output: int) -> NoReturn:
    """In a fork, which has imported what is large and nothing of the project but this module."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)  # the tests' child processes import the copy, too
    sys.path.insert(0, str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    status = 1
    try:
        status = int(import_module("pytest").main(["-x", "-q", "-n", "0", *tests]))
    finally:
        os._exit(status)


def why_noticed(mutant: Mutant, tests: list[str], folder: Path, seconds: float) -> str:
    """The failure of `tests` with the change in the copy in `folder`; "" if they pass all the same."""
    path = folder / mutant.path
    original = path.read_text()
    try:
        path.write_text(original[: mutant.start] + mutant.after + original[mutant.stop :])
        return failure(folder, tests, seconds)
    finally:
        path.write_text(original)


def main() -> None:
    """Print and write which of the chosen mutants the tests notice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of changes")
    parser.add_argument("--each", type=int, default=5, help="changes of each module")
    parser.add_argument("--seconds", type=float, default=600, help="after which a mutant counts as noticed")
    parser.add_argument("--only", default="", help="modules whose path contains this text")
    parser.add_argument("--again", type=Path, help="JSON file of an earlier call: only the changes that survived")
    parser.add_argument("--also", nargs="*", default=[], help="wider tests, which are run after those of the room")
    parser.add_argument("--pytest", default="", help="more options of pytest, e.g. -m 'not slow'")
    parser.add_argument("--out", type=Path, help="JSON file of the result")
    options = parser.parse_args()
    paths = [path for path in ROOMS if options.only in path]
    if options.again:
        earlier = json.loads(options.again.read_text())["mutants"]
        survivors = [{key: row[key] for key in Mutant._fields} for row in earlier if not row["failure"]]
        chosen = [mutant for path in paths for mutant in mutants(path) if mutant._asdict() in survivors]
    else:
        chosen = [
            mutant
            for path in paths
            for mutant in sorted(random.Random(f"{options.seed} {path}").sample(mutants(path), options.each))
        ]
    rows = []
    more = [*shlex.split(options.pytest), *options.also]
    with tempfile.TemporaryDirectory() as name:
        # numba reads these when it is imported, and tests want checks of bounds.
        os.environ |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(Path(name) / "kernels")}
        for module in LARGE:
            import_module(module)
        folder = Path(name) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", ".demo", ".*_cache")
        shutil.copytree(ROOT, folder, ignore=ignored)
        tests = list(dict.fromkeys(test for mutant in chosen for test in ROOMS[mutant.path]))
        if unchanged := failure(folder, [*tests, *more], len(ROOMS) * options.seconds):
            sys.exit(f"{unchanged}\nthese tests fail without a change")
        for mutant in chosen:
            started = time.monotonic()
            why = why_noticed(mutant, [*ROOMS[mutant.path], *more], folder, options.seconds)
            rows.append({**mutant._asdict(), "failure": why, "seconds": round(time.monotonic() - started, 1)})
            change = f"{mutant.before.strip()} -> {mutant.after.strip()}"
            print("noticed " if why else "SURVIVED", f"{mutant.path}:{mutant.line}: {change}", flush=True)
            if options.out:
                options.out.write_text(json.dumps({"seed": options.seed, "mutants": rows}, indent=1) + "\n")
    survived = sum(not row["failure"] for row in rows)
    print(f"{len(rows) - survived} of {len(rows)} changes were noticed")


if __name__ == "__main__":
    main()
