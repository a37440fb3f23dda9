"""Starts all ranks of a run on this machine, restarts them after a failure, and stops them together.

Ranks can also be asked to give way to others: they finish their epoch, write a checkpoint and end, however long it
takes.

Ranks are forks of this process, which import torch once, or new interpreters.

They connect to a key-value store (torch's TCPStore) in this process, on a port that the system chooses, and they send
each other rows by sockets. All of these listen on the loopback interface alone, so nobody outside this machine can reach
them, and nothing that is read from them is a pickle. torchrun's supervisor does neither: its store listens on all
interfaces, and the state that its rendezvous keeps there is a pickle.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from types import FrameType
from typing import Any

from trainer.base.child_process import start_python
from trainer.base.errors import StoppedError
from trainer.base.forked_process import ForkedProcess

LOOPBACK = "127.0.0.1"
_POLL = 0.05
"""Seconds between looks at the ranks."""
_GRACE = 30.0
"""Seconds for ranks that are asked to stop, in which they may write a checkpoint."""
_Rank = subprocess.Popen[bytes] | ForkedProcess
_GIVEN_WAY = (0, StoppedError.exit_status, -signal.SIGTERM)
"""Exit codes of ranks that were asked to give way; SIGTERM ends one that has not begun to train."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RankProcesses:
    """The ranks of one run. Signals that ask this process to stop go to them, from when the object is made."""

    def __init__(self, *, restarts: int, must_give_way: Callable[[], bool] = lambda: False) -> None:
        """Start nothing yet.

        Args:
            restarts: how often all ranks are started again after one failed.
            must_give_way: asked again and again while ranks run; once it is true, they are asked to end.
        """
        self._restarts, self._must_give_way = restarts, must_give_way
        self._run_id = uuid.uuid4().hex
        self._ranks: list[_Rank] = []
        self.gave_way = False
        """Whether the last ranks have ended since others are to be started, each after writing a checkpoint."""
        self.stop_signal: int | None = None
        """The signal that asked this process to stop, if one did."""
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._on_signal)

    def run(self, program: Sequence[str] | Callable[[], int], num_ranks: int) -> dict[int, int]:
        """Run all ranks to their end.

        Args:
            program: of each rank: `-m MODULE ...`, which a new interpreter runs, or a function that gives the exit
                status, which a fork of this process runs.
            num_ranks: to start.

        Returns:
            The exit codes of the ranks that failed, by rank; -9 says that signal 9 ended one. Empty when all went well
            or a signal stopped the run.
        """
        failed: dict[int, int] = {}
        for attempt in range(self._restarts + 1):
            failed = self._attempt(program, num_ranks, attempt)
            if not failed or self.stop_signal is not None:
                break
        return failed if self.stop_signal is None else {}

    def _attempt(self, program: Sequence[str] | Callable[[], int], num_ranks: int, attempt: int) -> dict[int, int]:
        ranks = self._ranks = []
        self.gave_way, is_asked = False, False
        expected: Collection[int] = (0,)
        with socket.create_server((LOOPBACK, 0), backlog=max(128, num_ranks)) as listener:
            port = listener.getsockname()[1]
            try:
                while len(ranks) < num_ranks and self.stop_signal is None:
                    variables = self._variables(len(ranks), num_ranks, attempt, port)
                    if callable(program):
                        ranks.append(ForkedProcess(program, variables, closed=[listener.fileno()]))
                    else:
                        ranks.append(start_python(program, variables))
                # New interpreters import torch too, and ranks that are faster wait for the answer.
                store = _store_at(listener)
                while self.stop_signal is None and _are_running(ranks, expected):
                    time.sleep(_POLL)
                    if not is_asked and self._must_give_way():
                        is_asked, expected = True, _GIVEN_WAY
                        for rank in ranks:
                            rank.send_signal(signal.SIGTERM)
                failed = {
                    number: status for number, rank in enumerate(ranks) if (status := rank.poll() or 0) not in expected
                }
                self.gave_way = not failed and any(rank.poll() for rank in ranks)
                _stop(ranks, self.stop_signal or signal.SIGTERM, is_asked=is_asked)
                del store
            except BaseException:
                for rank in ranks:
                    rank.kill()
                raise
        return failed

    def _variables(self, rank: int, num_ranks: int, attempt: int, port: int) -> dict[str, str]:
        """The variables that torchrun sets, so that the ranks' code is the same under both."""
        world, loopback = str(num_ranks), _loopback_interface()
        return {
            "RANK": str(rank),
            "WORLD_SIZE": world,
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": world,
            "GROUP_RANK": "0",
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": self._run_id,
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(self._restarts),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "GLOO_SOCKET_IFNAME": loopback,
            "NCCL_SOCKET_IFNAME": f"={loopback}",
        }

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.stop_signal is None:
            self.stop_signal = number
            return
        for rank in self._ranks:  # they are waited for already, and a second signal ends a rank at once
            rank.send_signal(_forwarded(number))


def _store_at(listener: socket.socket) -> Any:
    """A store that answers at a socket that listens already; TCPStore's own would listen on all interfaces."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    return TCPStore(
        LOOPBACK,
        listener.getsockname()[1],
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def _are_running(ranks: Sequence[_Rank], expected: Collection[int]) -> bool:
    """Whether some rank still runs and none has ended with another exit code than expected."""
    codes = [rank.poll() for rank in ranks]
    return None in codes and all(code is None or code in expected for code in codes)


def _stop(ranks: Sequence[_Rank], number: int, *, is_asked: bool) -> None:
    """Send a signal to the ranks that still run, and kill those that do not end in time.

    Args:
        ranks: of the run.
        number: of the signal.
        is_asked: whether they had SIGTERM already, of which a second one would end them without a checkpoint.
    """
    for rank in ranks:
        if rank.poll() is None and not (is_asked and _forwarded(number) == signal.SIGTERM):
            rank.send_signal(_forwarded(number))
    deadline = time.monotonic() + _GRACE
    for rank in ranks:
        try:
            rank.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


def _forwarded(number: int) -> int:
    """SIGTERM for a terminal that was closed: write a checkpoint, and end."""
    return signal.SIGTERM if number == signal.SIGHUP else number


def _loopback_interface() -> str:
    """`lo` on Linux, `lo0` elsewhere."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ("lo", "lo0") if name in names), "lo")
