"""`python -m trainer.launch CACHE [options]`: start one rank a part on this machine, and end with their exit status.

While it runs it can be asked to go on with another cache of the graph (`trainer.startup.next_cache`), in other parts or
in another number of them.

Each run has its own store on a free port, chosen by the system, so runs on one machine do not disturb each other.
Nothing is printed about a failed rank that has printed its error.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from trainer.base.child_process import end_with_parent, forget_current_folder
from trainer.base.errors import TrainerError
from trainer.base.freed_memory import HUGE_PAGES
from trainer.base.printable import printable
from trainer.base.torch_import import prepare_torch_import
from trainer.config.command_line import parse
from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.events import EventCache
from trainer.dist.rank_processes import RankProcesses
from trainer.reporting.live_view import ERASE_BELOW, shows_live
from trainer.startup.cache_family import with_cache_for
from trainer.startup.next_cache import NextCache, words_with
from trainer.startup.opening import open_for

THREADS = "OMP_NUM_THREADS"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all ranks; returns the exit status of the one that failed first, or 0."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in arguments
    try:
        options, _ = with_cache_for(parse(arguments), ranks=None)
        cache = open_for(options)
    except TrainerError as error:
        if debug:
            traceback.print_exc()
        print(printable(f"trainer: {error}"), file=sys.stderr)
        return error.exit_status
    return _launch(cache, arguments, options)


def _launch(cache: Cache | EventCache, arguments: Sequence[str], options: Options) -> int:
    added = _prepare_environment(cache.num_parts, debug=options.debug, saves_memory=options.exchange == "sequential")
    if __name__ == "__main__" and sys.platform == "linux" and HUGE_PAGES[0] in added:
        os.execv(sys.executable, sys.orig_argv)  # the C library reads it when a program starts, and a fork does not
    prepare_torch_import()
    following = NextCache(options, cache)
    processes = RankProcesses(restarts=options.restarts, must_give_way=following.is_requested)
    failed = processes.run(_program(arguments, options), cache.num_parts)
    while processes.gave_way and processes.stop_signal is None:
        before, cache = cache, following.taken()
        if THREADS in added:
            os.environ[THREADS] = _threads_a_rank(cache.num_parts)
        ranks = f"{before.num_parts} rank(s) on {before.folder}"
        print(printable(f"trainer: {ranks} give way to {cache.num_parts} on {cache.folder}"), file=sys.stderr)
        arguments = words_with(arguments, str(cache.folder))
        failed = processes.run(_program(arguments, options), cache.num_parts)
    if (failed or processes.stop_signal is not None) and shows_live(options, sys.stderr):
        print(ERASE_BELOW, end="", file=sys.stderr, flush=True)  # what a rank that was ended has left
    if processes.stop_signal is not None:
        return 128 + processes.stop_signal
    return _status_of(failed) if failed else 0


def _program(arguments: Sequence[str], options: Options) -> Sequence[str] | Callable[[], int]:
    """What each rank runs."""
    return partial(_forked_rank(), arguments) if _may_fork(options) else ["-m", "trainer", *arguments]


def _may_fork(options: Options) -> bool:
    """Whether ranks may be forks of this process, which import torch once in place of once each.

    Where torch can use GPUs, that is only certain if none is asked for: a driver that was asked for GPUs here would be
    of no use to forks.
    """
    if sys.platform != "linux":
        return False
    if options.device == "cpu":
        return True
    from torch import version

    return version.cuda is None and version.hip is None


def _forked_rank() -> Callable[[Sequence[str]], int]:
    """What a fork runs, with all that it needs imported."""
    import torch

    import trainer.run  # noqa: F401
    from trainer.__main__ import main

    def run_rank(arguments: Sequence[str]) -> int:
        threads = os.environ.get(THREADS, "")
        if threads.isdecimal() and int(threads) != torch.get_num_threads():
            torch.set_num_threads(int(threads))  # torch was imported for another number of ranks
        return main(arguments)

    return run_rank


def _prepare_environment(num_ranks: int, *, debug: bool, saves_memory: bool) -> set[str]:
    """Set, for the ranks to inherit, what the user has not set; the names of the variables that are new."""
    before = set(os.environ)
    os.environ.setdefault(THREADS, _threads_a_rank(num_ranks))
    if not saves_memory:
        os.environ.setdefault(*HUGE_PAGES)
    if not debug:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    return set(os.environ) - before


def _threads_a_rank(num_ranks: int) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return str(max(1, cores // num_ranks))


def _status_of(exit_codes: Mapping[int, int]) -> int:
    """The exit status of the rank whose failure ended the run.

    Args:
        exit_codes: of all failed ranks; -9 means that signal 9 ended one. A rank that exited by itself comes first,
            then one that a signal ended, which could not print why. Ctrl-C in a terminal ends all; nothing is printed.
    """
    status = next((code for code in exit_codes.values() if code > 0), None)
    if status is not None:
        return status
    rank, code = min(exit_codes.items(), key=lambda item: item[1] == -signal.SIGTERM)
    if code == -signal.SIGINT:
        return 128 - code
    name = signal.Signals(-code).name
    print(
        f"trainer: rank {rank} was ended by {name}; if nobody sent it, the machine may be short of memory",
        file=sys.stderr,
    )
    return 128 - code


if __name__ == "__main__":
    end_with_parent()
    forget_current_folder()
    # Until `RankProcesses` watches for it, Ctrl-C just ends this process: there is no rank yet.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
