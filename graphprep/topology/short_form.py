"""The short form: machines of GPUs, and the ranks, switches and links that they stand for.

GPU g of machine i is rank m<i>.gpu<g>. It joins switch m<i>.pcie<j> (type pcie), each such switch joins m<i>.host
(type qpi), and each host joins `net` (type network). NVLink joins GPUs in pairs, or each to m<i>.nvswitch (type
nvlink). The order in which links are made here is their file order, which breaks ties between equal routes: within a
machine NVLink, then GPUs to their switches, then switches to the host, then the host to the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from pydantic import Field, StrictBool, StrictInt, model_validator

from graphprep.system.yaml_config import FaultAt, StrictModel
from graphprep.topology.link_rates import NETWORK_LATENCY_US, NVLINK_LATENCY_US, PCIE_LATENCY_US
from graphprep.topology.network import Link, Rank
from graphprep.topology.units import MAX_GBYTES_PER_S, Bandwidth, Count, GpuName, Latency, Memory, Speed

NETWORK_SWITCH = "net"
MAX_LINKS_A_PAIR = 100


class NvlinkForm(StrictModel):
    gbytes_per_s: Annotated[Bandwidth, Field(le=MAX_GBYTES_PER_S / MAX_LINKS_A_PAIR)]
    """Of one link; a pair with several has as many times that."""
    latency_us: Latency = NVLINK_LATENCY_US
    pairs: list[Annotated[list[StrictInt], Field(min_length=2, max_length=3)]] | None = None
    """[GPU, GPU] or [GPU, GPU, number of links between them]."""
    switch: StrictBool = False

    @model_validator(mode="after")
    def _one_kind(self) -> NvlinkForm:
        if (self.pairs is not None) == self.switch:
            raise FaultAt("give either the pairs that NVLink joins or 'switch: true'")
        return self


class PcieForm(StrictModel):
    gbytes_per_s: Bandwidth
    latency_us: Latency = PCIE_LATENCY_US
    gpus_per_switch: Count | None = None
    """None for all of the machine's."""


class QpiForm(StrictModel):
    gbytes_per_s: Bandwidth | None = None
    """None for that of pcie, as for the latency."""
    latency_us: Latency | None = None


class NetworkForm(StrictModel):
    gbytes_per_s: Bandwidth
    latency_us: Latency = NETWORK_LATENCY_US


class MachineForm(StrictModel):
    """`count` equal machines."""

    count: Count = 1
    gpus: Count
    nvlink: NvlinkForm | None = None
    pcie: PcieForm
    qpi: QpiForm = QpiForm()
    network: NetworkForm | None = None
    """Needed where there is more than one machine."""
    speed: Speed = 1.0
    memory_gb: Memory | None = None
    """Of each GPU."""
    gpu: GpuName | None = None
    """What all of them are."""

    @property
    def gpus_per_switch(self) -> int:
        return self.pcie.gpus_per_switch or self.gpus

    @model_validator(mode="after")
    def _gpus_exist(self) -> MachineForm:
        if self.gpus % self.gpus_per_switch:
            raise FaultAt(
                f"{self.gpus} GPUs cannot be shared out in groups of {self.gpus_per_switch}; "
                "write a machine with unequal switches in the long form",
                ("pcie", "gpus_per_switch"),
            )
        seen = set()
        for position, (a, b, *links) in enumerate(self.nvlink.pairs or () if self.nvlink else ()):
            where = ("nvlink", "pairs", position)
            for gpu in (a, b):
                if not 0 <= gpu < self.gpus:
                    raise FaultAt(f"there is no GPU {gpu}; the machine has GPUs 0 to {self.gpus - 1}", where)
            if a == b:
                raise FaultAt(f"GPU {a} cannot be joined to itself", where)
            if links and not 1 <= links[0] <= MAX_LINKS_A_PAIR:
                raise FaultAt(f"a pair has 1 to {MAX_LINKS_A_PAIR} links, not {links[0]}", where)
            if {a, b} in seen:
                raise FaultAt(f"GPUs {a} and {b} are joined twice; a third number says how many links they have", where)
            seen.add(frozenset((a, b)))
        return self


class Parts(NamedTuple):
    """What a topology is built from."""

    ranks: tuple[Rank, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]


def expand(forms: list[MachineForm]) -> Parts:
    """The long form of `forms`, which are valid."""
    machines = [(f"m{number}", form) for number, form in enumerate(form for form in forms for _ in range(form.count))]
    ranks = [
        Rank(name=f"{name}.gpu{gpu}", machine=name, speed=form.speed, memory_gb=form.memory_gb, gpu=form.gpu)
        for name, form in machines
        for gpu in range(form.gpus)
    ]
    switches = [switch for name, form in machines for switch in _switches(name, form)]
    if any(form.network for form in forms):
        switches.append(NETWORK_SWITCH)
    links = [link for name, form in machines for link in _links(name, form)]
    return Parts(tuple(ranks), tuple(switches), tuple(links))


def _switches(name: str, form: MachineForm) -> Iterator[str]:
    for number in range(form.gpus // form.gpus_per_switch):
        yield f"{name}.pcie{number}"
    yield f"{name}.host"
    if form.nvlink and form.nvlink.switch:
        yield f"{name}.nvswitch"


def _links(name: str, form: MachineForm) -> Iterator[Link]:
    def link(type: str, a: str, b: str, gbytes_per_s: float, latency_us: float) -> Link:
        return Link(ends=(a, b), type=type, gbytes_per_s=gbytes_per_s, latency_us=latency_us)

    nvlink, pcie, qpi, network = form.nvlink, form.pcie, form.qpi, form.network
    gpus = [f"{name}.gpu{gpu}" for gpu in range(form.gpus)]
    host = f"{name}.host"
    if nvlink:
        for a, b, *links in nvlink.pairs or ():
            bandwidth = nvlink.gbytes_per_s * (links[0] if links else 1)
            yield link("nvlink", gpus[a], gpus[b], bandwidth, nvlink.latency_us)
        for gpu in gpus if nvlink.switch else ():
            yield link("nvlink", gpu, f"{name}.nvswitch", nvlink.gbytes_per_s, nvlink.latency_us)
    for number, gpu in enumerate(gpus):
        switch = f"{name}.pcie{number // form.gpus_per_switch}"
        yield link("pcie", gpu, switch, pcie.gbytes_per_s, pcie.latency_us)
    uplink = pcie.gbytes_per_s if qpi.gbytes_per_s is None else qpi.gbytes_per_s
    latency = pcie.latency_us if qpi.latency_us is None else qpi.latency_us
    for number in range(form.gpus // form.gpus_per_switch):
        yield link("qpi", f"{name}.pcie{number}", host, uplink, latency)
    if network:
        yield link("network", host, NETWORK_SWITCH, network.gbytes_per_s, network.latency_us)
