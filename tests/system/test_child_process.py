"""What this program starts: found in the right place, closed to others, and gone with the program."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end.test_cli import prepared  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

HOSTILE = ("trainer.py", "random.py", "csv.py", "numbers.py", "cli.py")
PACKAGES = ("trainer", "commands", "graphprep", "pipelines")
PROGRAM = [sys.executable, "-P", "-m", "graphprep"]
PATIENCE = 120


@pytest.fixture
def hostile(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """A folder whose modules leave a file `executed` when they are imported."""
    monkeypatch.setenv("GRAPHPREP_HOME", str(prepared))
    folder = tmp_path / "hostile"
    folder.mkdir()
    mark = f"open({str(tmp_path / 'executed')!r}, 'a').write(__file__ + '\\n')\nraise SystemExit(0)\n"
    for name in HOSTILE:
        (folder / name).write_text(mark)
    for name in PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(mark)
    return folder


COMMANDS = (
    "list",
    "fetch digits",
    "partition digits --parts 3 --out parts",
    "inspect digits/flat-2",
    "plan digits/flat-2",
    "compare digits/flat-2 digits/flat-2",
    "export digits/flat-2 --format npz exported",
    "verify digits/flat-2",
    "clean --dry-run",
    "doctor",
    "generate grid --name mesh --sides 10x10",
    "topology probe --nproc 2 --seconds 1 --sizes 1000,20000 --out probed.yaml",
    "topology list",
)
RUN_ALL = """
import sys
from cli import main
for command in sys.argv[1:]:
    try:
        main(command.split(), prog_name="graphprep")
    except SystemExit as ended:
        assert not ended.code, command
print("all", len(sys.argv[1:]), "commands")
"""


def run(folder: Path, *words: str, program: list[str] = PROGRAM) -> str:
    done = subprocess.run(
        [*program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert not (folder.parent / "executed").exists(), (folder.parent / "executed").read_text()
    return done.stdout


def test_train_trains_in_a_folder_with_a_trainer_of_the_users(hostile: Path) -> None:
    """`graphprep train` printed what the user's trainer.py printed, trained nothing, and ended with 0."""
    out = run(hostile, "train", "digits/flat-2", "--epochs", "2", "--json", "--device", "cpu", "--hidden", "4")
    assert out.startswith('{"epoch": 1,')
    assert '"test_accuracy"' in out.splitlines()[-1]


def test_nothing_of_the_current_folder_is_executed(hostile: Path) -> None:
    """Children started by `python -m` executed a user's random.py or trainer.py in place of what was meant; import,
    cache split and merge, evaluate and run have children and stages of their own."""
    (hostile / "edges.txt").write_text("0 1\n1 2\n2 3\n3 0\n")
    (hostile / "all.yaml").write_text("datasets: {digits: }\ntopologies: [3]\npartition: {effort: fast}\n")
    several = (
        "import edges.txt --name square",
        "cache split digits/flat-2 --parts 4 --out four",
        "cache merge four --parts 2 --out two",
        "train two --epochs 1 --device cpu --hidden 4 -q --save-predictions found.npy",
        "evaluate two found.npy",
        "run all.yaml",
    )
    # All in one process, which imports what they need once.
    said = run(hostile, *COMMANDS, *several, program=[sys.executable, "-P", "-c", RUN_ALL])
    assert said.endswith(f"all {len(COMMANDS) + len(several)} commands\n")


def test_torchrun_with_pythonsafepath_runs_the_installed_trainer(hostile: Path, prepared: Path) -> None:  # noqa: F811
    """docs/multi-machine.md offers it where torchrun alone executes a user's trainer.py."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "trainer", str(prepared / "caches/digits/flat-2"), "--epochs", "1", "--device", "cpu", "--json"]
    done = subprocess.run(
        [*command, *words],
        cwd=hostile,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"epoch": 1,')
    assert not (hostile.parent / "executed").exists()


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [one for child in (task / "children").read_text().split() for one in tree(int(child))]
    return found


def listening(pids: list[int]) -> list[str]:
    """The addresses, in /proc's hexadecimal form, at which processes listen."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(os.readlink(entry))
            except OSError:  # closed since
                continue
    lines = [line.split() for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()]
    return [line[1].split(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in inodes]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_run_is_closed_to_others_and_ends_with_the_command(
    prepared: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    """The rendezvous listened on all interfaces, where a stranger's pickle was executed; and the ranks of a killed
    command went on training.
    """
    monkeypatch.setenv("GRAPHPREP_HOME", str(prepared))
    options = ["--epochs", "100000000", "--patience", "0", "--hidden", "4", "--device", "cpu", "--json", "-q"]
    command = [*PROGRAM, "train", "digits/flat-2", *options]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Under nohup the test would hand on that SIGHUP is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL) and None,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith('{"epoch": 1,')
            pids = tree(process.pid)
            assert len(pids) >= 4, "the command, the launcher and two ranks"
            addresses = listening(pids)
            assert addresses
            assert set(addresses) <= {"0100007F", "00000000000000000000000001000000"}
        finally:
            process.send_signal(number)
            process.stdout.close()  # type: ignore[union-attr]
        deadline = time.monotonic() + PATIENCE
        while any(map(is_running, pids)):
            assert time.monotonic() < deadline, "a rank is still there"
            process.poll()
            time.sleep(0.05)


def test_a_probe_is_closed_to_others_and_ends_with_the_command(tmp_path: Path) -> None:
    """Ranks that measure links listened on all interfaces as well, and would measure on for nobody."""
    words = ["topology", "probe", "--nproc", "2", "--seconds", "100", "--out", str(tmp_path / "probed.yaml"), "-q"]
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        try:
            pids, addresses = [process.pid], []
            while len(pids) < 3 or len(addresses) < 3:  # the store's, and one of each rank's
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
                pids = tree(process.pid)
                addresses = listening(pids)
            assert set(addresses) <= {"0100007F", "00000000000000000000000001000000"}
        finally:
            process.kill()
        while any(map(is_running, pids)):
            assert time.monotonic() < deadline, "a rank is still there"
            process.poll()
            time.sleep(0.05)
