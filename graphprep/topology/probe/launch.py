"""All ranks of a probe on this machine, started and watched by torchrun's supervisor in this process.

The first rank that fails ends the others. Its own sentence is all that comes out; one that a signal ended could say
nothing, so that is said here.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid

from graphprep.errors import TopologyError, UsageError
from graphprep.side_by_side import cores
from graphprep.topology.network import MAX_RANKS
from graphprep.topology.probe.options import PROGRAM, ProbeOptions


def start(options: ProbeOptions, num_ranks: int | None) -> int:
    """Run a probe to its end.

    Args:
        options: for every rank.
        num_ranks: on this machine; None for one a GPU.

    Returns:
        0, or the status of the rank that failed, which has said why.

    Raises:
        UsageError: how many ranks cannot be told, or they are too few or too many.
        TopologyError: a signal ended a rank.
        KeyboardInterrupt: this process was asked to stop.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    count = _gpus() if num_ranks is None else num_ranks
    if num_ranks is None and count < 2:
        raise UsageError(f"torch sees {count} GPU(s) here; give --nproc K for K ranks on the CPU")
    if not 2 <= count <= MAX_RANKS:
        raise UsageError(f"--nproc {count} must be 2 to {MAX_RANKS:,}: links join ranks")
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // count)))
    if not options.debug:
        logging.disable(logging.CRITICAL)  # the supervisor's; ranks speak for themselves
    supervised = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        elastic_launch(supervised, sys.executable)("-u", "-m", PROGRAM, *options.to_arguments())
    except ChildFailedError as failed:
        return _status({rank: failure.exitcode for rank, failure in failed.failures.items()})
    except SignalException as asked:
        raise KeyboardInterrupt from asked
    finally:
        logging.disable(logging.NOTSET)
    return 0


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _status(codes: dict[int, int]) -> int:
    """Of the rank whose failure ended the run: one that went by itself, else one that the supervisor did not end."""
    by_itself = [code for code in codes.values() if code > 0]
    if by_itself:
        return by_itself[0]
    rank = min(codes, key=lambda rank: (codes[rank] == -signal.SIGTERM, rank))
    name = signal.Signals(-codes[rank]).name
    raise TopologyError(
        f"rank {rank} of the probe was ended by {name}, and so the others were; "
        "if nobody sent it, the machine may be short of memory"
    )
