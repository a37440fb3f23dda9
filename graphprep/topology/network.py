"""What joins the ranks: ranks, switches, links, and one route for every ordered pair of ranks.

A `Topology` is a value: it is fixed when it is made, compares and hashes by content, and knows nothing of graphs.
Everything about time that is not the time of a graph's own traffic is here: what one message takes on one link, which
decides the routes. What traffic costs on them is the business of `graphprep.traffic`.

A link is full duplex: each of its two directions carries its own load at the full bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphprep.errors import TopologyError
from graphprep.system.files.regular_file import regular_file
from graphprep.topology.routing import Route, Wire, all_routes, reverse

ROUTING_BYTES = 2**20
"""Routes are the quickest for a message of this size."""
MAX_RANKS = 1024
FLAT_GBYTES_PER_S, FLAT_LATENCY_US = 12.5, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One device that trains one part."""

    name: str
    machine: str
    """Ranks of one machine share a host name at start-up."""
    speed: float = 1.0
    """How much work a second, against the other ranks."""
    memory_gb: float | None = None
    """In units of 1e9 bytes; None if unknown, and then without a limit."""
    host: str | None = None
    """Host name that this rank must find itself on; None for any."""
    device: int | None = None
    """Number of the device on its machine, by PCI bus; None for the rank's place among those of its machine."""
    gpu: str | None = None
    """What the driver calls the device, for instance NVIDIA A100-SXM4-40GB; None if unknown, or if it is no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A cable, a bus or a slot between two nodes; a node is a rank or a switch."""

    ends: tuple[str, str]
    type: str
    gbytes_per_s: float
    """1e9 bytes a second, in each direction."""
    latency_us: float
    """Microseconds that each message spends beside its bytes."""

    @property
    def routing_ns(self) -> int:
        """Whole nanoseconds for one message of `ROUTING_BYTES`."""
        return round(self.latency_us * 1000 + ROUTING_BYTES / self.gbytes_per_s)

    def direction_name(self, direction: int) -> str:
        """`a->b` for direction 0, `b->a` for direction 1."""
        return "->".join(self.ends if direction == 0 else reversed(self.ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Ranks, switches, links and routes. Make one with `build`, `flat`, `from_text` or `from_file`."""

    name: str
    """Names the cache's folder too."""
    ranks: tuple[Rank, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]
    routes: tuple[tuple[Route, ...], ...]
    """`routes[p][q]`: the hops from rank p to rank q in order; empty where p is q."""

    @classmethod
    def build(
        cls,
        *,
        name: str,
        ranks: tuple[Rank, ...],
        switches: tuple[str, ...],
        links: tuple[Link, ...],
        fixed: Mapping[tuple[int, int], Route] | None = None,
    ) -> Topology:
        """Find the routes of valid parts.

        Args:
            name: as the field.
            ranks: as the field; the names of ranks and switches are unique.
            switches: as the field.
            links: as the field; every end of a link is a rank or a switch.
            fixed: routes that are given, by rank numbers; each step takes the quickest link between its nodes, the
                first among equals.

        Raises:
            TopologyError: more than `MAX_RANKS` ranks, or two of them that nothing joins.
        """
        if len(ranks) > MAX_RANKS:
            raise TopologyError(f"{len(ranks):,} ranks are more than the {MAX_RANKS:,} that a topology can have")
        numbers = node_numbers(ranks, switches)
        found = all_routes(len(ranks), len(numbers), wires(links, numbers), fixed or {})
        for p, rank in enumerate(ranks):
            for q in range(p + 1, len(ranks)):
                if (p, q) not in found:
                    raise TopologyError(
                        f"no path of links leads from rank {rank.name!r} to rank {ranks[q].name!r}; "
                        "join them through a switch, or give a route that relays through another rank"
                    )
        everywhere = range(len(ranks))
        routes = tuple(tuple(found.get((p, q), ()) for q in everywhere) for p in everywhere)
        return cls(name=name, ranks=ranks, switches=switches, links=links, routes=routes)

    @classmethod
    def flat(cls, num_ranks: int) -> Topology:
        """`num_ranks` equal ranks on one switch, which is what `--parts` alone means.

        Raises:
            TopologyError: fewer ranks than one, or more than `MAX_RANKS`.
        """
        if num_ranks < 1:
            raise TopologyError(f"a topology needs at least 1 rank, not {num_ranks}")
        if num_ranks > MAX_RANKS:
            raise TopologyError(f"{num_ranks:,} ranks are more than the {MAX_RANKS:,} that a topology can have")
        ranks = tuple(Rank(name=f"rank{number}", machine="m0") for number in range(num_ranks))
        links = tuple(
            Link(ends=(rank.name, "net"), type="network", gbytes_per_s=FLAT_GBYTES_PER_S, latency_us=FLAT_LATENCY_US)
            for rank in ranks
        )
        return cls.build(name=f"flat-{num_ranks}", ranks=ranks, switches=("net",), links=links)

    @classmethod
    def from_text(cls, text: str, *, origin: str = "the topology") -> Topology:
        """Read YAML in the long or the short form; `origin` is what messages call it.

        Raises:
            TopologyError: one sentence with the line and what is wrong there.
        """
        from graphprep.topology.from_yaml import read

        return read(text, origin=origin)

    @classmethod
    def from_file(cls, path: str | Path) -> Topology:
        """Read a YAML file in UTF-8.

        Raises:
            TopologyError: the file cannot be read, or what it says is wrong.
        """
        try:
            text = regular_file(Path(path)).read_text(encoding="utf-8-sig")
        except OSError as problem:
            raise TopologyError(f"cannot read the topology {path}: {problem.strerror}") from problem
        except UnicodeDecodeError as problem:
            raise TopologyError(f"the topology {path} is not text in UTF-8 (byte {problem.start})") from problem
        return cls.from_text(text, origin=str(path))

    @classmethod
    def from_long_form(cls, form: Mapping[str, Any], *, origin: str = "the topology") -> Topology:
        """The inverse of `to_long_form`, for a topology that a cache or a report carries.

        Raises:
            TopologyError: one sentence with what is wrong.
        """
        import yaml

        return cls.from_text(yaml.safe_dump(dict(form), sort_keys=False), origin=origin)

    @property
    def num_ranks(self) -> int:
        return len(self.ranks)

    @property
    def nodes(self) -> dict[str, int]:
        """The number of every node: ranks from 0, then switches."""
        return node_numbers(self.ranks, self.switches)

    def path(self, p: int, q: int) -> tuple[str, ...]:
        """The names of the nodes on the route from rank p to rank q, both included."""
        far_ends = (self.links[hop.link].ends[1 - hop.direction] for hop in self.routes[p][q])
        return (self.ranks[p].name, *far_ends)

    def routing_ns(self, p: int, q: int) -> int:
        """Nanoseconds for one message of `ROUTING_BYTES` from rank p to rank q."""
        return sum(self.links[hop.link].routing_ns for hop in self.routes[p][q])

    def slowest_links(self) -> list[list[str]]:
        """The type of the slowest link on each route, from rank p (row) to rank q (column); "" where p is q.

        It is the link with the most time for one message of `ROUTING_BYTES`, the first on the way among equals.
        """

        def of(route: Route) -> str:
            passed = [self.links[hop.link] for hop in route]
            return max(passed, key=lambda link: link.routing_ns).type if passed else ""

        return [[of(route) for route in row] for row in self.routes]

    def to_long_form(self) -> dict[str, Any]:
        """Plain values in the long form; reading them again gives an equal topology.

        `routes` holds only the routes that would not be found without it.
        """
        form: dict[str, Any] = {
            "name": self.name,
            "ranks": [{key: value for key, value in asdict(rank).items() if value is not None} for rank in self.ranks],
            "switches": list(self.switches),
            "links": [asdict(link) | {"ends": list(link.ends)} for link in self.links],
        }
        numbers = self.nodes
        found = all_routes(self.num_ranks, len(numbers), wires(self.links, numbers), {})
        given = {}
        for p in range(self.num_ranks):
            for q in range(p + 1, self.num_ranks):
                there, back = self.routes[p][q], self.routes[q][p]
                if there != found.get((p, q)) or back != reverse(there):
                    given[p, q] = there
                if back != reverse(there):
                    given[q, p] = back
        if given:
            names = [rank.name for rank in self.ranks]
            form["routes"] = {f"{names[p]}->{names[q]}": list(self.path(p, q)) for p, q in given}
        return form

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from graphprep.report.notebook import topology_html

        return topology_html(self)

    def to_yaml(self) -> str:
        """The long form as text for a file, one line a rank and a link."""
        import yaml

        def dump(value: object, *, flow: bool | None) -> str:
            return yaml.safe_dump(value, sort_keys=False, default_flow_style=flow, width=10**6)

        form = self.to_long_form()
        text = dump({"name": form.pop("name")}, flow=False)
        for key, value in form.items():
            if key in ("ranks", "links") and value:
                text += f"{key}:\n" + "".join(f"  - {dump(item, flow=True)}" for item in value)
            else:
                text += dump({key: value}, flow=None)
        return text


def node_numbers(ranks: Sequence[Rank], switches: Sequence[str]) -> dict[str, int]:
    """Ranks from 0, then switches."""
    return {name: number for number, name in enumerate((*(rank.name for rank in ranks), *switches))}


def wires(links: Sequence[Link], numbers: Mapping[str, int]) -> list[Wire]:
    """`links` with node numbers for names."""
    return [Wire((numbers[link.ends[0]], numbers[link.ends[1]]), link.routing_ns) for link in links]
