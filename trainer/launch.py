"""`python -m trainer.launch CACHE [options]`: start one rank a part on this machine, and end with their exit status.

The ranks are started and watched by torchrun's supervisor in this process. Each run has its own store on a free port,
chosen by the system, so runs side by side never meet. What torchrun would print about a failed rank is left out: the
rank has said its sentence already.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
import uuid
from collections.abc import Mapping, Sequence

from trainer.cache import Cache, open_cache
from trainer.command_line import parse
from trainer.errors import TrainerError
from trainer.preflight import check_task
from trainer.quiet import before_torch


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all ranks; returns the exit status of the one that failed first, or 0."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in arguments
    try:
        options = parse(arguments)
        cache = open_cache(options.cache, options.target)
        check_task(cache, options)
    except TrainerError as error:
        if debug:
            traceback.print_exc()
        print(f"trainer: {error}", file=sys.stderr)
        return error.exit_status
    return _launch(cache, arguments, debug=options.debug, restarts=options.restarts)


def _launch(cache: Cache, arguments: Sequence[str], *, debug: bool, restarts: int) -> int:
    _prepare_environment(cache.num_parts, debug=debug)
    before_torch()
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if not debug:
        logging.disable(logging.CRITICAL)  # the supervisor's; the ranks log in their own processes
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=cache.num_parts,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=restarts,
        monitor_interval=0.1,
    )
    try:
        elastic_launch(config, sys.executable)("-u", "-m", "trainer", *arguments)
    except ChildFailedError as error:
        if debug:
            print(error, file=sys.stderr)
        return _status_of({rank: failure.exitcode for rank, failure in error.failures.items()})
    except SignalException as error:
        return 128 + error.sigval
    return 0


def _prepare_environment(num_ranks: int, *, debug: bool) -> None:
    """Set, for the ranks to inherit, what the user has not set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // num_ranks)))
    if not debug:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def _status_of(exit_codes: Mapping[int, int]) -> int:
    """The exit status of the rank whose failure ended the run.

    Args:
        exit_codes: of all failed ranks; -9 says that signal 9 ended one. The supervisor ends the others with SIGTERM,
            so a rank that went by itself comes first, then one that another signal ended, which could not say so.
    """
    status = next((code for code in exit_codes.values() if code > 0), None)
    if status is not None:
        return status
    rank, code = min(exit_codes.items(), key=lambda item: item[1] == -signal.SIGTERM)
    name = signal.Signals(-code).name
    print(
        f"trainer: rank {rank} was ended by {name}; if nobody sent it, the machine may be short of memory",
        file=sys.stderr,
    )
    return 128 - code


if __name__ == "__main__":
    # Until the supervisor watches for it, Ctrl-C just ends this process: there is no rank yet.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
