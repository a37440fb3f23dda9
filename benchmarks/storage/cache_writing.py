"""Writing the caches of one assignment, ours beside PyTorch Geometric's Partitioner, and opening what was written.

A block model is generated with features, and its blocks are dealt to the parts, so that nobody's METIS counts. Each way
runs in a process of its own, whose anonymous and shared memory is watched; what it holds before it begins to write (the
interpreter, warmed up with a tiny cache, and for PyG the whole graph, since its writer takes it from memory) is told
apart.

Prints a table, and writes JSON with --out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measured import measured, python
from graphprep.store.store import GraphStore

OURS = """
import json, pickle, sys, time
from pathlib import Path
import numpy as np
from graphprep.system import memory, progress
from graphprep.cache.blocks import NodeLayout
from graphprep.cache.write import CacheContent, write_cache
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
progress.configure(quiet=True)
folder, parts, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = GraphStore(folder / "stores/graph.zarr")
assignment = np.load(folder / "assignment.npy")
layout = NodeLayout.from_order(assignment, [np.flatnonzero(assignment == part) for part in range(parts)])
traffic, quality = pickle.loads((folder / "quality.pkl").read_bytes())
content = CacheContent(key="0" * 64, layouts={"node": layout}, traffic=traffic, quality=quality,
                       topology=Topology.flat(parts), options={})
warm = NodeLayout.from_order(np.zeros(64, np.int32), [np.arange(64)])
write_cache(folder / "warm", GraphStore(folder / "stores/warm.zarr"), CacheContent(
    key="0" * 64, layouts={"node": warm}, traffic=traffic, quality=quality, topology=Topology.flat(1), options={}),
    scratch=folder / "warm-scratch")
before, started = memory.resident(), time.perf_counter()
write_cache(folder / "ours", store, content, scratch=folder / "scratch", memory_limit=limit or None)
print(json.dumps({"before": before, "seconds": time.perf_counter() - started}))
"""
JUDGE = """
import pickle, sys
from pathlib import Path
import numpy as np
from graphprep.core.types import HOMOGENEOUS_EDGE
from graphprep.store.store import GraphStore
from graphprep.topology import Topology
from graphprep.traffic import assess, count_traffic
folder, parts = Path(sys.argv[1]), int(sys.argv[2])
matrices = {HOMOGENEOUS_EDGE: GraphStore(folder / "stores/graph.zarr").csr(HOMOGENEOUS_EDGE)}
assignments = {"node": np.load(folder / "assignment.npy")}
traffic = count_traffic(matrices, assignments, parts)
(folder / "quality.pkl").write_bytes(pickle.dumps(
    (traffic, assess(matrices, assignments, Topology.flat(parts), traffic=traffic))))
"""
PYG = """
import json, logging, sys, time
from pathlib import Path
import numpy as np, torch
from graphprep.system import memory
from graphprep.store.store import GraphStore
from torch_geometric.distributed import Partitioner
from torch_geometric.loader import ClusterData
folder, parts = Path(sys.argv[1]), int(sys.argv[2])
data = GraphStore(folder / "stores/graph.zarr").to_pyg()
cluster = torch.from_numpy(np.load(folder / "assignment.npy").astype(np.int64))
ClusterData._metis = lambda self, *_: cluster
before, started = memory.resident(), time.perf_counter()
Partitioner(data, parts, str(folder / "pyg")).generate_partition()
print(json.dumps({"before": before, "seconds": time.perf_counter() - started}))
"""
OPEN = """
import json, sys, time
from pathlib import Path
import numpy as np, torch
import graphprep
from graphprep.core.types import HOMOGENEOUS_EDGE
from trainer.data.cache import open_cache
from trainer.data.part import load_part
def clock(work):
    started = time.perf_counter(); work(); return time.perf_counter() - started
folder = Path(sys.argv[1])
def first_row():
    cache = graphprep.open_cache(folder)
    block = cache.block(1, HOMOGENEOUS_EDGE, 1)
    block.indices[: block.indptr[1]].sum() + cache.node_array(1, "node", "x")[0].sum()
