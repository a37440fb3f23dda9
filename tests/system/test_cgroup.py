"""What control groups leave: limits are found wherever they are set, and whole commands keep within a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import graphprep.system.cgroup
import trainer.base.cgroup
from graphprep.system import memory
from trainer.startup.memory import available_bytes

MODULES = [graphprep.system.cgroup, trainer.base.cgroup]
LIMIT = 400_000_000
"""Of the real group: METIS would need half as much again for the graph. With less, pages of libraries are read again
and again."""
GROUPS = Path("/sys/fs/cgroup")


def group(folder: Path, names: tuple[str, str, str], *, limit: str, used: int, idle: int = 0) -> None:
    """The files of a group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, (limit, used), strict=False):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(f"cache 5\n{names[2]} {idle}\nunevictable 0\n")


def in_group(root: Path, lines: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)


@pytest.mark.parametrize("module", MODULES)
def test_the_second_version(module: ModuleType, tmp_path: Path) -> None:
    """Guards against a job's limit above the group of its step, and against pages of files that count as taken."""
    in_group(tmp_path, "0::/slurm/job_7/step_0\n")
    top, names = tmp_path / "sys/fs/cgroup", module.VERSION_2
    group(top / "slurm/job_7/step_0", names, limit="max", used=70)
    assert module.left(tmp_path) is None
    group(top / "slurm/job_7", names, limit="1000", used=700, idle=250)
    group(top / "slurm", names, limit="9000", used=100)
    assert module.left(tmp_path) == 550
    group(top / "slurm/job_7/step_0", names, limit="60", used=70)
    assert module.left(tmp_path) == 0


@pytest.mark.parametrize("module", MODULES)
def test_what_is_not_understood_is_left_out(module: ModuleType, tmp_path: Path) -> None:
    """Guards against a command that ends because a line, a group's name or a figure is not as it should be."""
    in_group(tmp_path, "")
    assert module.left(tmp_path) is None
    lines = b"\nno fields\n1:memory\n0::/nul\0\n0::/../..\n0::/a job: 7\x0c\xff\n"
    (tmp_path / "proc/self/cgroup").write_bytes(lines)
    names = module.VERSION_2
    folder = tmp_path / "sys/fs/cgroup" / os.fsdecode(b"a job: 7\x0c\xff")
    group(folder, names, limit="1000", used=700, idle=250)
    assert module.left(tmp_path) == 550
    group(folder, names, limit="1000", used=700, idle=5000)
    assert module.left(tmp_path) == 1000
    for stat in (b"inactive_file\n", b"inactive_file \n", b"inactive_file many\n", b"\xff\n"):
        (folder / "memory.stat").write_bytes(stat)
        assert module.left(tmp_path) == 300
    for limit in (b"", b"-1\n", b"\xff\n", "\u00b2\n".encode()):
        (folder / "memory.max").write_bytes(limit)
        assert module.left(tmp_path) is None


@pytest.mark.parametrize("module", MODULES)
def test_the_first_version(module: ModuleType, tmp_path: Path) -> None:
    """Guards against machines whose kernel has one tree a controller, among which memory's counts."""
    in_group(tmp_path, "5:cpu,cpuacct:/\n4:hugetlb,memory:/job/step\n0::/other\n")
    top, names = tmp_path / "sys/fs/cgroup/memory", module.VERSION_1
    group(top, names, limit="9223372036854771712", used=10**10)
    group(top / "job", names, limit="5000", used=4000, idle=100)
    group(tmp_path / "sys/fs/cgroup/other", names, limit="1", used=0)
    assert module.left(tmp_path) == 1100


@pytest.mark.parametrize("module", MODULES)
def test_inside_a_container(module: ModuleType, tmp_path: Path) -> None:
    """Guards against a path that is the host's, where only the container's own group is to be seen, at the top."""
    in_group(tmp_path, "0::/kubepods/pod12/abc\n")
    group(tmp_path / "sys/fs/cgroup", module.VERSION_2, limit="300", used=100)
    assert module.left(tmp_path) == 200


@pytest.mark.parametrize("module", MODULES)
def test_without_groups(module: ModuleType, tmp_path: Path) -> None:
    """Guards against a system that has none of these files."""
    assert module.left(tmp_path) is None


def test_both_are_one_text() -> None:
    """Guards against a fault that is mended in one of the two."""
    one, other = (Path(str(module.__file__)).read_text() for module in MODULES)
    assert one == other


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Run]:
    """Runs Python in a group of its own with LIMIT bytes; skips where no group can be made."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    first = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
    top = GROUPS / "memory" / first[0].lstrip("/") if first else GROUPS
    folder = top / f"graphprep-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as problem:
        pytest.skip(f"control groups cannot be made here ({problem})")
    try:
        (folder / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(LIMIT))
    except OSError as problem:
        folder.rmdir()
        pytest.skip(f"this control group cannot limit memory ({problem})")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(folder / "cgroup.procs"), sys.executable, *words]
        environment = {**os.environ, "GRAPHPREP_HOME": str(tmp_path)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)

    yield run
    folder.rmdir()


@pytest.mark.slow
def test_commands_keep_within_a_real_limit(limited: Run, tmp_path: Path) -> None:
    """Guards against commands that are killed where a batch system allows less than the machine has: they see what they
    may take, go by passes over files where the graph does not fit, and say so of a method that does not."""
    script = (
        "from graphprep.system.memory import available; from trainer.startup.memory import available_bytes as trainers"
    )
    seen = limited("-c", f"{script}; print(available(), trainers())")
    assert all(LIMIT / 2 < int(word) < LIMIT for word in seen.stdout.split()), seen.stderr
    assert min(memory.available(), available_bytes()) > LIMIT, "the machine itself has less"

    def command(*words: str) -> str:
        done = limited("-m", "cli", *words)
        assert done.returncode == 0, (words, done.returncode, done.stderr[-2000:])
        return done.stderr

    command("generate", "sbm", "--name", "g", "--nodes", "70000", "--edges", "2000000", "--features", "8")
    for name, options in {"found": [], "given": ["--memory", "400MB"]}.items():
        out = str(tmp_path / name)
        assert "by passes over its edges" in command(
            "partition", "g", "--parts", "8", "--effort", "fast", "--out", out, *options
        )
    command("inspect", "g")
    command("verify", str(tmp_path / "found"))
    replaced = command("partition", "g", "--parts", "8", "--method", "metis", "--effort", "none")
    assert "metis" in replaced.lower()
    assert "memory" in replaced
