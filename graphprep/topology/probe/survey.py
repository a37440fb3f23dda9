"""The sequence of the measurements, and what is inferred after each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from graphprep.topology.probe import groups, levels
from graphprep.topology.probe.fit import Line
from graphprep.topology.probe.groups import Group, Tree
from graphprep.topology.probe.quartets import quartets
from graphprep.topology.probe.sharing import shared_splits
from graphprep.topology.probe.trial import Instrument, Pair, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All measurements and inferences."""

    lines: Mapping[Pair, Line]
    """Of every pair alone."""
    direct: frozenset[Pair]
    """Pairs with a link of their own."""
    tree: Tree
    full: Mapping[Group, Trial]
    """Of the groups of the tree: pairs across, as many as there are at once. Without those for which time ran out."""
    busy: Trial | None
    """Pairs within the smallest groups, as many as there are at once."""


def survey(hosts: Mapping[int, str], instrument: Instrument) -> Survey:
    """Measure and infer.

    Args:
        hosts: of every rank 0 .. P - 1, P above 1.
        instrument: what measures.
    """
    pairs = list(combinations(sorted(hosts), 2))
    lines = instrument.alone(pairs)
    found = levels.find({pair: line.bytes_per_s for pair, line in lines.items()}, hosts, instrument)
    trials = instrument.together(quartets(hosts, found.direct), share=0.6, purpose="two pairs at once")
    closer = [*groups.host_groups(hosts), *found.groups]
    known = [groups.as_split(group, len(hosts)) for group in closer if len(group) < len(hosts)]
    tree = groups.tree_of(hosts, found.groups, shared_splits(trials, known, len(hosts)))
    across = {group: groups.crossing(tree, group, found.direct) for group in tree.groups}
    wanted = {group: pairs for group, pairs in across.items() if pairs}
    busy = groups.inside(tree, found.direct)
    plans = [*([busy] if len(busy) > 1 else []), *wanted.values()]
    measured = instrument.together(plans, share=0.9, purpose="all pairs across a boundary at once")
    by_pairs = {frozenset(trial.pairs): trial for trial in measured}
    return Survey(
        lines=lines,
        direct=found.direct,
        tree=tree,
        full={group: by_pairs[key] for group, pairs in wanted.items() if (key := frozenset(pairs)) in by_pairs},
        busy=by_pairs.get(frozenset(busy)),
    )
