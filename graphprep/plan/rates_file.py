"""The rates of a machine in a file: `graphprep doctor --rates FILE` writes it there, `plan --rates FILE` reads it here.

A file knows no graph and no model, so rates are measured at a few widths, on a random graph, and what lies between is
interpolated: the logarithm of seconds over the logarithms of widths.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from graphprep.core.types import Csr
from graphprep.errors import UsageError
from graphprep.plan.published_rates import ByKey
from graphprep.plan.rates import KINDS, Rates, measured_rates
from graphprep.plan.training import Work
from graphprep.system.files.atomic import published_file
from graphprep.system.files.regular_file import regular_file
from graphprep.version import __version__

FORMAT = 1
PAIRS = ("products", "gradients")
"""Kinds by two widths."""
WIDTHS = (8, 32, 128, 512)
ROWS, EDGES = 50_000, 1_000_000
"""Of the random graph."""


def measure_machine(processes: int) -> dict[str, Any]:
    """The rates of `processes` ranks side by side on this machine, as plain JSON values.

    Raises:
        TrainingError: torch cannot measure here.
    """
    random = np.random.default_rng(0)
    ends = np.sort(random.integers(0, ROWS, EDGES))
    indptr = np.searchsorted(ends, np.arange(ROWS + 1)).astype(np.int64)
    sample = Csr(indptr=indptr, indices=random.integers(0, ROWS, EDGES).astype(np.int32), num_sources=ROWS)
    one = Counter(dict.fromkeys(WIDTHS, 1))
    pair = Counter({(a, b): 1 for a in WIDTHS for b in WIDTHS})
    work = Work(edges=one, products=pair, gradients=pair, masked=one, passed=one)
    rates = measured_rates(sample, work, processes=processes)
    return {
        "graphprep_rates": FORMAT,
        "graphprep": __version__,
        "host": platform.node(),
        "device": rates.device,
        "name": rates.name,
        "memory_gb": rates.memory_gb,
        "threads": rates.threads,
        "ranks": processes,
        **{kind: dict(getattr(rates, kind)) for kind in KINDS},
    }


def save(document: Mapping[str, Any], out: Path) -> None:
    """Write a machine's rates; the file has its name only when it is whole."""
    with published_file(out) as file:
        file.write(json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")


def read(path: Path) -> Rates:
    """The rates of a file.

    Raises:
        UsageError: it cannot be read, or is no file of `graphprep doctor --rates`.
    """
    advice = "give a file that `graphprep doctor --rates FILE` wrote"
    try:
        document = json.loads(regular_file(path).read_bytes())
    except OSError as error:
        raise UsageError(f"--rates {path} cannot be read ({error.strerror}); {advice}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--rates {path} is not JSON; {advice}") from error
    if not isinstance(document, dict) or document.get("graphprep_rates") != FORMAT:
        raise UsageError(f"--rates {path} holds no rates of format {FORMAT}; {advice}")
    try:
        by_kind = {kind: _between(document[kind], 2 if kind in PAIRS else 1) for kind in KINDS}
        return Rates(
            **by_kind,
            device=str(document["device"]),
            name=str(document["name"]),
            memory_gb=document["memory_gb"],
            threads=document["threads"],
            processes=int(document["ranks"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"--rates {path} is damaged ({type(error).__name__}: {error}); {advice}") from error


def read_with_digest(path: Path) -> tuple[Rates, str]:
    """The rates of a file, and the SHA-256 of what decides them.

    Raises:
        UsageError: as for `read`.
    """
    rates = read(path)
    return rates, hashlib.sha256(regular_file(path).read_bytes()).hexdigest()


def _between(seconds: Mapping[str, float], dimensions: int) -> ByKey:
    """Seconds at any width, from those at a grid of widths.

    Raises:
        ValueError: there is no such grid, or a time is not above 0.
    """
    from scipy.interpolate import RegularGridInterpolator

    points = {tuple(map(int, key.split(","))): float(value) for key, value in seconds.items()}
    widths = sorted({key[0] for key in points})
    keys = product(widths, repeat=dimensions)
    grid = np.array([points[key] for key in keys])
    if len(widths) < 2 or widths[0] < 1 or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError("seconds above 0 at two widths or more are needed")
    logarithms = np.log(grid).reshape([len(widths)] * dimensions)
    found = RegularGridInterpolator([np.log(widths)] * dimensions, logarithms, bounds_error=False, fill_value=None)
    return ByKey(lambda *key: float(np.exp(found(np.log(np.array(key, float)))[0])))
