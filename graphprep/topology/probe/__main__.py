"""`torchrun --nproc-per-node K -m graphprep.topology.probe --out FILE`: one rank.

An error is printed once: by the rank that found it or, where all ranks find the same, by the first one of each machine.
The other ranks wait for torchrun to end them, because torchrun ends all ranks as soon as one exits.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence

from graphprep.errors import GraphprepError
from graphprep.system import progress
from graphprep.system.child_process import end_with_parent
from graphprep.topology.probe.options import parse
from graphprep.topology.probe.rank_info import RankInfo
from graphprep.topology.probe.rendezvous import LostRankError

GRACE_S = 30.0
"""For torchrun to end a rank that has no error of its own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank; returns the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    first_here = os.environ.get("LOCAL_RANK", "0") == "0"
    debug = "--debug" in words
    try:
        options = parse(words)
        rank_info = RankInfo.from_environment(os.environ)
        progress.configure(quiet=options.quiet)
        from graphprep.topology.probe.run import run

        run(options, rank_info)
    except GraphprepError as error:
        # All ranks of a machine find the same errors, except those of the file, which rank 0 writes.
        if "TORCHELASTIC_RUN_ID" in os.environ and (not first_here or isinstance(error, LostRankError)):
            time.sleep(GRACE_S)
        return _say(error, str(error), first_here, debug, error.exit_status)
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        return _say(error, f"the operating system says: {error.strerror or error}{where}", True, debug, 1)
    except Exception as error:
        if debug:
            raise
        kind = type(error).__name__
        sentence = f"internal error, please report it with the output of --debug: {kind}: {error}"
        return _say(error, sentence, True, debug, 1)
    return 0


def _say(error: Exception, sentence: str, speaks: bool, debug: bool, status: int) -> int:
    if speaks:
        if debug:
            traceback.print_exception(error)
        print(f"graphprep: error: {sentence}", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    # A rank that waits in a library for the others does not return to Python, so Ctrl-C must not need Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent(started_otherwise="TORCHELASTIC_RUN_ID" in os.environ)
    exit_status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if exit_status:
        os._exit(exit_status)  # the others may be gone: without the shutdown of the communication libraries
