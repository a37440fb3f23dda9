"""One rank of a probe: rendezvous, measurements, and on rank 0 the topology file."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from statistics import median

from graphprep.errors import TopologyError, UsageError
from graphprep.system import progress
from graphprep.system.files.output_path import checked_file
from graphprep.topology.network import Rank
from graphprep.topology.probe.build import build
from graphprep.topology.probe.coordinator import Coordinator, run_plans
from graphprep.topology.probe.options import ProbeOptions
from graphprep.topology.probe.rank_info import Place, RankInfo, ranks_of
from graphprep.topology.probe.rendezvous import RankGroup
from graphprep.topology.probe.survey import Survey, survey
from graphprep.topology.probe.trial import SHARED
from graphprep.topology.to_yaml import save

LISTED_UP_TO = 8
"""Ranks whose pairs are all listed in the file's comment."""


def run(options: ProbeOptions, rank_info: RankInfo) -> None:
    """Connect, measure, and on rank 0 write the file.

    Raises:
        UsageError: the file may not be written.
        TopologyError: the ranks' devices do not match, or one of them is lost.
    """
    out = checked_file(options.out, replace=options.replace) if rank_info.rank == 0 else options.out
    place = place_here(options.backend, rank_info)
    group = RankGroup(rank_info, f"cuda:{place.device}" if place.model else "cpu", timeout=options.timeout)
    group.store_set(f"place/{rank_info.rank}", place.to_text())
    places = [Place.from_text(group.store_get(f"place/{rank}")) for rank in range(rank_info.world)]
    check_together(places)
    group.connect()
    if rank_info.rank:
        run_plans(group)
        group.close()
        return
    hosts = {rank: place.host for rank, place in enumerate(places)}
    progress.say(f"{rank_info.world} ranks on {len(set(hosts.values()))} host(s), about {options.seconds:g} s")
    started = time.monotonic()
    coordinator = Coordinator(group, seconds=options.seconds, sizes=options.sizes)
    surveyed = survey(hosts, coordinator)
    seconds = time.monotonic() - started
    coordinator.finish()
    group.close()
    ranks = ranks_of(places)
    topology = build(surveyed, ranks, name=options.name)
    head = (
        f"Measured by `graphprep topology probe`: {coordinator.trials:,} trials in {seconds:.0f} s, "
        f"{'NCCL between GPUs' if place.model else 'gloo between CPUs'}."
    )
    save(topology, [head, *comments(surveyed, ranks, places)], out)


def place_here(backend: str | None, rank_info: RankInfo) -> Place:
    """Where this rank is, and on which device.

    Args:
        backend: as in the options.
        rank_info: this rank.

    Raises:
        TopologyError: NCCL was asked for and there is not a GPU for every rank here.
    """
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # as nvidia-smi and topologies number GPUs
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    local_world = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if backend == "nccl" and gpus < local_world:
        raise TopologyError(
            f"--backend nccl needs a GPU for each of the {local_world} ranks here, and torch sees {gpus}; "
            "start fewer ranks, or use --backend gloo"
        )
    host = socket.gethostname()
    if backend == "gloo" or gpus < local_world:
        return Place(host=host, device=rank_info.local_rank, model=None, memory_gb=None)
    properties = torch.cuda.get_device_properties(rank_info.local_rank)
    memory_gb = round(properties.total_memory / 1e9, 1)
    return Place(host=host, device=rank_info.local_rank, model=properties.name, memory_gb=memory_gb)


def check_together(places: Sequence[Place]) -> None:
    """Refuse ranks that cannot communicate; every rank finds the same error.

    Raises:
        UsageError: some have a GPU and others have none.
    """
    for rank, place in enumerate(places):
        if (place.model is None) != (places[0].model is None):
            kinds = ["a GPU" if one.model else "no GPU" for one in (places[0], place)]
            raise UsageError(
                f"rank 0 on {places[0].host} has {kinds[0]} and rank {rank} on {place.host} has {kinds[1]}; "
                "use --backend gloo"
            )


def comments(surveyed: Survey, ranks: Sequence[Rank], places: Sequence[Place]) -> Iterator[str]:
    """The comment above the topology: measurements that its links do not show."""
    models = list(dict.fromkeys(place.model for place in places if place.model))
    if models:
        yield f"GPUs: {', '.join(models)}."
    rates = [line.bytes_per_s / 1e9 for line in surveyed.lines.values()]
    yield (
        f"Pairs alone, both ways at once, in GB/s each way: {min(rates):.3g} to {max(rates):.3g}, "
        f"median {median(rates):.3g}."
    )
    if len(ranks) <= LISTED_UP_TO:
        for (a, b), line in sorted(surveyed.lines.items()):
            yield (
                f"  {ranks[a].name} - {ranks[b].name}: {line.bytes_per_s / 1e9:.3g} GB/s, {line.latency_s * 1e6:.1f} us"
            )
    busy = surveyed.busy
    if busy is not None and median(busy.kept) < SHARED:
        yield (
            f"With all ranks busy pairs kept {100 * median(busy.kept):.0f} % of their speed alone: "
            "the ports below are as fast as that."
        )
