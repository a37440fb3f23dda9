"""The source of a plan's rates: a file, the published rates of a GPU, or this machine if the ranks are its devices.

A login node's CPU says nothing about the GPUs of the machines behind it. So rates are measured here only for ranks that
can be this machine's devices:

- the topology names hosts, and one of them is this one; or
- it names GPUs, and this machine has as many of them as one machine of the topology; or
- it names neither, and this machine has as many GPUs; or it is `--parts K`, K equal ranks of no kind, up to
  `MOST_RANKS` or the cores.

Otherwise the GPUs that the topology names have their published rates; if it names none, `ASSUMED` is used, which the
plan says in its first line, and the plan gives no advice that depends on such rates.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from graphprep.errors import UsageError
from graphprep.plan import rates_file
from graphprep.plan.published_rates import published_rates
from graphprep.plan.rates import Rates
from graphprep.system.threads import cores
from graphprep.topology import Topology
from graphprep.topology.gpu_specs import Gpu, gpu_called

Source = Literal["measured", "published", "file", "assumed"]
ASSUMED = "A100-40GB"
MOST_RANKS = 8
FULL = 0.9
"""Share of a rank's memory that a run may need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRates:
    """The rates of every rank, and their source."""

    source: Source
    of_ranks: tuple[Rates, ...]
    memory_gb: tuple[float | None, ...]
    """Of each rank's device, where the rates' source knows it."""
    sentence: str
    """For people."""

    @property
    def names(self) -> list[str]:
        """Of the devices, each once."""
        return list(dict.fromkeys(rates.name or rates.device for rates in self.of_ranks))

    def memory_has(self, topology: Topology) -> list[float | None]:
        """GB of each rank, by the topology or else its device; None where neither says."""
        return [
            of_device if rank.memory_gb is None else rank.memory_gb
            for rank, of_device in zip(topology.ranks, self.memory_gb, strict=True)
        ]

    def has_enough(self, topology: Topology, needs_P: Sequence[int]) -> bool | None:
        """Whether each rank has so many bytes of memory; None where it is not known how much any has."""
        pairs = zip(needs_P, self.memory_has(topology), strict=True)
        known = [need <= FULL * 1e9 * has for need, has in pairs if has is not None]
        return all(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"source": self.source, "names": self.names, "text": self.sentence}


def rank_rates(
    topology: Topology,
    *,
    measure: Callable[[int], Rates],
    gpus_here: Callable[[], Sequence[str]],
    gpu: str | None = None,
    file: Path | None = None,
) -> RankRates:
    """The rates to plan a topology with.

    Args:
        topology: the ranks.
        measure: gives this machine's rates with so many ranks side by side.
        gpus_here: gives the names of this machine's GPUs; asked only where that matters.
        gpu: what all ranks are.
        file: of `graphprep doctor --rates FILE`.

    Raises:
        UsageError: both `gpu` and `file` are given, the file is none, or nothing is known of a GPU.
    """
    if gpu is not None and file is not None:
        raise UsageError("give either --gpu or --rates")
    if file is not None:
        rates = rates_file.read(file)
        return _alike(topology, "file", rates, f"rates: from {file}, measured on {rates.name}{_side_by_side(rates)}")
    if gpu is not None:
        found = gpu_called(gpu, where="--gpu")
        return _published("published", [found] * topology.num_ranks, "as --gpu says")
    named = [rank.gpu for rank in topology.ranks]
    because = _why_here(topology, gpus_here)
    if because is not None:
        rates = measure(ranks_a_machine(topology))
        threads = f", {rates.threads} thread{'' if rates.threads == 1 else 's'} a rank" if rates.device == "cpu" else ""
        what = f"{rates.name or rates.device}{threads}"
        return _alike(topology, "measured", rates, f"rates: measured on this machine ({what}), {because}")
    if any(name is None for name in named):
        unknown = f"assumed, since {topology.name} names no GPU; give --gpu NAME or --rates FILE for a plan of yours"
        return _published("assumed", [gpu_called(ASSUMED, where="graphprep")] * topology.num_ranks, unknown)
    gpus = [gpu_called(str(name), where=f"the topology {topology.name}") for name in named]
    return _published("published", gpus, f"which {topology.name} names; this machine was not measured")


def ranks_a_machine(topology: Topology) -> int:
    """The most ranks of one machine."""
    machines = [rank.machine for rank in topology.ranks]
    return max(machines.count(name) for name in set(machines))


def _why_here(topology: Topology, gpus_here: Callable[[], Sequence[str]]) -> str | None:
    """Why the ranks are assumed to be devices of this machine; None if they are not."""
    hosts = {_short(rank.host) for rank in topology.ranks if rank.host is not None}
    named = {rank.gpu for rank in topology.ranks}
    wanted = ranks_a_machine(topology)
    several = len({rank.machine for rank in topology.ranks}) > 1
    others = "; the other machines are assumed to be like it" if several else ""
    if hosts and _short(platform.node()) not in hosts:
        return None
    here = gpus_here()
    if named != {None}:
        has_them = len(named) == 1 and sum(name in named for name in here) >= wanted
        return f"which has the GPUs that {topology.name} names{others}" if has_them else None
    if hosts:
        return f"which {topology.name} names{others}"
    if len(here) >= wanted:
        return f"which has as many GPUs as a machine of {topology.name}, which names none{others}"
    if topology == Topology.flat(topology.num_ranks) and not here and wanted <= max(MOST_RANKS, cores()):
        return f"assumed to be the ranks of {topology.name}, which names no GPU; --gpu NAME plans for other devices"
    return None


def _short(host: str | None) -> str:
    return (host or "").partition(".")[0].lower()


def _alike(topology: Topology, source: Source, rates: Rates, sentence: str) -> RankRates:
    count = topology.num_ranks
    return RankRates(source=source, of_ranks=(rates,) * count, memory_gb=(rates.memory_gb,) * count, sentence=sentence)


def _published(source: Source, gpus: Sequence[Gpu], because: str) -> RankRates:
    by_name = {gpu.name: gpu for gpu in gpus}
    rates = {name: published_rates(gpu) for name, gpu in by_name.items()}
    sources = "; ".join(dict.fromkeys(gpu.source for gpu in by_name.values()))
    return RankRates(
        source=source,
        of_ranks=tuple(rates[gpu.name] for gpu in gpus),
        memory_gb=tuple(gpu.memory_gb for gpu in gpus),
        sentence=f"rates: published for {', '.join(by_name)} ({sources}), {because}",
    )


def _side_by_side(rates: Rates) -> str:
    return "" if rates.processes in (None, 1) else f" with {rates.processes} ranks side by side"
