"""Measure the rates of this machine, in one process a rank, all at the same time as in training."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphprep.core.types import Csr
from graphprep.errors import TrainingError
from graphprep.plan.training import Work
from graphprep.system.child_process import child_settings, python_command
from graphprep.system.threads import cores

KINDS = ("edges", "products", "gradients", "masked", "passed")
SECONDS = 600.0
MOST_SAMPLED_EDGES = 2_000_000
HEAP = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""The trainer has the C library keep freed memory, so that the kernel does not clear large tensors each time, and ask
for huge pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Seconds by width of the slowest rank, as `rates_process` measured them, or as published."""

    edges: Mapping[str, float]
    products: Mapping[str, float]
    gradients: Mapping[str, float]
    masked: Mapping[str, float]
    passed: Mapping[str, float]
    device: str
    """cpu or cuda where they were measured, else the name of the GPU."""
    threads: int | None
    """Of a rank; None if unknown."""
    name: str = ""
    """The name of the device where they were measured."""
    memory_gb: float | None = None
    """Of a GPU, in 1e9 bytes; None if unknown."""
    processes: int | None = None
    """Ranks that were measured side by side; None if nothing was."""

    def of_row(self, row_bytes: int) -> tuple[float, float, float, float]:
        """Seconds of an edge, a node, a row packed and a row unpacked, for rows of so many bytes in fp32."""
        width = max(1, round(row_bytes / 4))
        passed = self.passed[str(width)]
        return self.edges[str(width)], self.products[f"{width},{width}"], passed, passed

    def seconds(self, work: Work) -> dict[str, float]:
        """Seconds of a rank's work, by kind."""
        seconds = {
            "sums over edges": sum(self.edges[str(width)] * amount for width, amount in work.edges.items()),
            "dense products": sum(self.products[f"{a},{b}"] * amount for (a, b), amount in work.products.items())
            + sum(self.gradients[f"{a},{b}"] * amount for (a, b), amount in work.gradients.items()),
            "masks": sum(self.masked[str(width)] * amount for width, amount in work.masked.items()),
            "other passes": sum(self.passed[str(width)] * amount for width, amount in work.passed.items()),
        }
        if work.entries:
            of_entries = sum(self.edges[str(width)] * amount for width, amount in work.entries.items())
            return {"products of features": of_entries, **seconds}
        return seconds


def first_rows(matrix: Csr) -> Csr:
    """The first rows of a matrix, with at most MOST_SAMPLED_EDGES edges, at least one row."""
    stop = int(np.searchsorted(matrix.indptr, MOST_SAMPLED_EDGES, side="right")) - 1
    stop = min(max(stop, 1), matrix.num_rows)
    end = int(matrix.indptr[stop])
    indptr = np.asarray(matrix.indptr[: stop + 1])
    return Csr(indptr=indptr, indices=np.asarray(matrix.indices[:end]), num_sources=matrix.num_sources)


def measured_rates(sample: Csr, work: Work, *, processes: int) -> Rates:
    """Measure what `work` asks for on a sample of the graph.

    Args:
        sample: rows of the graph.
        work: of one rank, for its widths.
        processes: ranks on one machine; each gets its share of the cores, as the trainer shares them out.

    Raises:
        TrainingError: torch cannot measure here.
    """
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // processes))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.npz"
        np.savez(
            path,
            indptr=sample.indptr.astype(np.int32),
            indices=sample.indices.astype(np.int32),
            num_columns=sample.num_sources,
            widths=sorted(work.edges),
            products=np.array(sorted(work.products), np.int64).reshape(-1, 2),
            gradients=np.array(sorted(work.gradients), np.int64).reshape(-1, 2),
            masked=sorted(work.masked),
            passed=sorted(work.passed),
        )
        try:
            done = subprocess.run(
                python_command("-m", "graphprep.plan.rates_process", str(path), str(processes)),
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
                **child_settings({**HEAP, "OMP_NUM_THREADS": threads}),
            )
        except subprocess.TimeoutExpired as error:
            raise TrainingError(f"measuring rates took longer than {SECONDS:.0f} s; the machine is busy") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise TrainingError(f"torch cannot measure rates here: {last[0]}; run `graphprep doctor`")
    answers = json.loads(done.stdout.splitlines()[-1])

    def slowest(kind: str) -> dict[str, float]:
        return {key: max(answer[kind][key] for answer in answers) for key in answers[0][kind]}

    return Rates(
        **{kind: slowest(kind) for kind in KINDS},
        device=answers[0]["device"],
        threads=answers[0]["threads"],
        name=answers[0]["name"],
        memory_gb=answers[0]["memory_gb"],
        processes=processes,
    )
