"""The child process that calls METIS: `python -m graphprep.partition.metis_process FOLDER`.

Reads xadj.npy, adjncy.npy, eweights.npy (optional) and request.json from FOLDER, writes assignment.npy there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pymetis


def run(folder: Path) -> None:
    """Partition the graph in `folder`; the caller has checked it and checks the result."""
    request = json.loads((folder / "request.json").read_text())
    weights = folder / "eweights.npy"
    partition = pymetis.part_graph(
        request["nparts"],
        adjacency=pymetis.CSRAdjacency(
            np.load(folder / "xadj.npy", mmap_mode="r"), np.load(folder / "adjncy.npy", mmap_mode="r")
        ),
        eweights=np.load(weights, mmap_mode="r") if weights.exists() else None,
        tpwgts=request["tpwgts"],
        recursive=request["recursive"],
        options=pymetis.Options(seed=request["seed"], ufactor=request["ufactor"]),
    )
    np.save(folder / "assignment.npy", np.asarray(partition.vertex_part, dtype=np.int64))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
