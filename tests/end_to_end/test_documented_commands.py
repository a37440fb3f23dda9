"""Every command in README.md and docs/*.md is run, page by page and in the page's order, as a reader would run it.

Each page has a folder with the files that it names, and a home folder of its own, so that ~ and the default
GRAPHPREP_HOME mean what they say there. Pages of docs/ begin with cora fetched and partitioned for 2x2, README.md
begins with nothing. What cannot be run as written is in one of the tables below, with the reason; a new command that
fails has to be mended or listed there. Training takes 2 epochs here (`--epochs 2 --device cpu` is added), on a real
group of ranks, and plans measure this process, briefly; those of README.md measure as a reader's do. The first
`graphprep train` of README.md and torchruns on two machines start ranks as a reader's do; the others have the same
ranks as forks of a process that has imported torch, and Dask's workers are such forks too. test_recovery.py has
--restarts and torchrun's --max-restarts, tests/topology/probe the probe of one machine.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import yaml
from click.testing import CliRunner

import cli
from examples.tables_to_predictions import write_tables
from graphprep.datasets.importing.schema import load_schema
from graphprep.plan import event_training, rates, rates_file, rates_process, trainer_memory
from graphprep.system.home import require_cache
from graphprep.topology import resolve
from pipelines.training.auto import chosen_options, without_auto
from tests.datasets.user_graphs import written
from tests.documented import PAGES, ROOT, Block, blocks
from tests.end_to_end.test_documented_python import PAGES_WITH_EXAMPLES
from tests.end_to_end.test_s3 import bucket, server  # noqa: F401 (fixtures)
from tests.forks import fork_trainers, forked_workers, subprocess_with
from tests.topology.detect.saved_files import SAVED
from tests.trainer.rank_group import among_ranks, train_as_on_command_line
from trainer.config.command_line import parse
from trainer.startup.opening import open_for

pytestmark = pytest.mark.slow

LISTED = {
    "git clone <this repository> && cd graphprep": "the repository is here",
    "make demo": "makes an environment from the package index; test_files_to_losses.py goes the same way",
    "pip install .": "takes packages from the index",
    "pip install 'graphprep[dask]'": "takes packages from the index",
    "python -m benchmarks.network.parts --folder WORK --out parts.json": "hours, as root; tests/network runs less",
    "python -m benchmarks.network.relays --folder WORK --out relays.json": "minutes, as root",
    "graphprep plan cora/2x2 --best --pilot 40": "trains eight times; test_best.py has pilots",
    "graphprep plan cora/2x2 --best --pilot 40 --batch-size 64 --fanouts 2,2": "trains ten times, likewise",
    "torchrun --nnodes 1:2 --nproc-per-node 4 --max-restarts 10 --rdzv-backend c10d --rdzv-endpoint HOST:29500 "
    "-m trainer ~/shared/cora --checkpoint ~/shared/run --checkpoint-every 1 --resume": "waits for machines that "
    "come and go; test_cache_family.py has the folder",
    "graphprep train caches/cora-4 --checkpoint runs/cora [options]": "trains until another terminal asks it to go on",
    "graphprep cache merge caches/cora-4 --parts 2 --out caches/cora-2": "for that training, as the next one",
    "graphprep rescale runs/cora caches/cora-2": "tests/trainer/test_launch.py asks a training that runs",
    "graphprep rescale runs/cora cora/flat-2": "likewise",
    "graphprep run PIPELINE.yaml": "tests/pipelines/run/test_run.py runs the file of that page",
    "GLOO_SOCKET_IFNAME=eth1 torchrun ...": "this machine has no eth1; test_trainer_interfaces.py names some",
    "NCCL_SOCKET_IFNAME=eth1 torchrun ...": "this machine has no eth1, and no GPU",
}
"""commands that are not run, and why. Lines of Slurm (#SBATCH, srun) are not either: bash checks their syntax, and the
torchrun in them is that of the section before."""

SYNOPSES = {
    "graphprep export CACHE --format dgl|pyg|npz OUT [--replace]": [
        "graphprep export cora/2x2 --format npz ARRAYS",
        "graphprep export cora/2x2 --format dgl DGL",
        "graphprep export cora/2x2 --format pyg OUT --replace",
    ],
    "graphprep inspect cora [--html FILE] [--json]": [
        "graphprep inspect cora",
        "graphprep inspect cora --html store.html --json",
    ],
    "graphprep inspect cora/2x2 [--html FILE] [--json]": [
        "graphprep inspect cora/2x2",
        "graphprep inspect cora/2x2 --html cache.html --json",
    ],
    "graphprep plan cora/2x2 [--model gcn|sage] [--hidden N] [--layers N] ...": [
        "graphprep plan cora/2x2 --model sage --hidden 16 --layers 2"
    ],
    "graphprep report runs/cora [--output FILE.html] [--json]": [
        "graphprep report runs/cora",
        "graphprep report runs/cora --output run.html --json",
    ],
    "graphprep plan cora --topology 2x4 ...": ["graphprep plan cora --topology 2x4"],
    "graphprep train cora/2x2 --rebalance --output runs/cora [options]": [
        "graphprep train cora/2x2 --rebalance --output runs/cora --epochs 4"
    ],
    "graphprep cache rebalance cora/2x2 runs/cora": ["graphprep cache rebalance cora/2x2 runs/cora --anyway"],
    "graphprep partition NAME --topology FILE_OR_PRESET [--effort none|fast|default|best] [--method M] "
    "[--balance rows|edges] [--minimise slowest|total]": [
        "graphprep partition cora --topology 2x2-10gbe --effort fast --method metis --balance edges --minimise total"
    ],
    "graphprep partition NAME --topology T --assignment FILE [--effort fast|default|best]": [
        "graphprep partition cora --topology 2x2-25gbe --assignment parts.npy",
        "graphprep partition cora --topology 2x2-100gbe --assignment parts.npy --effort fast",
    ],
    "graphprep partition NAME --topology T --for sampling --fanouts 15,10 --batch-size 1024": [
        "graphprep partition cora --topology 2x2-10gbe --for sampling --fanouts 15,10 --batch-size 1024 --out SAMPLED"
    ],
    "graphprep partition NAME --extend CACHE": ["graphprep partition weighted-june --extend weighted/flat-2"],
    "graphprep run PIPELINE.yaml --dry-run": ["graphprep run PIPELINE.yaml --dry-run"],
    "graphprep partition NAME --topology T --memory 4GB [--method multilevel]": [
        "graphprep partition cora --topology 2x2-10gbe --memory 4GB",
        "graphprep partition cora --topology 2x2-25gbe --memory 4GB --method multilevel",
    ],
    "graphprep partition NAME --topology T --dask local:4": [
        "graphprep partition cora --topology 2x2-ib-edr --dask local:1"
    ],
}
"""lines with capitals or brackets in place of what a reader chooses: commands that choose something"""

CHANGED = (
    (r"--nodes 1000000 --edges 20000000", "--nodes 2000 --edges 20000", "the same graph, smaller"),
    (r"/media/usb/mirror", "MIRROR", "where the mirror is"),
    (r"^graphprep fetch cora$", "graphprep fetch cora --mirror MIRROR", "there is no network"),
    (r"^graphprep fetch cora --out", "graphprep fetch cora --mirror MIRROR --out", "there is no network"),
    (r"s3://BUCKET/NAME", "s3://graphs/cora-there", "a bucket of moto's"),
    (r"s3://BUCKET", "s3://graphs", "a bucket of moto's"),
    (r"tcp://HOST:8786", "CLUSTER", "the address of a cluster that is started here"),
    (r"topology probe --out (measured.yaml)", r"topology probe --out \1 --nproc 2 --seconds 2", "there is no GPU"),
    (r"--nproc 4 ", "--nproc 2 ", "fewer ranks"),
    (r"--seconds 20", "--seconds 2", "a shorter probe"),
    (r"--nproc-per-node 4( --rdzv.*)$", r"--nproc-per-node 1\1 --seconds 2", "fewer ranks, a shorter probe"),
    (r"--effort best", "--effort fast", "tests/partition/test_search.py has the best"),
    (r"--rdzv-endpoint HOST:29500", "--rdzv-endpoint 127.0.0.1:PORT", "this machine, a free port"),
    (r"--master-addr first --master-port 29500", "--master-addr 127.0.0.1 --master-port PORT", "likewise"),
    (r"^torchrun --nproc-per-node", "torchrun --master-port PORT --nproc-per-node", "a free port"),
    (r"(-m trainer|^graphprep train) (.*)$", r"\1 \2 --epochs 2 --device cpu", "a few epochs"),
    (r"-m trainer CACHE", "-m trainer ~/.cache/graphprep/caches/cora/2x2", "a cache"),
)
"""what is changed in commands before they are run, and why: a pattern, and what takes its place"""

TEXT = (
    "dataset's name",
    "OUT/part_config.json",
    "OUT/META.json",
    "rank p (all ranks alike)",
    "--staleness adaptive --staleness-grad",
    "--error-budget 0.5 --eval-every",
    "E^2 = sum over links",
    "sum of P_t d_t",
    "epoch       57 of at most 200",
    "beside METIS",
    "seconds = a + b edges",
    "ready ",
    "trainer/training/sample_from",
    "files of events -> ",
    "rows        requested rows",
)
"""how blocks begin that are drawings, names of files, or options alone"""

CODE_THAT_NEEDS_MORE = {
    "import dgl.distributed": "DGL; tests/interop/export/test_dgl.py reads the same files",
    "from trainer.distributed_graph import DistributedGraph": "ranks; examples/pyg_layers_on_ranks.py is run",
}

FIRST = {
    "docs/scale.md": ["graphprep fetch cora --mirror MIRROR --out s3://graphs/cora-there"],
    "docs/partitioning.md": [
        "graphprep import edges.parquet --name weighted --weights --features x.npy --labels y.npy",
        "graphprep partition weighted --parts 2",
        "graphprep import june.parquet --name weighted-june --extend weighted --weights --features x-june.npy",
    ],
    "docs/training.md": ["graphprep import --schema acm.yaml --name acm"],
}
"""commands of other pages that a page's own ones build on"""

ONE_MACHINE = re.compile(r"torchrun --master-port \d+ --nproc-per-node 4 (--max-restarts 3 )?-m trainer (?P<words>.*)")
"""torchrun for the ranks of this machine"""

SHORT_PIPELINE = """
datasets:
  blocks:
    generate: {sbm: {nodes: 200, edges: 1200, features: 8, seed: 1}}
topologies: [3]
partition: {effort: fast, seed: [0, 1]}
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def plain(command: str) -> str:
    """A command without its comment and with single blanks."""
    return " ".join(re.sub(r"\s#\s.*$", "", command).split())


def invoke(words: list[str]) -> str:
    """A graphprep command in this process; returns its standard output."""
    done = CliRunner().invoke(cli.main, words)
    if done.exit_code:
        raise AssertionError(f"graphprep {shlex.join(words)}: status {done.exit_code}\n{done.output}")
    return done.stdout


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory, test_data: Path) -> Path:
    """A GRAPHPREP_HOME with cora and its cache cora/2x2."""
    folder = tmp_path_factory.mktemp("partitioned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(folder))
        invoke(["fetch", "cora", "--mirror", str(test_data / "mirror")])
        invoke(["partition", "cora", "--topology", "2x2"])
    return folder


class Reader:
    """Somebody who types what a page shows, in a home folder and a folder with the page's files."""

    def __init__(self, home: Path, folder: Path, mirror: Path, cluster: Callable[[], str], *, trains: bool) -> None:
        self.home, self.folder, self.mirror, self.cluster = home, folder, mirror, cluster
        self.second = home.parent / "second"
        """the home folder of a second machine"""
        self.variables: dict[str, str] = {}
        self.starts_ranks = trains
        """whether the next `graphprep train` starts its ranks as a reader's does"""

    def type(self, command: str) -> None:
        """Run one command of a page, as the tables above have it."""
        command = plain(command)
        if command in LISTED or command.startswith("#SBATCH"):
            return
        if command.startswith("srun "):
            words = shlex.split(command)
            subprocess.run(["bash", "-n", "-c", words[words.index("-c") + 1]], check=True)
            return
        for one in SYNOPSES.get(command, [command]):
            for pattern, replacement, _ in CHANGED:
                one = re.sub(pattern, replacement, one)
            self.run(one)

    def run(self, command: str) -> None:
        """Run a command that has no placeholders left but those for what is only known now."""
        command = command.replace("MIRROR", str(self.mirror)).replace("PORT", str(free_port()))
        if "CLUSTER" in command:
            command = command.replace("CLUSTER", self.cluster())
        if assigned := re.fullmatch(r"([A-Z]+)=(\S+)", command):
            self.variables[assigned[1]] = os.path.expanduser(assigned[2])
        elif "--nnodes 2" in command:
            first = self.start(command, self.folder, self.home)
            second = self.start(command.replace("--node-rank 0", "--node-rank 1"), self.second, self.second)
            for machine in (first, second):
                machine.succeed()
        elif command.startswith("graphprep topology probe "):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("graphprep.topology.probe.launch.start", lambda _options, _ranks: 0)
                self.invoke(command)
        elif command.startswith("graphprep ") and not command.startswith("graphprep train "):
            self.invoke(command)
        elif command.startswith("graphprep train ") and not self.starts_ranks:
            self.train(command.removeprefix("graphprep train "))
        elif ranks := ONE_MACHINE.fullmatch(command):
            self.train(ranks["words"])
        elif command.startswith("rsync ") and shutil.which("rsync") is None:
            self.copy_as_rsync(command)
        else:
            self.start(command, self.folder, self.home).succeed()
            self.starts_ranks &= not command.startswith("graphprep train ")

    def start(self, command: str, folder: Path, home: Path) -> Process:
        folder.mkdir(exist_ok=True)
        return Process(command, folder, {**os.environ, **self.variables, "HOME": str(home)})

    def invoke(self, command: str) -> None:
        """A graphprep command in this process, with its output in a file if the line says so."""
        command, append, target = command.partition(">>") if ">>" in command else command.partition(">")
        output = invoke([os.path.expanduser(word) for word in shlex.split(command)][1:])
        if target:
            with Path(target.strip()).expanduser().open("a" if append == ">>" else "w") as stream:
                stream.write(output)

    def train(self, words: str) -> None:
        """Training of `CACHE [options]` on ranks that are forks."""
        cache, *options = (os.path.expanduser(word) for word in shlex.split(words))
        folder = require_cache(cache)
        if "--auto" in options:
            options, pilot_epochs = without_auto(options)
            options += chosen_options(str(folder), options, pilot_epochs=pilot_epochs)
        options = [word for word in options if word != "--rebalance"]  # whose own test has ranks that become slow
        if "--restarts" in options:
            del options[options.index("--restarts") :][:2]
        task = partial(train_as_on_command_line, arguments=[str(folder), *options], folder=str(self.folder))
        among_ranks(open_for(parse([str(folder), *options])).num_parts, [task])

    def copy_as_rsync(self, command: str) -> None:
        """What rsync does with one list of --include and --exclude='*', where there is no rsync."""
        words = shlex.split(os.path.expandvars(command.replace("$CACHE", self.variables["CACHE"])))
        kept = [word.removeprefix("--include=").strip("/") for word in words if word.startswith("--include=")]
        source, target = Path(words[-2]).expanduser(), self.second / words[-1].partition(":")[2]
        assert target.is_dir(), "rsync makes no folders above its target"
        for path in source.rglob("*"):
            name = path.relative_to(source).as_posix()
            if path.is_file() and any(
                name.startswith(mark[:-3]) if mark.endswith("***") else Path(name).match(mark) for mark in kept
            ):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target / name)


