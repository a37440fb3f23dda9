"""Opening one part of a large cache and touching its first row, and reading all of it, beside numpy.memmap.

A block model of 100 million directed edges is generated, its blocks are dealt to 8 parts, and the cache is written by
the package's own writer under a memory limit. In a new process, after all imports, a part is opened and the first row
of its features and of its local edges is read; then every array of the part is read to its end, by `open_cache` and by
numpy.memmap on the files, in turn, each the median of several. The page cache is warm for both.

Prints a table, writes JSON with --out, and returns 1 if a target is missed: 50 ms, and 80 % of numpy.memmap's rate.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.storage.cache_writing import OURS, prepare, run

OPEN_MILLISECONDS, SHARE_OF_MEMMAP = 50.0, 0.80
READ = """
import json, sys, time
from pathlib import Path
import numpy as np
from graphprep import open_cache
from graphprep.core.types import HOMOGENEOUS_EDGE
folder = Path(sys.argv[1])
def clock(work):
    started = time.perf_counter(); work(); return time.perf_counter() - started
def first_row():
    cache = open_cache(folder)
    block = cache.block(1, HOMOGENEOUS_EDGE, 1)
    block.indices[: block.indptr[1]].sum() + cache.node_array(1, "node", "x")[0].sum()
paths, files = [], []
for metadata in sorted((folder / "parts/1").rglob("zarr.json")):
    payload = [file for file in (metadata.parent / "c").rglob("*") if file.is_file()]
    if payload:
        paths.append(metadata.parent.relative_to(folder).as_posix())
        about = json.loads(metadata.read_text())
        files.append((payload[0], np.dtype(about["data_type"]), tuple(about["shape"])))
def by_cache():
    cache = open_cache(folder)
    for path in paths:
        cache.array(path).sum()
def by_memmap():
    for file, dtype, shape in files:
        np.memmap(file, dtype, mode="r", shape=shape).sum()
first = clock(first_row)
again = sorted(clock(first_row) for _ in range(9))[4]
by_memmap()
pairs = sorted((clock(by_cache), clock(by_memmap)) for _ in range(9))
ours, memmap = (sorted(side)[4] for side in zip(*pairs))
print(json.dumps({"first_open_ms": first * 1e3, "open_ms": again * 1e3, "arrays": len(files),
                  "part_bytes": sum(file.stat().st_size for file, _, _ in files),
                  "seconds": ours, "memmap_seconds": memmap, "share_of_memmap": memmap / ours}))
"""


def main() -> int:
    """Returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--edges", type=int, default=100_000_000, help="directed edges")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--memory", default="3GB", help="what generating and writing may hold, each")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    arguments = parser.parse_args()
    limit = int(float(arguments.memory.removesuffix("GB")) * 1e9)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, arguments.nodes, arguments.edges, arguments.features, arguments.parts, "--memory", str(limit))
        written = run(OURS, folder, arguments.parts, limit)
        found = run(READ, folder / "ours")
    found["write_seconds"], found["write_peak_bytes"] = written["seconds"], written["peak"]
    print(
        f"{arguments.edges:,} edges, {arguments.parts} parts: written in {written['seconds']:.0f} s, peak "
        f"{written['peak'] / 1e9:.2f} GB\n"
        f"a part opened and its first row read: {found['first_open_ms']:.1f} ms the first time, "
        f"{found['open_ms']:.1f} ms later\n"
        f"all {found['arrays']} arrays of the part, {found['part_bytes'] / 1e6:.0f} MB, at "
        f"{found['part_bytes'] / found['seconds'] / 1e9:.2f} GB/s: {found['share_of_memmap']:.2f} of numpy.memmap"
    )
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    return int(found["first_open_ms"] > OPEN_MILLISECONDS or found["share_of_memmap"] < SHARE_OF_MEMMAP)


if __name__ == "__main__":
    sys.exit(main())
