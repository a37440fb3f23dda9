"""Chooses the device of each rank, and checks that ranks run on the machines that the topology puts them on.

The topology that a cache was partitioned for says which ranks share a machine. If two of them turn out to run on
different hosts, their traffic takes the slow way that the partitioner avoided, which is an error. The other way round,
ranks of several machines on one host, is how a large run is rehearsed, and is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trainer.data.cache import Cache
from trainer.base.errors import OptionError, TrainingError, found_by_every_rank
from trainer.config.options import Options
from trainer.dist.rank_info import RankInfo

log = logging.getLogger("trainer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the topology says about one rank."""

    name: str
    machine: str
    host: str | None
    """The host that it has to run on, where the topology names one."""
    gpu: int | None
    """The GPU it has to use, counted in the order of the PCI bus, where the topology names one."""


def places(cache: Cache) -> list[Place]:
    """One place a rank, from the cache's topology.

    Raises:
        CacheError: the topology does not describe as many ranks as there are parts.
    """
    listed = cache.topology.get("ranks")
    if not isinstance(listed, list) or len(listed) != cache.num_parts:
        raise cache.manifest.damaged("zarr.json", f"has a topology that does not list {cache.num_parts} ranks")
    try:
        return [_place(entry) for entry in listed]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise cache.manifest.damaged("zarr.json", f"has a topology with a malformed rank ({error!r})") from error


def _place(entry: Mapping[str, Any]) -> Place:
    host, device = entry.get("host"), entry.get("device")
    return Place(
        name=str(entry["name"]),
        machine=str(entry["machine"]),
        host=None if host is None else str(host),
        gpu=None if device is None else int(str(device).removeprefix("cuda:")),
    )


def check_hosts(places: Sequence[Place], hosts: Sequence[str]) -> str | None:
    """Compare where ranks run with where the topology puts them.

    Args:
        places: what the topology says, in rank order.
        hosts: the name of each rank's host.

    Returns:
        a sentence for the log if ranks of several machines share a host, else None.

    Raises:
        TrainingError: a rank is not on its own host, or two ranks of one machine are on two hosts.
    """
    first_of: dict[str, int] = {}
    for rank, (place, host) in enumerate(zip(places, hosts, strict=True)):
        if place.host is not None and not _same_host(place.host, host):
            raise TrainingError(
                f"rank {rank} ({place.name}) runs on host {host} and the topology puts it on {place.host}; "
                "start the ranks in the topology's order, or partition for the machines at hand"
            )
        other = first_of.setdefault(place.machine, rank)
        if hosts[other] != host:
            raise TrainingError(
                f"the topology puts rank {other} ({places[other].name}) and rank {rank} ({place.name}) on the same "
                f"machine {place.machine}, but they run on hosts {hosts[other]} and {host}; "
                "start the ranks in the topology's order, or partition for the machines at hand"
            )
    machines = len(first_of)
    if machines > len(set(hosts)):
        return f"a rehearsal: the topology has {machines} machines and the ranks run on {len(set(hosts))} host(s)"
    return None


def choose_device(options: Options, rank_info: RankInfo, gpu: int | None) -> torch.device:
    """The device of this rank: its GPU if there is one for every rank here, unless the options say otherwise.

    Args:
        options: `device` decides.
        rank_info: which rank of how many on this machine.
        gpu: the GPU that the topology names, else None for the one with the local rank's number.

    Raises:
        OptionError: `--device cuda` on a machine without one.
        TrainingError: `--device cuda` with more ranks than GPUs, or a topology that names a GPU that is not there.
    """
    if options.device == "cpu":
        return torch.device("cpu")
    number = rank_info.local_rank if gpu is None else gpu
    available = torch.cuda.device_count() if torch.cuda.is_available() else 0
    enough = available >= rank_info.local_world
    if options.device == "cuda":
        with found_by_every_rank():
            if not available:
                raise OptionError(f"--device cuda, but torch {torch.__version__} sees no GPU here; use --device cpu")
            if not enough:
                raise TrainingError(
                    f"{rank_info.local_world} ranks have {available} GPU(s) here; use --device cpu, "
                    "or a cache with fewer parts a machine"
                )
    if enough and number >= available:
        raise TrainingError(
            f"the topology gives rank {rank_info.rank} GPU {number} and there are {available} GPU(s) here, counted from 0; "
            "correct `device` in the topology, or use --device cpu"
        )
    if available and not enough and rank_info.local_rank == 0:
        log.info("training on the CPU, since %d ranks have %d GPU(s) here", rank_info.local_world, available)
    return torch.device("cuda", number) if enough else torch.device("cpu")


def check_devices(devices: Sequence[str], hosts: Sequence[str], *, may_share: bool = False) -> None:
    """Refuse devices between which no process group can be made.

    Args:
        devices: each rank's device as text, `cpu` or `cuda:0`.
        hosts: the name of each rank's host.
        may_share: whether the ranks communicate in a way that also works on one GPU.

    Raises:
        TrainingError: some ranks have a GPU and some have none, or two share one.
    """
    kinds = [device.partition(":")[0] for device in devices]
    for rank, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise TrainingError(
                f"rank 0 on {hosts[0]} runs on the {_KIND[kinds[0]]} and rank {rank} on {hosts[rank]} on the "
                f"{_KIND[kind]}; give --device cpu, or GPUs to all"
            )
    seen: dict[tuple[str, str], int] = {}
    for rank, (kind, host, device) in enumerate(zip(kinds, hosts, devices, strict=True)):
        other = seen.setdefault((host, device), rank)
        if kind == "cuda" and other != rank and not may_share:
            raise TrainingError(
                f"rank {other} and rank {rank} share GPU {device} of host {host}; "
                "correct `device` in the topology, or use --device cpu"
            )


_KIND = {"cpu": "CPU", "cuda": "GPU"}


def _same_host(one: str, other: str) -> bool:
    """Whether two host names agree; a short name matches any full name that begins with it."""
    if "." in one and "." in other:
        return one == other
    return one.partition(".")[0] == other.partition(".")[0]
