"""Processes that begin where a new interpreter would first import torch: forks of one that has imported it.

The process that is forked has all that ranks of tests import, whichever test is the first to ask for a fork.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.popen_forkserver import Popen
from threading import Thread
from types import SimpleNamespace
from typing import IO, Any, TextIO

import pytest

from graphprep.system.child_process import PARENT
from trainer.base.freed_memory import HUGE_PAGES

_ALWAYS = [
    "trainer.temporal.run",
    "tests.trainer.rank_group",
    "tests.simulated_device.device",
    "graphprep.partition.methods.metis_worker",
    "pymetis",
]
_IF_IMPORTED_HERE = [
    "tests.trainer.minibatch.in_process",
    "tests.conftest",
    "tests.graphs",
    "tests.stores",
    "tests.system.test_executor",
    "distributed",
    "graphprep.topology",
    "torch_geometric.nn",
    "sklearn.metrics",
]
"""What tests of this session import, and so would the ranks that run their functions."""
S3_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")


def fork_context() -> ForkServerContext:
    """The context of multiprocessing whose processes are such forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_ALWAYS + [name for name in _IF_IMPORTED_HERE if name in sys.modules])
    return context


class ForkedProgram:
    """`python -m MODULE ARGUMENTS` in a fork, asked and ended as a `subprocess.Popen` is.

    It has this process's current folder. Tests of how an interpreter starts need one.
    """

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        """Start it.

        Args:
            environment: variables that it gets in addition to this process's.
        """
        context = fork_context()
        (out, their_out), (err, their_err) = context.Pipe(duplex=False), context.Pipe(duplex=False)
        # The launcher starts itself anew where it finds no setting of the C library's memory.
        variables = {**os.environ, "OMP_NUM_THREADS": "1", HUGE_PAGES[0]: "", **environment}
        arguments_of_program = ([module, *arguments], variables, their_out, their_err)
        self._process = context.Process(target=_run_program, args=arguments_of_program)
        self._process.start()
        self.stdout, self.stderr = _text(out), _text(err)
        their_out.close()
        their_err.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def __enter__(self) -> ForkedProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it has not ended after `timeout` seconds.
        """
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it prints until its end."""
        printed = ["", ""]

        def read(number: int, stream: TextIO) -> None:
            printed[number] = stream.read()
            stream.close()

        streams = [stream for stream in (self.stdout, self.stderr) if not stream.closed]
        readers = [Thread(target=read, args=each, daemon=True) for each in enumerate(streams)]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return printed[0], printed[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def subprocess_with(**changes: object) -> SimpleNamespace:
    """What a module may take for `subprocess`, with other functions or classes."""
    return SimpleNamespace(**{**vars(subprocess), **changes})


def fork_trainers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `pipelines.training.train` fork the trainer's launcher where it would start an interpreter."""

    def popen(command: list[str], *, env: Mapping[str, str], **_settings: object) -> ForkedProgram:
        return ForkedProgram(*command[command.index("-m") + 1 :], **_without_parent(env))

    monkeypatch.setattr("pipelines.training.train.subprocess", subprocess_with(Popen=popen))


class ForkedChild:
    """What `subprocess.Popen` is for `graphprep.partition.methods.subprocess_job`, as a fork.

    It is not one of multiprocessing's own processes: of those each start looks at all, in any thread, and an exit
    status can be read once.
    """

    def __init__(self, command: list[str], *, stdout: IO[bytes], env: Mapping[str, str], **_settings: object) -> None:
        words, variables = command[command.index("-m") + 1 :], _without_parent(env)
        self._child = Popen(fork_context().Process(target=_run_child, args=(words, variables, stdout.name)))

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def __enter__(self) -> ForkedChild:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        status: int | None = self._child.poll()
        return status

    def wait(self) -> None:
        self._child.wait()

    def kill(self) -> None:
        self._child.kill()


def fork_partitioners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let METIS and the other native partitioners be called by forks where this interpreter would be started."""
    python = sys.executable

    def popen(command: list[str], **settings: Any) -> ForkedChild | subprocess.Popen[bytes]:
        return ForkedChild(command, **settings) if command[0] == python else subprocess.Popen(command, **settings)

    monkeypatch.setattr("graphprep.partition.methods.subprocess_job.subprocess", subprocess_with(Popen=popen))


@contextmanager
def forked_workers() -> Iterator[None]:
    """Let Dask fork its workers, also those in place of killed ones, where it would start interpreters."""
    pytest.importorskip("distributed", reason="dask[distributed] is not installed")  # which has its own defaults
    configuration = importlib.import_module("dask.config")
    fork_context()
    forkserver.ensure_running()
    # Dask gives workers these variables as they are here when it starts them; a fork has those of its server else.
    variables = dict.fromkeys(S3_VARIABLES, "")
    forking = {"distributed.worker.multiprocessing-method": "forkserver", "distributed.nanny.environ": variables}
    with configuration.set(forking):
        yield


def _without_parent(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name != PARENT}


def _text(connection: Connection) -> TextIO:
    stream = os.fdopen(os.dup(connection.fileno()))
    connection.close()
    return stream


def _run_program(words: list[str], variables: Mapping[str, str], out: Connection, err: Connection) -> None:
    _run_module(words, variables, out.fileno(), err.fileno())


def _run_child(words: list[str], variables: Mapping[str, str], log: str) -> None:
    with open(log, "ab") as both:
        _run_module(words, variables, both.fileno(), both.fileno())


def _run_module(words: list[str], variables: Mapping[str, str], out: int, err: int) -> None:
    os.environ.clear()  # that of the process which was forked may be another test's
    os.environ |= variables
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.argv = words
    sys.modules.pop(words[0], None)  # of which runpy would warn
    sys.modules.pop("trainer.__main__", None)
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