class Process:
    """A line in bash that has been started."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        self.command = command
        self.running = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def succeed(self) -> None:
        """Wait until it has ended well."""
        output, _ = self.running.communicate(timeout=300)
        assert self.running.returncode == 0, f"{self.command}: status {self.running.returncode}\n{output}"


@pytest.fixture
def reader(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    test_data: Path,
    partitioned: Path,
    tmp_path_factory: Any,
) -> Iterator[Reader]:
    """A reader whose programs are those of this environment, who has four GPUs by nvidia-smi and a second machine."""
    home, folder, programs = (tmp_path / name for name in ("home", "folder", "programs"))
    for made in (home, folder, programs, tmp_path / "second", home / ".config/fish/completions"):
        made.mkdir(parents=True)
    python = shlex.quote(sys.executable)
    saved = SAVED / "g5-12xlarge.txt"
    scripts = {
        "graphprep": f'exec {python} -m cli "$@"',
        "python": f'exec {python} "$@"',
        "torchrun": f'exec {python} -m torch.distributed.run "$@"',
        "nvidia-smi": f'if [ "$1" = topo ]; then grep -v MiB {saved}; else grep MiB {saved}; fi',
        "ssh": f'shift; cd {tmp_path}/second && HOME={tmp_path}/second exec bash -c "$*"',
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path_factory.getbasetemp() / "matplotlib"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("GRAPHPREP_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.chdir(folder)
    write_files(folder)
    if page != "README.md":
        measure_briefly(monkeypatch)
        fork_trainers(monkeypatch)
    clusters: list[Any] = []

    def cluster() -> str:
        if not clusters:
            distributed = pytest.importorskip(
                "distributed", reason="dask is not installed: pip install 'dask[distributed]'"
            )
            clusters.append(
                distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
            )
        return str(clusters[0].scheduler_address)

    with forked_workers() if page == "docs/scale.md" else nullcontext():
        yield Reader(home, folder, test_data / "mirror", cluster, trains=page == "README.md")
        for started in clusters:
            started.close()


def measure_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rates measured by a few runs in this process, not for seconds in as many as there are ranks, and the trainer
    asked in this process for what a run takes."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        with np.load(command[-2]) as arrays:
            found = rates_process.measure(dict(arrays), 0)
        return subprocess.CompletedProcess(command, 0, json.dumps([found] * int(command[-1])), "")

    def answered(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        found = import_module(command[-1]).answer(json.loads(settings["input"]))
        return subprocess.CompletedProcess(command, 0, json.dumps(found), "")

    monkeypatch.setattr(trainer_memory, "subprocess", subprocess_with(run=answered))
    monkeypatch.setattr(event_training, "MOST_PROCESSES", 1)
    monkeypatch.setattr(rates_process, "SECONDS_EACH", 0.0)
    monkeypatch.setattr(rates_file, "ROWS", 500)
    monkeypatch.setattr(rates_file, "EDGES", 2000)
    monkeypatch.setattr(rates, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))


def write_files(folder: Path) -> None:
    """The files that pages name as the reader's own."""
    random = np.random.default_rng(1)
    edges = random.integers(0, 60, (400, 2))
    text = "".join(f"{one} {other}\n" for one, other in edges.tolist())
    with gzip.open(folder / "edges.txt.gz", "wt") as stream:
        stream.write(text)
    weights = random.random(len(edges))
    pq.write_table(
        pa.table({"source": edges[:, 0], "target": edges[:, 1], "weight": weights}), folder / "edges.parquet"
    )
    times = 1_082_040_961 + np.sort(random.integers(0, 12 * 86_400, len(edges)))
    lines = [f"{one} {other} {time}\n" for (one, other), time in zip(edges.tolist(), times.tolist(), strict=True)]
    (folder / "messages.txt").write_text("".join(lines))
    (folder / "people.csv").write_text("node,time,age,balance\n17,1082040961,31,250.0\n17,1082690000,31,90.5\n")
    np.save(folder / "x.npy", random.random((60, 4), np.float32))
    np.save(folder / "y.npy", np.arange(60) % 3)
    new = {"source": [60, 61, 60], "target": [0, 60, 59], "weight": [1.0, 2.0, 3.0]}
    pq.write_table(pa.table(new), folder / "june.parquet")
    np.save(folder / "x-june.npy", random.random((2, 4), np.float32))
    np.save(folder / "parts.npy", np.arange(2708) % 4)
    (folder / "mesh.graph").write_text("3 2\n2\n1 3\n2\n")
    networkx.write_graphml(networkx.karate_club_graph(), folder / "karate.graphml")
    (folder / "acm.yaml").write_text(block_of("docs/import.md", "nodes:").text)
    (folder / "bank.yaml").write_text(block_of("docs/import.md", "nodes:\n  account:").text)
    write_tables(folder, accounts=60)
    for name, columns in (("p_feat.npz", 8), ("a_feat.npz", 5)):
        scipy.sparse.save_npz(folder / name, scipy.sparse.random(60, columns, 0.5, "csr", np.float32, random))
    np.save(folder / "labels.npy", np.arange(60) % 3)
    for start, name in enumerate(("train.npy", "val.npy", "test.npy")):
        np.save(folder / name, np.arange(60) % 3 == start)
    for name in ("pa.txt", "ps.txt"):
        (folder / name).write_text(text)
    (folder / "run.toml").write_text(block_of("docs/training.md", "# run.toml").text)
    model = block_of("docs/training.md", "import torch").text
    (folder / "two_means.py").write_text(model)
    (folder / "my_model.py").write_text(model.replace("TwoMeans", "MyModel"))
    (folder / "docs").mkdir()
    (folder / "docs/pipeline.yaml").write_text(SHORT_PIPELINE)
    (folder / "PIPELINE.yaml").write_text(block_of("docs/pipelines.md", "datasets:").text)


