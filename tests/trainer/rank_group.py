"""Several training runs, one after the other, among the same few rank processes.

Starting a process and importing torch takes longer than training a small graph. So a test module starts each number of
ranks once and gives it all of its runs, and ranks are forks of a process that has imported everything and nothing else.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.forks import fork_context
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock, TrafficLog
from trainer.config.command_line import parse
from trainer.config.options import Options
from trainer.data.cache import Cache, open_cache
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.exchange.exchange import Exchange
from trainer.reporting.report import Report
from trainer.run import train
from trainer.startup.opening import open_for
from trainer.temporal.run import train_temporal


@dataclass(frozen=True)
class Run:
    """The JSON lines of one run."""

    epochs: list[dict[str, Any]]
    result: dict[str, Any]

    @property
    def losses(self) -> list[float]:
        return [line["loss"] for line in self.epochs]


Task = Callable[[Communicator], Any]
"""What every rank does; it travels to the processes, so it is a function of a module or a partial of one."""


def run_options(cache: Path | str, **changes: Any) -> Options:
    """Options under which nothing is random but the first weights, and every epoch is run."""
    plain: dict[str, Any] = {"hidden": 8, "dropout": 0.0, "epochs": 20, "patience": 0, "timeout": 60.0}
    return Options(cache=str(cache), **{**plain, **changes})


def train_once(communicator: Communicator, *, cache: str, **changes: Any) -> Run:
    """Train once; the lines on rank 0, none elsewhere."""
    output = io.StringIO()
    options = run_options(cache, **changes)
    result = train(
        options, open_cache(cache), communicator, Report(speaks=communicator.is_main, as_json=True, output=output)
    )
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    return Run(epochs=lines[:-1], result=result)


def train_as_on_command_line(communicator: Communicator, *, arguments: list[str], folder: str) -> None:
    """What one rank of `python -m trainer` does with these arguments in this folder; nothing is printed."""
    os.chdir(folder)
    options = parse(arguments)
    cache, report = open_for(options), Report(speaks=communicator.is_main, as_json=options.json, output=io.StringIO())
    if isinstance(cache, Cache):
        train(options, cache, communicator, report)
    else:
        train_temporal(options, cache, communicator, report)


def empty_traffic_log(communicator: Communicator) -> TrafficLog:
    """A traffic log whose sums are not read."""
    return TrafficLog(num_rows=0, num_sent=0, num_halo=0, rank=communicator.rank, world=communicator.world)


def fetch_halo(exchange: Exchange, rows_nF: Tensor, layer: int, step: PassContext) -> Tensor:
    """The halo's rows of all rounds: [H, F], peer after peer."""
    halo_HF = rows_nF.new_empty(exchange.num_halo, rows_nF.shape[1])
    for one in exchange.rounds:
        halo_HF[one.columns] = one.fetch(rows_nF, layer, step).wait()
    return halo_HF


def send_back_halo(exchange: Exchange, partial_HF: Tensor, layer: int, step: PassContext) -> Tensor:
    """The sums for this rank's own rows of what all rounds give back: [n, F]."""
    returned = [one.send_back(partial_HF[one.columns], layer, step).wait() for one in exchange.rounds]
    return torch.stack(list(returned)).sum(0)


def among_ranks(world: int, tasks: list[Task], *, forks: bool = False) -> list[Any]:
    """Do `tasks` one after the other among `world` ranks; what rank 0 found. `forks`: one rank has a process too."""
    if world == 1 and not forks:
        return _do_all(RankInfo(), tasks)
    fork_context()
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryDirectory() as folder:
        # By a file: a pipe that nobody reads yet holds 64 kB, and then rank 0 would wait for ever.
        path = Path(folder, "outcomes")
        torch.multiprocessing.start_processes(
            _rank, args=(world, tasks, path, environment), nprocs=world, start_method="forkserver"
        )
        outcomes: list[Any] = pickle.loads(path.read_bytes())
    return outcomes


def _rank(rank: int, world: int, tasks: list[Task], path: Path, environment: dict[str, str]) -> None:
    os.environ.clear()  # that of the process which was forked may be another test's
    os.environ |= environment
    outcomes = _do_all(RankInfo(rank=rank, world=world, local_rank=rank, local_world=world), tasks)
    if rank == 0:
        path.write_bytes(pickle.dumps(outcomes))
    os._exit(0)  # as the trainer does, without the farewells of the communication libraries


def _do_all(rank_info: RankInfo, tasks: list[Task]) -> list[Any]:
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    with Communicator(rank_info, cpu, timeout=60.0, clock=Clock(cpu)) as communicator:
        communicator.connect()
        _lower_priority_of_gloo()
        return [task(communicator) for task in tasks]


def _lower_priority_of_gloo() -> None:
    """Let threads of gloo wait for those of ranks, which are more than cores here.

    A thread that gloo has for its sockets polls for as long as the rank's own thread has the lock of a connection. If
    that one is not running, the poll takes the processor time that it needs.
    """
    for name in Path("/proc/self/task").glob("*/comm"):
        if name.read_text().startswith("gloo_tcp_loop"):
            os.setpriority(os.PRIO_PROCESS, int(name.parent.name), 19)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
