"""A rank's number, from torchrun's variables, and its host and device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from graphprep.errors import UsageError
from graphprep.topology.network import MAX_RANKS, Rank

START = "start the ranks with torchrun, or all of this machine's with `graphprep topology probe`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInfo:
    """The number of this process, among all and on its machine."""

    rank: int
    """0 .. world - 1 over all machines."""
    world: int
    local_rank: int
    """0 .. on its machine."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> RankInfo:
        """The rank that torchrun's variables name.

        Raises:
            UsageError: one is missing or no number, or there are too few or too many ranks.
        """
        numbers = {}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            text = environment.get(name, "")
            if not text.isdecimal():
                raise UsageError(f"{name} is {text!r}, not a number; {START}")
            numbers[name] = int(text)
        if not 2 <= numbers["WORLD_SIZE"] <= MAX_RANKS:
            raise UsageError(f"a probe takes 2 to {MAX_RANKS:,} ranks, not {numbers['WORLD_SIZE']}; {START}")
        return cls(rank=numbers["RANK"], world=numbers["WORLD_SIZE"], local_rank=numbers["LOCAL_RANK"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A rank's host and device, as it publishes them to the others."""

    host: str
    device: int
    """The number of its GPU by PCI bus; without GPUs its number on the machine."""
    model: str | None
    """The GPU's name; None on a CPU."""
    memory_gb: float | None
    """The GPU's, in units of 1e9 bytes."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Place:
        return cls(**json.loads(text))


def ranks_of(places: Sequence[Place]) -> list[Rank]:
    """The topology's ranks: machines by the first rank on each host, names by machine and place on it."""
    hosts = list(dict.fromkeys(place.host for place in places))
    on_host: dict[str, int] = dict.fromkeys(hosts, 0)
    devices = [(place.host, place.device) for place in places]
    ranks = []
    for place in places:
        machine = f"m{hosts.index(place.host)}"
        number = on_host[place.host]
        on_host[place.host] += 1
        ranks.append(
            Rank(
                name=f"{machine}.{'gpu' if place.model else 'cpu'}{number}",
                machine=machine,
                memory_gb=place.memory_gb,
                gpu=place.model,
                host=place.host,
                # Two runs of torchrun on one host count their devices alike, and then the number says nothing.
                device=place.device if devices.count((place.host, place.device)) == 1 else None,
            )
        )
    return ranks