def block_of(page: str, beginning: str) -> Block:
    """The block of a page that begins with these words."""
    return next(block for block in blocks(page) if block.text.lstrip().startswith(beginning))


@pytest.mark.parametrize("page", PAGES)
def test_a_page(page: str, reader: Reader, partitioned: Path, request: pytest.FixtureRequest) -> None:
    """Guards against a page whose commands name what was never made, files that are not there, or old options."""
    if "s3://" in (ROOT / page).read_text(encoding="utf-8"):
        request.getfixturevalue("bucket")
    cache = reader.home / ".cache/graphprep"
    if page != "README.md":
        shutil.copytree(partitioned, cache)
    for command in FIRST.get(page, []):
        for pattern, replacement, _ in CHANGED:
            command = re.sub(pattern, replacement, command)
        reader.run(command)
    for block in blocks(page):
        first = block.text.lstrip().splitlines()[0]
        match block.kind:
            case "shell":
                for command in block.commands():
                    reader.type(command)
            case "yaml":
                check_yaml(block, reader.folder)
            case "toml":
                assert parse(["--config", "run.toml"]).model == "sage"
            case "doctest":
                assert page.removeprefix("docs/") in PAGES_WITH_EXAMPLES
            case "python":
                run_python(block, first)
            case _:
                assert first.strip().startswith(TEXT), f"{page}, line {block.line}: a block of an unknown kind"


