"""`graphprep` and `python -m graphprep`: the command line.

`python -m` puts the current folder before all others, where a user's random.py or cli.py would be executed in place of
what was meant. It is taken out before anything else is imported; `python -P -m graphprep` never looks there at all,
not even for `graphprep` itself.
"""

import os
import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported ends the process without a traceback."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL) if _heeds_interrupts() else None
    os.environ["PYTHONSAFEPATH"] = "1"  # for Python processes that libraries start
    from cli import main as command_line

    if before is not None:
        signal.signal(signal.SIGINT, before)
    command_line(prog_name="graphprep")


def _heeds_interrupts() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _forget_current_folder() -> None:
    """Undo what `python -m` did, but where the package itself lies in the current folder."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()) and os.getcwd() != root:
        del sys.path[0]


if __name__ == "__main__":
    _forget_current_folder()
    main()
