"""All ranks of a probe on this machine, started and watched by this process.

They connect to torch's key-value store in this process and to each other on the loopback interface alone, so no other
machine can reach them, and nothing that is read there is a pickle. Both differ from torchrun.

The first rank that fails ends the others. Only its own error is printed; if a signal ended it, this process says so.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from typing import Any

from graphprep.errors import TopologyError, UsageError
from graphprep.system.child_process import child_settings, python_command
from graphprep.system.threads import cores
from graphprep.topology.network import MAX_RANKS
from graphprep.topology.probe.options import PROGRAM, ProbeOptions

LOOPBACK = "127.0.0.1"
POLL_S, GRACE_S = 0.05, 30.0
"""Between polls of the ranks, and for ranks to end after SIGTERM."""


def start(options: ProbeOptions, num_ranks: int | None) -> int:
    """Run a probe to its end.

    Args:
        options: for every rank.
        num_ranks: on this machine; None for one a GPU.

    Returns:
        0, or the status of the rank that failed, which has said why.

    Raises:
        UsageError: the number of ranks is unknown, too small or too large.
        TopologyError: a signal ended a rank.
        KeyboardInterrupt: this process was interrupted.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    count = _gpus() if num_ranks is None else num_ranks
    if num_ranks is None and count < 2:
        raise UsageError(f"torch sees {count} GPU(s) here; give --nproc K for K ranks on the CPU")
    if not 2 <= count <= MAX_RANKS:
        raise UsageError(f"--nproc {count} must be 2 to {MAX_RANKS:,}: links join ranks")
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // count))
    failed = _run(["-u", "-m", PROGRAM, *options.to_arguments()], count, {"OMP_NUM_THREADS": threads})
    return _status(failed) if failed else 0


def _run(words: list[str], count: int, environment: dict[str, str]) -> dict[int, int]:
    """Run all ranks to their end; the exit codes of those that failed first, by rank."""
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), "lo")
    variables = {
        **environment,
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": LOOPBACK,
        "TORCHELASTIC_RUN_ID": uuid.uuid4().hex,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": f"={loopback}",
    }
    ranks: list[subprocess.Popen[bytes]] = []
    with socket.create_server((LOOPBACK, 0), backlog=max(128, count)) as listener:
        variables["MASTER_PORT"] = str(listener.getsockname()[1])
        try:
            for rank in range(count):
                settings = child_settings({**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                ranks.append(subprocess.Popen(python_command(*words), **settings))
            store = _store_at(listener)
            while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
                time.sleep(POLL_S)
            failed = {number: rank.returncode for number, rank in enumerate(ranks) if rank.poll()}
            del store
        finally:
            _end(ranks)
    return failed


def _store_at(listener: socket.socket) -> Any:
    """A store on an open listening socket; TCPStore's own would listen on all interfaces."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    port = listener.getsockname()[1]
    return TCPStore(LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())


def _end(ranks: list[subprocess.Popen[bytes]]) -> None:
    for rank in ranks:
        rank.terminate()
    deadline = time.monotonic() + GRACE_S
    for rank in ranks:
        try:
            rank.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _status(codes: dict[int, int]) -> int:
    """The status of the rank that failed first: one that exited, else one that a signal ended."""
    by_itself = [code for code in codes.values() if code > 0]
    if by_itself:
        return by_itself[0]
    rank = min(codes)
    if codes[rank] == -signal.SIGINT:
        raise KeyboardInterrupt  # Ctrl-C in a terminal ends all
    name = signal.Signals(-codes[rank]).name
    raise TopologyError(
        f"rank {rank} of the probe was ended by {name}, and so the others were; "
        "if nobody sent it, the machine may be short of memory"
    )