def check_yaml(block: Block, folder: Path) -> None:
    """Read it as what it is."""
    if block.text.startswith(("nodes:", "tables:")):
        assert load_schema(written(folder / "shown.yaml", block.text)).edges
    elif block.text.startswith("name:"):
        path = folder / f"{block.text.split()[1]}.yaml"
        path.write_text(block.text)
        assert resolve(str(path)).num_ranks > 1
    else:
        shown, file = (yaml.safe_load(text) for text in (block.text, (ROOT / "docs/pipeline.yaml").read_text()))
        assert shown == file, "docs/pipelines.md shows another file than docs/pipeline.yaml"


def run_python(block: Block, first: str) -> None:
    """Run it where it can be; `model` is a layer that only looks at the features."""
    if first in CODE_THAT_NEEDS_MORE:
        compile(block.text, block.page, "exec")
        return
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(block.text, {"torch": torch, "model": lambda x, _edge_index: x.sum(1)})


def options_of(words: list[str]) -> set[str] | None:
    """All options of the command that begins with these words; None if it passes them on."""
    command: click.Command = cli.main
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.commands[word]
    if command.name == "train":
        return None
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", PAGES)
def test_options_that_are_shown(page: str) -> None:
    """Guards against a synopsis, of which nothing is run as it stands, with commands or options that are not there."""
    for block in blocks(page):
        for command in map(plain, block.commands() if block.kind == "shell" else []):
            if command.startswith("graphprep ") and (known := options_of(command.split()[1:])) is not None:
                unknown = set(re.findall(r"--[a-z][a-z-]*", command)) - known
                assert not unknown, f"{page}, line {block.line}: {command}"


def test_tables_are_of_use() -> None:
    """Guards against entries for commands that no page has any more."""
    shown = [
        plain(command)
        for page in PAGES
        for block in blocks(page)
        if block.kind == "shell"
        for command in block.commands()
    ]
    assert {*LISTED, *SYNOPSES} <= set(shown)
    chosen = [one for command in shown for one in SYNOPSES.get(command, [command])]
    for pattern, _, _ in CHANGED:
        assert any(re.search(pattern, command) for command in chosen), pattern
    firsts = [block.text.lstrip().splitlines()[0] for page in PAGES for block in blocks(page)]
    for beginning in (*TEXT, *CODE_THAT_NEEDS_MORE):
        assert any(first.startswith(beginning) for first in firsts), beginning
