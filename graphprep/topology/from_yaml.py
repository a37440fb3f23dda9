"""From what a person wrote to a topology: the two forms of the YAML, checked to the line.

A file names its ranks, switches and links (the long form) or its machines (the short form). All that can be wrong
with names is found here, where the line is still known; what comes out is valid. `routes` may stand in both forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, PrivateAttr, model_validator

from graphprep.errors import TopologyError
from graphprep.system.nearest import nearest
from graphprep.system.yaml_config import FaultAt, StrictModel, Where, validated
from graphprep.topology.network import MAX_RANKS, Link, Rank, Topology, node_numbers, wires
from graphprep.topology.routing import Route, Wire, along
from graphprep.topology.short_form import MachineForm, Parts, expand
from graphprep.topology.units import Bandwidth, FolderName, GpuName, Latency, Memory, Place, Speed, Word


class RankForm(StrictModel):
    name: Word
    machine: Word
    speed: Speed = 1.0
    memory_gb: Memory | None = None
    host: Word | None = None
    device: Place | None = None
    gpu: GpuName | None = None


class LinkForm(StrictModel):
    ends: tuple[Word, Word]
    type: Word
    gbytes_per_s: Bandwidth
    latency_us: Latency


class TopologyForm(StrictModel):
    """A whole file."""

    name: FolderName
    machines: list[MachineForm] | None = Field(default=None, min_length=1)
    ranks: list[RankForm] | None = Field(default=None, min_length=1)
    switches: list[Word] | None = None
    links: list[LinkForm] | None = None
    routes: dict[str, list[Word]] = Field(default_factory=dict)
    _topology: Topology = PrivateAttr()

    @model_validator(mode="after")
    def _build(self) -> TopologyForm:
        parts = self._short() if self.machines is not None else self._long()
        numbers = node_numbers(parts.ranks, parts.switches)
        fixed = _fixed_routes(self.routes, len(parts.ranks), numbers, wires(parts.links, numbers))
        self._topology = Topology.build(
            name=self.name, ranks=parts.ranks, switches=parts.switches, links=parts.links, fixed=fixed
        )
        return self

    @property
    def topology(self) -> Topology:
        return self._topology

    def _short(self) -> Parts:
        machines = self.machines or []
        for key in ("ranks", "switches", "links"):
            if getattr(self, key) is not None:
                raise FaultAt("'machines' already says which ranks, switches and links there are", (key,))
        num_machines = sum(form.count for form in machines)
        num_ranks = sum(form.count * form.gpus for form in machines)
        if num_ranks > MAX_RANKS:
            raise FaultAt(f"{num_ranks:,} GPUs are more than {MAX_RANKS:,} ranks", ("machines",))
        for position, form in enumerate(machines):
            if num_machines > 1 and form.network is None:
                raise FaultAt(f"'network' is needed to join {num_machines} machines", ("machines", position))
        return expand(machines)

    def _long(self) -> Parts:
        if self.ranks is None:
            raise FaultAt("the file lacks the key 'ranks' (or 'machines', the short form)")
        switches, links = self.switches or [], self.links or []
        names: set[str] = set()
        for position, rank in enumerate(self.ranks):
            _add_name(rank.name, names, ("ranks", position, "name"))
        _check_places(self.ranks)
        for position, switch in enumerate(switches):
            _add_name(switch, names, ("switches", position))
        for position, link in enumerate(links):
            for end, name in enumerate(link.ends):
                _know_name(name, names, "rank or switch", ("links", position, "ends", end))
            if link.ends[0] == link.ends[1]:
                raise FaultAt(f"a link cannot join {link.ends[0]!r} to itself", ("links", position, "ends"))
        return Parts(
            tuple(Rank(**rank.model_dump()) for rank in self.ranks),
            tuple(switches),
            tuple(Link(**link.model_dump()) for link in links),
        )


def read(text: str, *, origin: str) -> Topology:
    """The topology that YAML in either form describes.

    Raises:
        TopologyError: one sentence with `origin`, the line and what is wrong there.
    """
    return validated(TopologyForm, text, origin=origin, error=TopologyError).topology


def _check_places(ranks: Sequence[RankForm]) -> None:
    """Refuse what no run could satisfy: one machine on two hosts, or one device for two ranks."""
    host_of: dict[str, tuple[str, str]] = {}
    user_of: dict[tuple[str, int], str] = {}
    for position, rank in enumerate(ranks):
        if rank.host is not None:
            other, host = host_of.setdefault(rank.machine, (rank.name, rank.host))
            if not _may_be_one_host(host, rank.host):
                raise FaultAt(
                    f"machine {rank.machine!r} is on host {host!r} for {other!r} and on {rank.host!r} here",
                    ("ranks", position, "host"),
                )
        if rank.device is not None:
            other = user_of.setdefault((rank.machine, rank.device), rank.name)
            if other != rank.name:
                raise FaultAt(
                    f"device {rank.device} of machine {rank.machine!r} is already that of {other!r}",
                    ("ranks", position, "device"),
                )


def _may_be_one_host(a: str, b: str) -> bool:
    """Whether two host names can mean one host: a short name stands for any full one that begins with it."""
    if "." in a and "." in b:
        return a == b
    return a.partition(".")[0] == b.partition(".")[0]


def _add_name(name: str, names: set[str], where: Where) -> None:
    if name in names:
        raise FaultAt(f"another rank or switch is already called {name!r}", where)
    names.add(name)


def _know_name(name: str, names: set[str], what: str, where: Where) -> None:
    if name not in names:
        raise FaultAt(f"no {what} is called {name!r}{nearest(name, names)}", where)


def _fixed_routes(
    routes: Mapping[str, list[str]], num_ranks: int, numbers: Mapping[str, int], joined: list[Wire]
) -> dict[tuple[int, int], Route]:
    """`routes` by rank numbers."""
    fixed: dict[tuple[int, int], Route] = {}
    ranks = set(list(numbers)[:num_ranks])
    for key, path in routes.items():
        where = ("routes", key)
        ends = [end.strip() for end in key.split("->")]
        if len(ends) != 2 or not all(ends):
            raise FaultAt("a route is named after its ranks, as in 'gpu0->gpu2'", where)
        for end in ends:
            _know_name(end, ranks, "rank", where)
        if ends[0] == ends[1]:
            raise FaultAt(f"{ends[0]!r} needs no route to itself", where)
        if path[:1] != ends[:1] or path[-1:] != ends[1:]:
            raise FaultAt(f"the path must begin with {ends[0]!r} and end with {ends[1]!r}", where)
        for position, node in enumerate(path):
            _know_name(node, set(numbers), "rank or switch", (*where, position))
            if node in path[:position]:
                raise FaultAt(f"the path passes {node!r} twice", (*where, position))
        pair = (numbers[ends[0]], numbers[ends[1]])
        if pair in fixed:
            raise FaultAt("this route is given twice", where)
        try:
            fixed[pair] = along((numbers[node] for node in path), joined)
        except LookupError as problem:
            a, b = (list(numbers)[node] for node in problem.args[0])
            raise FaultAt(f"no link joins {a!r} and {b!r}", where) from problem
    return fixed
