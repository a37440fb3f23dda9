"""The scripts of examples/ do what they say, in one home folder, as a user's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "cache_in_pyg.py": r"greatest difference between the parts and the whole graph: \S+",
    "compare_partitions.py": r"graphprep +\S+ us +\d+ edges",
    "import_edges.py": r"person-07 is row 7 and knows person-",
    "mini_batches.py": r"test accuracy 0\.9\d+ with all neighbours",
    "own_model.py": r"rows over network +sent",
    "pyg_layers_on_ranks.py": r"one device, the same weights: 9\d",
    "pyg_to_predictions.py": r"test accuracy 0\.[5-9]\d; mistaken members: \[\d",
    "streams_of_events.py": r"test ap [6-9]\d",
    "tables_to_predictions.py": r"test +0\.[6-9](?s:.*)\n.DE-\d{6}.,.(business|private|charity).,",
    "two_machines.py": r"network +\S+ +\d+ rows +\S+ us",
}
"""what each script prints at the end"""


RUN_EXAMPLES = """
import json, os, runpy, signal, socket, subprocess, sys
import torch_geometric.nn
import cli, graphprep.api, pipelines.partition, trainer.distributed_graph
sys.path[0] = ""
start = subprocess.run

def in_fork(action, folder=".", variables={}):
    "The process that does it, which need not import what this one has imported."
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(variables)
        status = 1
        try:
            action()
            status = 0
        except SystemExit as exit:
            status = exit.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            os._exit(status)
    return child

def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def run_script(path, *words):
    sys.argv = [path, *words]
    runpy.run_path(path, run_name="__main__")

def run(command, *, cwd=None, env=None, **settings):
    "A graphprep command, or the ranks that torchrun would start, in forks."
    if command[:3] == [sys.executable, "-m", "graphprep"]:
        children = [in_fork(lambda: cli.main(command[3:], prog_name="graphprep"), cwd or ".", env or {})]
    elif "torch.distributed.run" in command:
        place = command.index("--nproc-per-node") + 1
        world = command[place]
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = str(found.getsockname()[1])
        group = dict(WORLD_SIZE=world, LOCAL_WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        children = [
            in_fork(lambda: run_script(*command[place + 1 :]), ".", dict(group, RANK=str(rank), LOCAL_RANK=str(rank)))
            for rank in range(int(world))
        ]
    else:
        return start(command, cwd=cwd, env=env, **settings)
    assert [wait(child) for child in children] == [0] * len(children), command
    return subprocess.CompletedProcess(command, 0)

subprocess.run = run
for request in map(json.loads, sys.stdin):
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        with open(request["printed"], "w") as printed:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
        os.chdir(request["folder"])
        run_script(request["script"])
        sys.exit()
    print(wait(child), flush=True)
"""
Runner = Callable[[Path, Path], tuple[int, str]]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """Runs a script in a folder, in forks of one process that has imported PyG and the commands, which is slow.

    So are the ranks that it starts; torchrun itself is run by test_documented_commands.py and test_recovery.py.
    """
    settings = {"PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    environment = {**os.environ, **settings, "GRAPHPREP_HOME": str(tmp_path_factory.mktemp("home"))}
    command, pipe = [sys.executable, "-c", RUN_EXAMPLES], subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = process.stdin, process.stdout

        def run(script: Path, folder: Path) -> tuple[int, str]:
            printed = tmp_path_factory.mktemp("printed") / "all"
            request = {"script": str(script), "folder": str(folder), "printed": str(printed)}
            print(json.dumps(request), file=to, flush=True)
            return int(back.readline()), printed.read_text()

        yield run


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name: str, runner: Runner, tmp_path: Path) -> None:
    """Guards against examples of options, names or figures of another version."""
    status, printed = runner(EXAMPLES / name, tmp_path)
    assert status == 0, printed
    assert re.search(SAYS[name], printed), printed
    assert not list(tmp_path.iterdir())


def test_every_example_is_run_and_listed() -> None:
    """Guards against a script that nobody runs, and a list that lacks one."""
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == set(SAYS)
    assert scripts == set(re.findall(r"\[(\w+\.py)\]", (EXAMPLES / "README.md").read_text()))
