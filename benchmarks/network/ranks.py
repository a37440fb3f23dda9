"""A training run across the machines of a laboratory: one torchrun a machine, and what its ranks report."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.network.laboratory import Laboratory

PORT = 29500


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of it."""

    statuses: tuple[int, ...]
    """Of each machine's torchrun."""
    lines: tuple[dict[str, Any], ...]
    """The epochs that rank 0 reported, with `at`: seconds from the start until each line came."""
    result: dict[str, Any] | None
    """The last line of all: accuracy, bytes and seconds by layer, direction and rank. None if the run failed."""
    said: tuple[str, ...]
    """What each machine wrote to standard error."""
    seconds: float
    """From the start of the programs to the end of the last."""

    def messages(self) -> list[str]:
        """The ranks' own sentences on standard error, each once, without the rank's number."""
        found = [line for text in self.said for line in text.splitlines() if line.startswith("rank ")]
        return list(dict.fromkeys(line.partition(": ")[2] for line in found))


class Failed(RuntimeError):
    """A run that should have gone well did not."""


def train(
    lab: Laboratory,
    cache: Path,
    options: Sequence[str],
    *,
    patience_s: float = 300.0,
    on_line: Callable[[dict[str, Any]], None] | None = None,
) -> Run:
    """Train a cache across all machines.

    Args:
        lab: its machines have as many ranks as the cache has parts.
        cache: readable from every machine, being on one disk.
        options: the trainer's; `--json` is added.
        patience_s: after which all programs are killed.
        on_line: is called with each line that rank 0 reports, from another thread.
    """
    program = ["-m", "trainer", str(cache), "--device", "cpu", "--json", *options]
    return across(lab, program, patience_s=patience_s, on_line=on_line)


def train_all(lab: Laboratory, runs: list[dict[str, Any]], *, patience_s: float) -> list[dict[str, Any]]:
    """Train several caches, or one with several options, by the same processes: one after the other.

    Args:
        lab: its machines have as many ranks as the caches have parts.
        runs: the trainer's options by name, the folder of the cache among them.
        patience_s: for all of them.

    Returns:
        the result of each run, with its epochs under `lines`.

    Raises:
        Failed: a run did not go well; the message has what the ranks said.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted, results = Path(folder, "runs.json"), Path(folder, "results.json")
        wanted.write_text(json.dumps(runs))
        run = across(lab, ["-m", "benchmarks.network.in_turn", str(wanted), str(results)], patience_s=patience_s)
        if any(run.statuses):
            raise Failed(f"the runs ended with {run.statuses}: {' / '.join(run.messages()) or run.said}")
        found: list[dict[str, Any]] = json.loads(results.read_text())
        return found


def across(
    lab: Laboratory,
    program: Sequence[str],
    *,
    patience_s: float,
    on_line: Callable[[dict[str, Any]], None] | None = None,
) -> Run:
    """Run a program by one torchrun a machine; see `train`."""
    started = time.perf_counter()
    begun = [lab.start(node, torchrun(lab, place, program)) for place, (node, _) in enumerate(lab.machines)]
    lines: list[dict[str, Any]] = []
    said = [""] * len(begun)

    def hear(place: int, process: subprocess.Popen[str]) -> None:
        said[place] = process.stderr.read() if process.stderr else ""

    def read(process: subprocess.Popen[str]) -> None:
        for text in process.stdout or ():
            if text.startswith("{"):
                lines.append(json.loads(text) | {"at": time.perf_counter() - started})
                if on_line is not None:
                    on_line(lines[-1])

    readers = [threading.Thread(target=read, args=(process,)) for process in begun]
    readers += [threading.Thread(target=hear, args=(place, process)) for place, process in enumerate(begun)]
    for reader in readers:
        reader.start()
    deadline = started + patience_s
    try:
        for process in begun:
            process.wait(timeout=max(0.1, deadline - time.perf_counter()))
    except subprocess.TimeoutExpired:
        pass
    finally:
        lab.end_programs()
        for reader in readers:
            reader.join(timeout=30)
    result = lines.pop() if lines and "seconds_by_rank" in lines[-1] else None
    return Run(
        statuses=tuple(process.wait() for process in begun),
        lines=tuple(lines),
        result=result,
        said=tuple(said),
        seconds=time.perf_counter() - started,
    )


def torchrun(lab: Laboratory, place: int, program: Sequence[str]) -> list[str]:
    """The command that starts the ranks of one machine, the first of which is the meeting point."""
    machines = lab.machines
    node, machine = machines[place]
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        *("--nnodes", str(len(machines)), "--nproc-per-node", str(len(machine.ranks)), "--node-rank", str(place)),
        *("--master-addr", lab.address(machines[0][0]), "--master-port", str(PORT)),
        *("--local-addr", lab.address(node)),
        *program,
    ]
