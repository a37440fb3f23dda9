"""From nvidia-smi's words to a topology of one machine, and the comment that goes with it.

No bandwidth is measured: they are those of `graphprep.topology.link_rates`, by the GPUs' names, and the comment says
which were used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphprep.errors import TopologyError
from graphprep.topology.detect.nvlink import nvlink_links
from graphprep.topology.detect.pcie import pcie_links
from graphprep.topology.detect.smi import Seen
from graphprep.topology.detect.smi_gpus import parse as parse_gpus
from graphprep.topology.detect.smi_matrix import BRIDGES, Matrix
from graphprep.topology.detect.smi_matrix import parse as parse_matrix
from graphprep.topology.link_rates import SOCKET_GBYTES_PER_S, Generation, assumed, generation_of
from graphprep.topology.network import Link, Rank, Topology

MACHINE = "m0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A topology, and what a person should know about it."""

    topology: Topology
    comments: tuple[str, ...]
    """Lines to put above it in a file."""


def detected(seen: Seen, *, name: str) -> Detected:
    """The topology of the machine that nvidia-smi described, its ranks in the order of the PCI bus.

    Args:
        seen: its words.
        name: what to call the topology.

    Raises:
        TopologyError: the words hold no matrix, a broken one, or another number of GPUs than the query's.
    """
    matrix, gpus = parse_matrix(seen.text, origin=seen.origin), parse_gpus(seen.text)
    if gpus and len(gpus) != len(matrix.gpus):
        raise TopologyError(
            f"{seen.origin} lists {len(gpus)} GPUs by name and {len(matrix.gpus)} in its matrix; "
            "save both outputs of one machine"
        )
    if gpus:
        matrix = matrix.ordered(sorted(range(len(gpus)), key=lambda gpu: gpus[gpu].bus))
        gpus = tuple(sorted(gpus, key=lambda gpu: gpu.bus))
    models = [gpu.name for gpu in gpus] or ["GPUs of unknown name"] * len(matrix.gpus)
    kinds = [_kind(model, matrix, gpu) for gpu, model in enumerate(models)]
    names = [f"gpu{number}" for number in range(len(models))]
    ranks = tuple(
        Rank(
            name=name,
            machine=MACHINE,
            memory_gb=gpus[number].memory_gb if gpus else None,
            device=number,
            gpu=gpus[number].name if gpus else None,
        )
        for number, name in enumerate(names)
    )
    links = (*nvlink_links(matrix, kinds, names), *pcie_links(matrix, kinds, names))
    switches = tuple(dict.fromkeys(end for link in links for end in link.ends if end not in names))
    return Detected(
        topology=Topology.build(name=name, ranks=ranks, switches=switches, links=links),
        comments=(
            f"What {seen.origin} shows: {len(names)} GPU(s), in the order of the PCI bus.",
            "Bandwidths are defaults by generation, in GB/s each way; `graphprep topology probe` measures them.",
            *_about_gpus(models, kinds),
            *_about_sockets(links),
            *_about_nics(matrix, names),
        ),
    )


def _kind(model: str, matrix: Matrix, gpu: int) -> Generation:
    """By name; a GPU that is not known, or has NVLinks and should not, is taken for what its links suggest."""
    nvlinks = max((matrix.cells[gpu, other].nvlinks for other in range(len(matrix.gpus)) if other != gpu), default=0)
    found = generation_of(model)
    return found if found and (found.nvlink or not nvlinks) else assumed(nvlinks)


def _about_gpus(models: Sequence[str], kinds: Sequence[Generation]) -> Iterator[str]:
    for model, kind in dict(zip(models, kinds, strict=True)).items():
        nvlink = f"NVLink {kind.nvlink:g} a link" if kind.nvlink else "no NVLink"
        yield f"{model}: {nvlink}, PCIe {kind.pcie}.0 x16 {kind.pcie_gbytes_per_s:g} ({kind.source})."


def _about_sockets(links: Sequence[Link]) -> Iterator[str]:
    if any(link.type == "qpi" for link in links):
        yield f"Between sockets: {SOCKET_GBYTES_PER_S:g} (Intel QPI at 9.6 GT/s)."


def _about_nics(matrix: Matrix, names: Sequence[str]) -> Iterator[str]:
    for place, nic in enumerate(matrix.nics, start=len(names)):
        cells = [matrix.cells[gpu, place].closeness for gpu in range(len(names))]
        near = [name for name, closeness in zip(names, cells, strict=True) if closeness and closeness <= BRIDGES]
        yield f"NIC {nic}: shares PCIe switches with {', '.join(near) or 'no GPU'}."
