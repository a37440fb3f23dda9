"""What a person asks of the partitioner."""

from __future__ import annotations

from dataclasses import dataclass

from graphprep.core.choices import LIMITS, Balance
from graphprep.errors import UsageError
from graphprep.system.options import check_options, option

METHODS = {
    "auto": "several, the best wins",
    "metis": "",
    "metis-recursive": "",
    "metis-volume": "",
    "metis-balanced": "nodes and edges",
    "metis-hierarchical": "slow links first",
    "mtkahypar": "if installed, like the next three",
    "mtkahypar-rows": "",
    "mtkahypar-steiner": "",
    "kaminpar": "",
    "multilevel": "METIS on a coarse graph, by passes over the edges where memory is short",
    "ldg": "",
    "random": "",
}
EFFORTS = {
    "none": "parts as the method made them",
    "fast": "refined without annealing",
    "default": "",
    "best": "several starts are refined and combined",
}
MINIMISE = {
    "slowest": "the slowest link direction, then all together",
    "total": "all together; with --parts and --balance edges, the number of cut edges",
}
PURPOSES = {
    "full-graph": "every row of a halo is sent once a layer",
    "sampling": "rows are fetched for mini-batches of training nodes",
}
DEFAULT_FANOUTS, DEFAULT_BATCH_SIZE = (15, 10), 1024
RELAY = {
    "auto": "a row is sent once to a group of ranks, and passed on inside, where that is faster",
    "off": "every row is sent by its owner; also with --balance edges",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """The options that change an assignment."""

    method: str = option("auto", "Where refinement starts.", metavar="METHOD", choices=METHODS)
    effort: str = option(
        "default", "How long parts are mapped to ranks and refined for the links.", metavar="EFFORT", choices=EFFORTS
    )
    purpose: str = option(
        "full-graph", "What is trained with the parts.", metavar="PURPOSE", choices=PURPOSES, word="for"
    )
    fanouts: tuple[int, ...] = option(
        DEFAULT_FANOUTS,
        "Neighbours a node in each hop from the training nodes on, with commas between; all: every one; for sampling.",
        at_least=-1,
        separator=",",
        names={"all": -1},
        example="15,10",
    )
    batch_size: int = option(
        DEFAULT_BATCH_SIZE, "Training nodes of all ranks in a step, for sampling.", at_least=1, at_most=2**31 - 1
    )
    seed: int = option(0, "Seed of all random numbers.", at_least=0, at_most=2**31 - 1)
    imbalance: float = option(1.05, "Largest share of a rank over its target share.", above=1.0, at_most=10.0)
    row_bytes: int = option(
        1024,
        "Bytes of one node's row in one exchange.",
        at_least=1,
        at_most=2**31,
        default_words="by --hidden, --layers and --wire",
    )
    balance: Balance = option("rows", "What the seconds of a link count: rows, as the trainer sends them, or edges.")
    minimise: str = option("slowest", "The seconds that are made small.", choices=MINIMISE)
    relay: str = option("auto", "Whether ranks pass rows on to others of their group.", choices=RELAY)
    limits: tuple[str, ...] = option(
        LIMITS,
        "Which loads are kept within --imbalance, with commas between; '' for none. Types are the nodes and the "
        "in-edges of each type.",
        separator=",",
    )

    row_seconds: tuple[float, float, float, float] | None = None
    """Measured seconds of one edge, one node, one row packed and one unpacked, for the step; None where none are."""

    def __post_init__(self) -> None:
        check_options(self)
        is_other = self.fanouts != DEFAULT_FANOUTS or self.batch_size != DEFAULT_BATCH_SIZE
        if self.purpose != "sampling" and is_other:
            raise UsageError("--fanouts and --batch-size are for --for sampling; add it, or leave them out")
        if not self.fanouts:
            raise UsageError("--fanouts has no number; give one for each hop, e.g. 15,10")
        requested = {name.strip() for name in self.limits} - {""}
        for name in sorted(requested):
            if name not in LIMITS:
                raise UsageError(f"--limits {name!r} is unknown; use some of {', '.join(LIMITS)}, with commas between")
        object.__setattr__(self, "limits", tuple(name for name in LIMITS if name in requested))
