"""What every test may ask for."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from graphprep.system import progress
from tests.forks import fork_partitioners

# In CI every run draws the same cases, so that a failure is the change's own; elsewhere each run draws new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Ranks of a process group are more processes than cores here. A thread that wakes for a message then interrupts the one
# that has just sent it, finds its lock taken, and tries again until the kernel ends its time slice, which takes twice
# as long as training. As batch processes they do not interrupt each other; processes that tests start inherit this.
if hasattr(os, "SCHED_BATCH"):
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

ROOT = Path(__file__).parents[1]
BoundsChecked = Callable[[str], None]

# Every kernel that a test runs, here or in a process that it starts, is compiled with checks of its bounds;
# the demo and the notebook run kernels as users do. numba reads this when it is imported. Its cache does not know the
# setting, so that what is compiled with checks is kept apart.
assert "numba" not in sys.modules or os.environ.get("NUMBA_BOUNDSCHECK") == "1"
os.environ["NUMBA_BOUNDSCHECK"] = "1"
os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".pytest_cache" / "numba-boundscheck")


# Threads of OpenMP, which torch has, wait for each other asleep: more of them are ready than there are cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _seem_on_disk(file: int) -> None:
    os.fstat(file)


# What is written is fsynced, which takes some 5 ms a file, and caches have hundreds. Only a loss of power would show
# the difference; tests/system/files/test_atomic.py looks at when it is called.
os.fsync = _seem_on_disk

REAL_CHILDREN = {"methods", "system"}
"""folders of tests that look at the processes of native partitioners"""
KERNEL_FOLDERS = ("cache", "core", "partition", "traffic")
"""folders of tests whose quick tests compile most kernels"""


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist keep the order of `pytest_collection_modifyitems`, not put the groups with most tests first."""
    config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Divide the tests among the processes of pytest-xdist so that few kernels are compiled by two of them at once.

    Tests of a file share a process, and so do the quick tests that compile most kernels. These come first, beside those
    of the trainer, which has no kernels of numba; then files with slow tests, and the quick ones last, so that all
    processes end at about the same time.
    """
    if not getattr(config.option, "loadgroup", False):
        return
    tests = Path(__file__).parent
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}

    def turn(item: pytest.Item) -> int:
        folder = item.path.relative_to(tests).parts[0]
        if folder in KERNEL_FOLDERS and item.path not in slow_files:
            return 0
        return 1 if folder == "trainer" else 2 if item.path in slow_files else 3

    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            name = item.path.relative_to(tests).as_posix() if turn(item) else "kernels"
            item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=turn)


def heed_interrupts() -> None:
    """For `preexec_fn`: what a shell starts in the background ignores Ctrl-C, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is not."""
    folder = os.environ.get("GRAPHPREP_TEST_DATA")
    if not folder:
        pytest.skip("GRAPHPREP_TEST_DATA is not set: the real data sets are not here")
    return Path(folder)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths of fresh folders, numbered; `mktemp` looks at the names of all folders before it makes one."""
    parent = tmp_path_factory.mktemp("homes")
    return (parent / str(number) for number in count())


@pytest.fixture(autouse=True)
def graphprep_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh GRAPHPREP_HOME for each test, so that no test sees another's stores."""
    folder = next(homes)
    folder.mkdir()
    monkeypatch.setenv("GRAPHPREP_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def forked_partitioners(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """METIS and others are called by forks, but in tests of those processes; commands that are processes start them."""
    if REAL_CHILDREN.isdisjoint(request.path.relative_to(ROOT).parts):
        fork_partitioners(monkeypatch)


@pytest.fixture(autouse=True)
def progress_that_speaks() -> None:
    """A command with -q silences this process, and so the tests after it; a run of the trainer takes its log."""
    progress.configure(quiet=False)
    log = logging.getLogger("trainer")
    log.handlers.clear()
    log.propagate = True
    log.setLevel(logging.NOTSET)


RUN_SCRIPTS = """
import os, signal, sys
import tests.graphs
for path in map(str.strip, sys.stdin):
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        with open(path) as script, open(path + ".printed", "w") as printed:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            exec(script.read(), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="session")
def bounds_checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoundsChecked]:
    """Run a script that may change constants of modules, in a fork of one process that has imported numba, with checks
    of bounds as all tests have them."""
    command, pipe = [sys.executable, "-c", RUN_SCRIPTS], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = process.stdin, process.stdout

        def run(script: str) -> None:
            path = tmp_path_factory.mktemp("bounds") / "script.py"
            path.write_text(script)
            print(path, file=to, flush=True)
            assert back.readline() == "0\n", Path(f"{path}.printed").read_text()

        yield run


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named after their argument: gzip's hold the time, and would differ between the workers of a run."""
    return argname if isinstance(val, bytes) else None
