"""A fork in place of a new interpreter: the same statuses, signals and output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from trainer.base.forked_process import ForkedProcess

PATIENCE = 60

SCRIPT = """
import os, signal, sys, time
from trainer.base.forked_process import ForkedProcess

heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
inside, outside = os.pipe()

def check():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert os.environ["RANK"] == "3"
    assert not os.path.exists(f"/proc/self/fd/{outside}")
    os.read(inside, 1)
    print("no line end", end="")
    time.sleep(600)

child = ForkedProcess(check, {"RANK": "3"}, closed=[outside])
print(child.pid, flush=True)
os.write(outside, b"1")
time.sleep(600)
"""


def fail() -> int:
    raise ValueError("what was wrong")


def test_its_status_is_what_the_function_returns() -> None:
    """Which rank failed, and how, decides what the launcher says."""
    child = ForkedProcess(lambda: 7, {})
    assert child.wait(PATIENCE) == child.returncode == child.poll() == 7


def test_an_exception_is_printed_and_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    """A child that went on in its parent's code would run the parent's tests, or its launcher, a second time."""
    assert ForkedProcess(fail, {}).wait(PATIENCE) == 1
    assert "ValueError: what was wrong" in capfd.readouterr().err


def test_it_is_waited_for_and_killed() -> None:
    """A rank that does not end when it is asked to is killed, and its status says by which signal."""
    child = ForkedProcess(lambda: time.sleep(600) or 0, {})
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.05)
    child.kill()
    assert child.wait(PATIENCE) == -signal.SIGKILL
    child.kill()  # another process may have its number by now


@pytest.mark.slow
def test_it_starts_without_what_is_its_parents() -> None:
    """The launcher's handler would pass a rank's signal on to the other ranks; a socket would stay open; and a fork
    whose parent is killed would train on for nobody.
    """
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert process.stdout.read(len("no line end")) == "no line end"
        process.kill()
        assert process.stdout.read() == ""  # which ends when the child, too, has closed its end
    deadline = time.monotonic() + PATIENCE
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")
