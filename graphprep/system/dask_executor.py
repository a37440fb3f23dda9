"""The executor on a Dask cluster. The only module that imports Dask, and imported only when it is asked for.

A piece whose worker is lost is done again by another: by Dask's scheduler, and where that gives up, because several
workers were lost over the same piece, from here. What is shared goes to the scheduler with the work, so that it too can
be made again on a worker that is new.
"""

from __future__ import annotations

import importlib
import re
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from graphprep.errors import GraphprepError, UsageError
from graphprep.system import progress
from graphprep.system.child_process import safe_path_for_children
from graphprep.system.payload import SharedPayload

Piece = TypeVar("Piece")
Result = TypeVar("Result")

LOCAL = re.compile(r"local:([1-9]\d{0,3})")
ADDRESS = re.compile(r"(\w+://)?[\w.-]+:\d+|\w+://.+")
TIMES = 5
"""that a piece is given to the cluster"""
AHEAD = 2
"""pieces that are under way for each worker"""
SECONDS_TO_CONNECT = 30
SECONDS_TO_START = 120
ALLOWED_FAILURES = 10
"""workers that may be lost over one piece before the scheduler gives it up"""
LOST_FOR_GOOD = "1000 days"
"""after which a cluster that was started here takes a worker for lost that has not come back, and ends the process that
starts it again; by default 15 seconds, in which a slow machine, or a second loss, leaves no workers at all"""
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_WITHOUT_WORKERS = 300.0
"""after which a cluster that has none is given up"""


class WorkersLostError(GraphprepError, RuntimeError):
    """The cluster lost its workers again and again, or all of them for good."""

    exit_status = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskExecutor:
    """See `graphprep.system.executor.Executor`."""

    client: Any
    is_elsewhere: bool = True

    def map(
        self,
        function: Callable[..., Result],
        pieces: Sequence[Piece],
        *shared: object,
        needed: int,  # noqa: ARG002 - a cluster's workers know their own memory
    ) -> Iterator[Result]:
        """See `Executor.map`."""
        running: deque[tuple[Piece, Any]] = deque()
        payload = SharedPayload(shared).sent()
        submitted = self._submit(_same, payload)

        def start(piece: Piece) -> Any:
            nonlocal submitted
            if submitted.status in ("error", "cancelled", "lost"):
                submitted = self._submit(_same, payload)
            return self._submit(_done, function, piece, submitted)

        try:
            for piece in pieces:
                # How many workers there are is a question to the scheduler, for which the first pieces do not wait.
                if len(running) >= AHEAD and len(running) >= AHEAD * len(self.client.nthreads()):
                    yield self._result(*running.popleft(), start)
                running.append((piece, start(piece)))
            while running:
                yield self._result(*running.popleft(), start)
        finally:
            self.client.cancel([*(future for _, future in running), submitted])

    def _submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(function, *arguments, pure=False)

    def _result(self, piece: Piece, future: Any, start: Callable[[Piece], Any]) -> Any:
        """What came of a piece, which is begun again if its workers are lost."""
        from concurrent.futures import CancelledError

        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        for _ in range(TIMES):
            try:
                return self._waited_for(future)
            except (KilledWorker, CancelledError, CommClosedError) as problem:
                progress.warn(
                    f"workers of the Dask cluster were lost ({type(problem).__name__}); their work is repeated"
                )
                future = start(piece)
        raise WorkersLostError(
            f"the Dask cluster lost its workers {TIMES} times over the same piece of work; they may lack memory: give "
            "fewer workers, or ones with more of it"
        )

    def _waited_for(self, future: Any) -> Any:
        """The result of a piece, when it is there.

        Raises:
            WorkersLostError: there are no workers, and none come.
        """
        seen = time.monotonic()
        while True:
            try:
                return future.result(timeout=SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                if future.done():  # just now, or with an error of this kind
                    return future.result()
            if self.client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > SECONDS_WITHOUT_WORKERS:
                raise WorkersLostError(
                    f"the Dask cluster has had no workers for {SECONDS_WITHOUT_WORKERS:.0f} s; start some and run the "
                    "command again"
                )


@contextmanager
def open_dask(where: str) -> Iterator[DaskExecutor]:
    """Join a cluster, or start one on this machine that ends with the block.

    Args:
        where: a scheduler's address, or local:N.

    Raises:
        UsageError: Dask is not installed, the words are neither, or no scheduler answers.
    """
    local = LOCAL.fullmatch(where)
    if local is None and (where.startswith("local") or not ADDRESS.fullmatch(where)):
        raise UsageError(
            f"--dask {where!r} is neither a scheduler's address (tcp://HOST:PORT) nor local:N for N workers"
        )
    try:
        configuration: Any = importlib.import_module("dask.config")
        distributed: Any = importlib.import_module("distributed")
    except ImportError as problem:
        raise UsageError(
            f"--dask needs a package that is not here ({problem}): pip install 'graphprep[dask]'"
        ) from problem
    settings = {
        "distributed.logging.distributed": "error",
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.deploy.lost-worker-timeout": LOST_FOR_GOOD,
    }
    with configuration.set(settings):
        if local is None:
            try:
                client = distributed.Client(where, timeout=SECONDS_TO_CONNECT, set_as_default=False)
            except (OSError, TimeoutError, ValueError) as problem:
                raise UsageError(
                    f"--dask {where}: no scheduler answers there ({problem or type(problem).__name__}); start one by "
                    "`dask scheduler`, or give local:N"
                ) from problem
            with client:
                progress.say(f"{len(client.nthreads())} workers at {where}")
                yield DaskExecutor(client=client)
            return
        with (
            safe_path_for_children(),
            distributed.LocalCluster(
                n_workers=0,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # any free port, as there may be other clusters
                memory_limit=0,
                silence_logs=50,
            ) as cluster,
            distributed.Client(cluster, timeout=SECONDS_TO_START, set_as_default=False) as client,
        ):
            resource_tracker.ensure_running()  # which would unblock them where it is started
            cluster.sync(_interrupts_kept_off)
            cluster.scale(int(local[1]))
            try:
                client.wait_for_workers(int(local[1]), timeout=SECONDS_TO_START)
            except TimeoutError as problem:
                raise UsageError(
                    f"--dask {where}: the workers did not start within {SECONDS_TO_START} s; give fewer, or run it "
                    "again when the machine is less busy (a script needs its calls below if __name__ == '__main__':)"
                ) from problem
            yield DaskExecutor(client=client)


async def _interrupts_kept_off() -> None:
    """Block Ctrl-C in the thread of a cluster, from which the workers that it starts, also later ones, have the mask.

    A terminal sends it to all processes of a command. This one ends its workers in order; by themselves they would each
    write a traceback.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _same(value: Result) -> Result:
    """What is shared, as the result of a piece of work: so it can be made again where it was lost."""
    return value


def _done(function: Callable[..., Result], piece: Any, payload: Any) -> Result:
    return function(piece, *payload.content)
