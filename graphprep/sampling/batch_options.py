"""What decides the batches of a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphprep.sampling.edge_weights import Sums
from graphprep.sampling.graph import TimesOf
from graphprep.sampling.part_sampler import DrawName, SamplerName
from graphprep.sampling.samplers.neighbour import TimeStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What decides the batches of a run."""

    batch_size: int
    """seeds of all parts in a batch"""
    fanouts: Sequence[int]
    """neighbours a node, from the seeds on; -1 is all"""
    seed: int
    sums: Sums | None
    """what edges count; None where they get no weights"""
    is_typed: bool
    """whether the model distinguishes node and edge types"""
    node_type: str
    """of the seeds"""
    histories: bool = False
    """whether a batch also says where the nodes before its last hop are, of whose layers their owners keep rows"""
    roots: bool = False
    """whether edges also get weights for noise that is independent from edge to edge (`blocks`)"""
    negatives: int | None = None
    """random pairs beside each pair, where seeds are pairs of nodes; None where they are nodes"""
    num_kept: Mapping[str, int] = field(default_factory=dict)
    """rows of other parts that are kept for later batches, by node type; none where one is left out"""
    cache_policy: str = "belady"
    """which of them: one of `row_cache.policies.POLICIES`"""
    sampler: SamplerName = "neighbour"
    """`neighbour` draws for each node, `ladies` for the nodes of each hop together, `vertices` the nodes of a step"""
    edge_features: str | None = None
    """the array that drawn edges bring along, or `weights`; None for none"""
    draw: DrawName = "uniform"
    """how `neighbour` draws"""
    times_of: TimesOf | None = None
    """whose times say which edges are not later than a seed and may be drawn for it; None for any"""
    time_strategy: TimeStrategy = "uniform"
    """which of these edges"""
    is_evaluation: bool = False
    """whether every epoch has the same batches, with draws that no epoch of training has"""