def arrays():
    cache = graphprep.open_cache(folder)
    block = cache.block(1, HOMOGENEOUS_EDGE, 1)
    for array in (cache.node_array(1, "node", "x"), block.indices, block.indptr):
        array.sum()
def by_memmap():
    root = folder / "parts/1"
    for path, dtype in (("nodes/node/x/c/0/0", "f4"), ("edges/node__to__node/local/indices/c/0", "i4"),
                        ("edges/node__to__node/local/indptr/c/0", "i4")):
        np.memmap(root / path, dtype, mode="r").sum()
def middle(work):
    return sorted(clock(work) for _ in range(9))[4]
print(json.dumps({"open": middle(first_row), "ours": middle(arrays), "memmap": middle(by_memmap),
                  "trainer": middle(lambda: load_part(open_cache(str(folder)), 1, split=0))}))
"""


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(script: str, folder: Path, *words: object) -> dict[str, Any]:
    ran = measured([*python(script), str(folder), *map(str, words)], {"GRAPHPREP_HOME": str(folder)})
    told = json.loads(ran.output.splitlines()[-1]) if ran.output.strip() else {}
    return {**told, "peak": ran.peak_bytes}


def prepare(folder: Path, nodes: int, edges: int, features: int, parts: int, *options: str) -> None:
    """Generate a block model, deal its blocks to the parts, and judge that: all that OURS reads."""
    environment = {"GRAPHPREP_HOME": str(folder)}
    command = [sys.executable, "-m", "cli", "generate", "sbm", "-q", *options, "--name"]
    shape = ["--nodes", nodes, "--edges", edges // 2, "--features", features]
    shape += ["--branching", parts, "--levels", 1, "--classes", parts]
    measured([*command, "graph", *map(str, shape)], environment)
    measured([*command, "warm", *["--nodes", "64", "--edges", "300", "--features", "4", "--levels", "1"]], environment)
    labels = GraphStore(folder / "stores" / "graph.zarr").node_array("node", "y")
    assert labels is not None
    np.save(folder / "assignment.npy", (np.asarray(labels[:]) % parts).astype(np.int32))
    run(JUDGE, folder, parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=50_000_000, help="directed edges")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--memory", type=int, default=0, help="bytes that ours may hold; 0 for half of what is free")
    parser.add_argument("--without-pyg", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, arguments.nodes, arguments.edges, arguments.features, arguments.parts)
        found: dict[str, Any] = {"assignment_bytes": 4 * arguments.nodes}
        for way, script in {"ours": OURS, **({} if arguments.without_pyg else {"pyg": PYG})}.items():
            found[way] = run(script, folder, arguments.parts, arguments.memory)
            found[way]["disk"] = size_of(folder / way)
            part_bytes = size_of(folder / "ours" / "parts") / arguments.parts
            grown = found[way]["peak"] - found[way]["before"]
            print(
                f"{way:5} {found[way]['seconds']:7.1f} s   {found[way]['disk'] / 1e6:8.0f} MB on disk   "
                f"peak {found[way]['peak'] / 1e6:7.0f} MB, {grown / 1e6:.0f} MB of it for writing "
                f"({grown / part_bytes:.2f} of a part)",
                flush=True,
            )
            if way == "pyg":
                shutil.rmtree(folder / way)
        found["part_bytes"] = part_bytes
        found["reading"] = run(OPEN, folder / "ours")
        reading = found["reading"]
        print(
            f"a part is {part_bytes / 1e6:.0f} MB: to open it and its first row takes {reading['open'] * 1e3:.1f} ms, "
            f"to read all of it {reading['ours'] / reading['memmap']:.2f} of numpy.memmap's time; the trainer, which "
            f"checks every index, is ready after {reading['trainer'] * 1e3:.0f} ms"
        )
    if "pyg" in found:
        for what in ("seconds", "disk"):
            found[f"{what} to pyg"] = found["ours"][what] / found["pyg"][what]
        print(f"ours to PyG: time {found['seconds to pyg']:.3f}, disk {found['disk to pyg']:.3f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
