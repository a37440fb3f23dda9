"""Many training runs among the same few processes, one thread each: starting Python and torch takes seconds a run."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.dist.rank_info import RankInfo

Options = dict[str, Any]


def train_all(
    cache: Path,
    world: int,
    runs: list[Options],
    *,
    threads: int = 1,
    device: str = "cpu",
    through_host: bool = False,
    prepare: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:
    """Train on `cache` among `world` processes, once for each set of options.

    The processes are forks of one that has imported the trainer, and has used no GPU.

    Args:
        cache: of `world` parts.
        world: how many ranks.
        runs: options.
        threads: of each rank.
        device: of all of them.
        through_host: whether they talk through the host's memory, as ranks have to that share a GPU.
        prepare: a function of a module, called first in each process.

    Returns:
        the result of each run, with its epochs under `lines`.
    """
    import torch

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    multiprocessing.get_context("forkserver").set_forkserver_preload(["trainer.run"])
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        start: Any = torch.multiprocessing.start_processes  # type: ignore[attr-defined] # it declares no types
        arguments = (world, threads, (device, through_host), prepare, str(cache), runs, results, dict(os.environ))
        start(_rank, args=arguments, nprocs=world, start_method="forkserver")
        found: list[dict[str, Any]] = json.loads(results.read_text())
    return found


def _rank(
    rank: int,
    world: int,
    threads: int,
    place: tuple[str, bool],
    prepare: Callable[[], None] | None,
    folder: str,
    runs: list[Options],
    results: Path,
    environment: dict[str, str],
) -> None:
    import torch

    from trainer.dist.rank_info import RankInfo

    os.environ |= environment  # of the call: the process which was forked may be of an earlier one
    torch.set_num_threads(threads)
    if prepare is not None:
        prepare()
    rank_info = RankInfo(rank=rank, world=world, local_rank=rank, local_world=world)
    device, through_host = place
    every = [{"cache": folder, **changes} for changes in runs]
    train_in_turn(rank_info, every, results, device=device, through_host=through_host)
    os._exit(0)  # as the trainer does, without the farewells of the communication libraries


def train_in_turn(
    rank_info: RankInfo, runs: list[Options], results: Path, *, device: str = "cpu", through_host: bool = False
) -> None:
    """One rank's part in some runs, one after the other.

    Args:
        rank_info: which rank of how many this process is.
        runs: the options of each, the folder of its cache among them.
        results: where rank 0 writes a JSON list: the result of each run, with its epochs under `lines`.
        device, through_host: see `train_all`.
    """
    import torch

    from trainer.base.traffic_log import Clock
    from trainer.config.options import Options
    from trainer.data.cache import open_cache
    from trainer.dist.communicator import Communicator
    from trainer.reporting.report import Report
    from trainer.run import train

    where, found = torch.device(device), []
    with Communicator(rank_info, where, timeout=600.0, clock=Clock(where), through_host=through_host) as communicator:
        for options in runs:
            communicator.clock, said = Clock(where), io.StringIO()
            report = Report(speaks=communicator.is_main, as_json=True, output=said)
            result = train(Options(**options), open_cache(options["cache"]), communicator, report)
            *lines, _ = map(json.loads, said.getvalue().splitlines() or ["{}"])
            found.append(result | {"lines": lines})
            if communicator.is_main:
                print(f"  {len(found)} of {len(runs)}", end="\r", flush=True)
    if communicator.is_main:
        results.write_text(json.dumps(found))
