"""`torchrun --nproc-per-node K -m trainer CACHE [options]`: one rank of a training run.

torch is imported after the checks that do not need it, so that a wrong option or a wrong number of ranks is reported at
once. An error is one sentence, printed by the rank that raised it, or, where all ranks raise the same one, by the first
rank on each machine. The other ranks wait for torchrun's supervisor to end them, and exit if it does not.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence

from trainer.base.child_process import end_with_parent, forget_current_folder
from trainer.base.errors import LostPeerError, StoppedError, TrainerError, found_by_every_rank
from trainer.base.printable import PrintableFormatter
from trainer.base.torch_import import prepare_torch_import
from trainer.config.command_line import parse
from trainer.data.cache import Cache
from trainer.dist.rank_info import RankInfo
from trainer.startup.cache_family import with_cache_for
from trainer.startup.opening import open_for
from trainer.startup.preflight import check_world

log = logging.getLogger("trainer")

_SUPERVISOR_TIMEOUT = 30.0
"""Seconds for torchrun's supervisor to end a rank that has nothing to print."""
_LOST_PEER_TIMEOUT = 2.0
"""Seconds for it to end the other ranks of a machine after the first has printed that a peer is silent."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank; returns the exit status."""
    rank_info, debug = RankInfo(), False
    try:
        with found_by_every_rank():
            rank_info = RankInfo.from_environment(os.environ)
            _log_to_standard_error(rank_info, logging.INFO)
            options = parse(arguments)
            debug = options.debug
            log.setLevel(logging.DEBUG if debug else logging.WARNING if options.quiet else logging.INFO)
            options, choice = with_cache_for(options, rank_info.world)
            if choice is not None and rank_info.rank == 0:
                log.info("%s", choice)
            cache = open_for(options)
            if isinstance(cache, Cache):  # any number of ranks trains on events
                check_world(cache, rank_info)
        prepare_torch_import()
        from trainer.run import run

        run(options, cache, rank_info)
    except TrainerError as error:
        _print_error(error, rank_info, debug=debug)
        return error.exit_status
    return 0


def _log_to_standard_error(rank_info: RankInfo, level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(f"rank {rank_info.rank}: %(message)s"))
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(level)


def _print_error(error: TrainerError, rank_info: RankInfo, *, debug: bool) -> None:
    """Print the error on the rank that has to."""
    prints = not error.shared or rank_info.local_rank == 0
    if rank_info.is_supervised:
        time.sleep(_seconds_to_wait(error, rank_info, prints=prints))
    if prints:
        log.error("%s", error, exc_info=error if debug else None)


def _seconds_to_wait(error: TrainerError, rank_info: RankInfo, *, prints: bool) -> float:
    """Seconds to wait for the supervisor before this rank prints anything or exits."""
    if isinstance(error, LostPeerError) and error.timed_out:
        # All ranks of the machine time out at about the same time, and no other machine's supervisor ends them.
        return _LOST_PEER_TIMEOUT * rank_info.local_rank
    waits = not prints or isinstance(error, LostPeerError)
    return _SUPERVISOR_TIMEOUT if waits and not isinstance(error, StoppedError) else 0.0


if __name__ == "__main__":
    # A rank that waits in a library for its peers does not return to Python, so Ctrl-C must not need Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent(started_otherwise="TORCHELASTIC_RUN_ID" in os.environ)
    forget_current_folder()
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # All is written, and other ranks may be gone: exit without the shutdown of the communication libraries, whose
    # threads sometimes abort a process at its end.
    os._exit(status)
