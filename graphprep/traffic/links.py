"""What traffic takes on links: the only place where rows become seconds.

    seconds(link, direction) = sum over the pairs routed over it of bytes / bandwidth  +  messages * latency

A message is an ordered pair with something to send, once an exchange. Routes are fixed, so the sum over pairs is one
product with a sparse 0/1 matrix, link directions x pairs, which is made once a topology. The slowest link direction
ends the exchange: its seconds are the bottleneck.

Where rows are relayed, each stage ends with its own slowest link direction, and the bottleneck is their sum: a relay
passes on the rows of a group of owners as soon as it has them, but over shared links all of them arrive at about the
same time. A link's own seconds are those of all stages together. Each stage of relays begins a little later, and each
message that a relay passes on takes a little of its time as well.

Letters: P ranks, S stages, D link directions; direction 0 of link i is row 2i, direction 1 is row 2i + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from graphprep.core.choices import Balance
from graphprep.errors import PartitionError
from graphprep.topology import Topology
from graphprep.topology.crossings import crossings
from graphprep.traffic.counts import RelayedRows, Traffic

Units = NDArray[np.int64] | NDArray[np.float64]
"""rows or edges between pairs of ranks: counts, or averages of many exchanges"""
SECONDS_A_STAGE, SECONDS_A_RELAYED_MESSAGE = 2e-4, 5e-5
"""Time until relays begin a stage, and that a relay takes for each message that it passes on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkModel:
    """A topology as arrays. Reuse it to evaluate many assignments on the same topology."""

    crossed: sparse.csr_array
    """int64 0/1 [D, P * P]: does the route of pair p * P + q cross the link direction?"""
    bytes_per_s_D: NDArray[np.float64]
    seconds_a_message_D: NDArray[np.float64]
    on_route_D: NDArray[np.bool_]
    """Does any route cross the link direction?"""
    type_D: NDArray[np.int64]
    """Position in `types`."""
    types: tuple[str, ...]
    """Link types in the order in which the topology first names them."""
    num_ranks: int

    @classmethod
    def of(cls, topology: Topology) -> LinkModel:
        """The arrays of a topology."""
        crossed = crossings(topology)
        types = tuple(dict.fromkeys(link.type for link in topology.links))
        links = [link for link in topology.links for _ in range(2)]
        return cls(
            crossed=crossed,
            bytes_per_s_D=np.array([link.gbytes_per_s * 1e9 for link in links], np.float64),
            seconds_a_message_D=np.array([link.latency_us * 1e-6 for link in links], np.float64),
            on_route_D=np.diff(crossed.indptr) > 0,
            type_D=np.array([types.index(link.type) for link in links], np.int64),
            types=types,
            num_ranks=topology.num_ranks,
        )

    def carried(self, units_PP: Units) -> NDArray[Any]:
        """[D]: the sum of [P, P] `units_PP` over the pairs routed over each link direction."""
        return np.asarray(self.crossed @ units_PP.ravel())

    def seconds(self, units_PP: Units, row_bytes: int) -> NDArray[np.float64]:
        """float64 [D]: what one exchange of `units_PP` rows of `row_bytes` bytes takes on each link direction."""
        return self._seconds(units_PP, (units_PP > 0).astype(np.int64), row_bytes)

    def stage_seconds(self, relayed: RelayedRows, row_bytes: int) -> tuple[float, ...]:
        """What each stage of a relayed exchange takes, from the first one."""
        stages = zip(relayed.rows_SPP, relayed.messages_SPP, strict=True)
        of_links = [float(self._seconds(*stage, row_bytes).max(initial=0.0)) for stage in stages]
        passed_on = SECONDS_A_STAGE + relayed.messages_SPP.sum(axis=2).max(axis=1) * SECONDS_A_RELAYED_MESSAGE
        return of_links[0], *(seconds + float(more) for seconds, more in zip(of_links[1:], passed_on[1:], strict=True))

    def bottleneck(self, traffic: Traffic, row_bytes: int, *, balance: Balance = "rows") -> float:
        """Seconds of one exchange; 0 without links."""
        if traffic.relayed is not None and balance == "rows":
            return sum(self.stage_seconds(traffic.relayed, row_bytes))
        return float(
            self.seconds(traffic.rows_PP if balance == "rows" else traffic.edges_PP, row_bytes).max(initial=0.0)
        )

    def _seconds(self, units_PP: Units, messages_PP: NDArray[np.int64], row_bytes: int) -> NDArray[np.float64]:
        num_bytes_D = self.carried(units_PP) * row_bytes
        return num_bytes_D / self.bytes_per_s_D + self.carried(messages_PP) * self.seconds_a_message_D

    def crossings_of_types(self, units_PP: Units) -> NDArray[Any]:
        """[types]: the sum of `units_PP` over the pairs whose route crosses that type, each pair once."""
        of_type = sparse.csr_array(
            (np.ones(len(self.type_D), np.int64), (self.type_D, np.arange(len(self.type_D)))),
            shape=(len(self.types), len(self.type_D)),
        )
        pairs = (of_type @ self.crossed).astype(bool).astype(np.int64)
        return np.asarray(pairs @ units_PP.ravel())


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTypeLoad:
    """All links of one type in one exchange."""

    type: str
    seconds_max: float
    """Of its slowest link direction."""
    seconds_mean: float
    """Over its link directions that lie on some route; 0 if none does."""
    imbalance: float
    """seconds_max / seconds_mean; 1 where nothing moves."""
    rows: int
    """Rows of the pairs whose route crosses this type, each counted once however many such links it crosses."""
    edges: int
    """Cross edges, counted likewise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkLoads:
    """One exchange on every link direction, as arrays [D]."""

    rows_D: NDArray[np.int64]
    edges_D: NDArray[np.int64]
    bytes_D: NDArray[np.int64]
    """What the seconds count: rows, or edges under balance by edges, times the bytes of a row."""
    messages_D: NDArray[np.int64]
    seconds_D: NDArray[np.float64]
    types: tuple[LinkTypeLoad, ...]
    stage_seconds: tuple[float, ...]
    """Of each stage, one where nothing is relayed."""

    @property
    def bottleneck_seconds(self) -> float:
        """Seconds of the slowest link direction, of all stages together; 0 without links."""
        return sum(self.stage_seconds)

    @property
    def sum_seconds(self) -> float:
        """Seconds of all link directions together."""
        return float(self.seconds_D.sum())


def link_seconds(
    traffic: Traffic, topology: Topology | LinkModel, row_bytes: int, *, balance: Balance = "rows"
) -> LinkLoads:
    """What one exchange takes on every link direction.

    Args:
        traffic: what part p sends to part q; part p is on rank p.
        topology: ranks and routes; a `LinkModel` where the same topology is used often.
        row_bytes: bytes of one row: features times bytes of a value.
        balance: what the seconds count, `rows` (what is sent) or `edges`.

    Raises:
        PartitionError: there are not as many parts as ranks.
    """
    model = _model(topology, traffic)
    rows_PP = sent_PP = traffic.rows_PP
    messages_PP = (sent_PP > 0).astype(np.int64)
    stage_seconds: tuple[float, ...] | None = None
    if balance == "edges":
        sent_PP = traffic.edges_PP
        messages_PP = (sent_PP > 0).astype(np.int64)
    elif traffic.relayed is not None:
        rows_PP = sent_PP = traffic.relayed.rows_SPP.sum(axis=0)
        messages_PP = traffic.relayed.messages_SPP.sum(axis=0)
        stage_seconds = model.stage_seconds(traffic.relayed, row_bytes)
    bytes_D, messages_D = model.carried(sent_PP) * row_bytes, model.carried(messages_PP)
    seconds_D = bytes_D / model.bytes_per_s_D + messages_D * model.seconds_a_message_D
    return LinkLoads(
        rows_D=model.carried(rows_PP),
        edges_D=model.carried(traffic.edges_PP),
        bytes_D=bytes_D,
        messages_D=messages_D,
        seconds_D=seconds_D,
        types=_type_loads(model, rows_PP, traffic.edges_PP, seconds_D),
        stage_seconds=(float(seconds_D.max(initial=0.0)),) if stage_seconds is None else stage_seconds,
    )


def epoch_seconds(
    traffic: Traffic,
    topology: Topology | LinkModel,
    row_bytes_by_layer: Sequence[int],
    *,
    balance: Balance = "rows",
    start_seconds: float = 0.0,
) -> float:
    """The bottlenecks of an epoch's exchanges: forward in every layer, backward in all but the first.

    Args:
        traffic: what one forward exchange moves.
        topology: as for `link_seconds`.
        row_bytes_by_layer: bytes of one row in each layer's exchange, the first layer first; 0 for a layer that does
            not exchange (its halo is kept).
        balance: as for `link_seconds`.
        start_seconds: what each exchange takes before bytes flow, however many messages it has: all ranks have to
            arrive at it, and agree with each other; with relays it is taken for each stage. 0 leaves it to the links'
            latencies.

    Raises:
        PartitionError: there are not as many parts as ranks.
    """
    model = _model(topology, traffic)
    if not (traffic.rows_PP if balance == "rows" else traffic.edges_PP).any():
        return 0.0
    start_seconds *= 1 if traffic.relayed is None or balance != "rows" else len(traffic.relayed.rows_SPP)
    exchanges = [(traffic, row_bytes) for row_bytes in row_bytes_by_layer]
    exchanges += [(traffic.reversed(), row_bytes) for row_bytes in row_bytes_by_layer[1:]]
    return sum(
        start_seconds + model.bottleneck(exchanged, row_bytes, balance=balance)
        for exchanged, row_bytes in exchanges
        if row_bytes
    )


def _model(topology: Topology | LinkModel, traffic: Traffic) -> LinkModel:
    model = topology if isinstance(topology, LinkModel) else LinkModel.of(topology)
    if model.num_ranks != traffic.num_parts:
        raise PartitionError(f"{traffic.num_parts} parts cannot be placed on a topology of {model.num_ranks} ranks")
    return model


def _type_loads(
    model: LinkModel, rows_PP: NDArray[np.int64], edges_PP: NDArray[np.int64], seconds_D: NDArray[np.float64]
) -> tuple[LinkTypeLoad, ...]:
    rows, edges = model.crossings_of_types(rows_PP), model.crossings_of_types(edges_PP)
    loads = []
    for number, name in enumerate(model.types):
        seconds = seconds_D[(model.type_D == number) & model.on_route_D]
        largest = float(seconds.max(initial=0.0))
        mean = float(seconds.mean()) if len(seconds) else 0.0
        loads.append(
            LinkTypeLoad(
                type=name,
                seconds_max=largest,
                seconds_mean=mean,
                imbalance=largest / mean if mean > 0 else 1.0,
                rows=int(rows[number]),
                edges=int(edges[number]),
            )
        )
    return tuple(loads)
