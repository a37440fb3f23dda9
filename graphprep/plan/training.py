"""The operations of a training epoch, counted: products, sums over edges, masks, passes over rows, exchanges.

The rules are those of docs/training.md, for GCN and GraphSAGE. A layer [a] -> [b] sums over edges and exchanges at the
narrower of both widths. Layer 1 exchanges nothing; without dropout before it, its sums were made once, and with it they
are made anew but their gradients only where the product comes first. Where few features are not 0, layer 1 multiplies
by these entries, and what that gives is summed forward and backward. Layers from the second on sum and exchange forward
and backward. The mean of D features of edges is made once, and each layer multiplies it by a weight [D, b].
A validation is one more forward pass without masks.

An entry is multiplied by a row of a weight and added, as an edge's row is; so it counts as an edge.

Letters: n rows of a rank, H halo rows, E in-edges, F features, C classes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

from graphprep.errors import UsageError
from graphprep.system.nearest import nearest
from graphprep.system.options import check_options, option

MODELS = ("gcn", "sage")
EXCHANGES = ("boundary", "tensor", "auto")
WIRE_BYTES = {"fp32": (4, 0), "bf16": (2, 0), "fp16": (2, 0), "int8": (1, 2)}
"""Bytes a value and bytes a row more."""
WEIGHTS_WIRES = ("fp32", "bf16")
MOST_DROPOUT = 0.999
CHOSEN_AGES = {"none": 0, "fixed": 3, "adaptive": 3}
"""The most epochs that a kept row is old under a policy without its number, as in the trainer."""
ROW_PASSES = {"forward": 3, "backward": 4}
"""Times that a layer reads and writes its result in full beside products and masks: bias, ReLU, their gradients."""


def _words(text: str, names: tuple[str, ...], **settings: Any) -> dict[str, Any]:
    """Settings of an option with these values."""
    return {"text": text, "choices": dict.fromkeys(names, ""), **settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The trainer's options that decide what an epoch takes, with its defaults."""

    model: str = option("gcn", **_words("The model.", MODELS))
    layers: int = option(2, "Graph layers.", at_least=1, at_most=1000)
    hidden: int = option(64, "Width of the layers between.", at_least=1)
    dropout: float = option(0.5, "Share zeroed before layers 2 .. L.", at_least=0, at_most=MOST_DROPOUT)
    input_dropout: float | None = option(
        None, "Share zeroed before layer 1.", at_least=0, at_most=MOST_DROPOUT, default_words="as --dropout"
    )
    eval_every: int = option(1, "Validate every so many epochs.", at_least=1)
    exchange: str = option("boundary", **_words("Of rows; auto chooses by layer.", EXCHANGES))
    wire: str = option("fp32", **_words("What rows are sent in.", tuple(WIRE_BYTES)))
    weights_wire: str = option("fp32", **_words("What the gradients of weights are sent in.", WEIGHTS_WIRES))
    relay: str = option("auto", **_words("Whether rows go over the relays of the cache.", ("auto", "off")))
    staleness: str = option(
        "none", "When rows are sent again: none, fixed[:K] or adaptive[:AGE], as in training.", metavar="POLICY"
    )
    staleness_grad: str = option("none", "The same for the gradients of rows.", metavar="POLICY")
    edge_features: str | None = option(
        None,
        "For sage: weights, or an array of the edges, as for `graphprep train`.",
        metavar="NAME",
    )

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise UsageError(
                f"--model {self.model!r} cannot be planned{nearest(self.model, MODELS)}; use one of {', '.join(MODELS)}"
            )
        check_options(self)
        for flag, policy in (("--staleness", self.staleness), ("--staleness-grad", self.staleness_grad)):
            age_of(policy, flag)

    def with_options(self, **options: Any) -> TrainingPlan:
        """The same with some others."""
        return replace(self, **options)

    @property
    def first_dropout(self) -> float:
        """The share of the features that is zeroed before layer 1."""
        return self.dropout if self.input_dropout is None else self.input_dropout

    @property
    def sent_shares(self) -> tuple[float, float]:
        """The share of the rows, and of their gradients, that is sent in an epoch of training."""
        forward, backward = (1 / (1 + age_of(policy)) for policy in (self.staleness, self.staleness_grad))
        return forward, backward

    @property
    def arguments(self) -> list[str]:
        """The same on the trainer's command line."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]

    def widths(self, num_features: int, num_classes: int) -> list[tuple[int, int]]:
        """(a, b) of each layer."""
        return list(pairwise([num_features, *[self.hidden] * (self.layers - 1), num_classes]))

    def num_weights(self, num_features: int, num_classes: int, num_edge_features: int = 0) -> int:
        """Of all layers, with their biases: what all ranks sum the gradients of in each epoch."""
        paths = 2 if self.model == "sage" else 1
        return sum((paths * a + num_edge_features + 1) * b for a, b in self.widths(num_features, num_classes))

    def weight_bytes(self, num_features: int, num_classes: int, num_edge_features: int = 0, *, ranks: int) -> int:
        """Bytes of an epoch's ring all-reduce of weight gradients: k ranks send 2 (k - 1) times all of them."""
        number = self.num_weights(num_features, num_classes, num_edge_features)
        return 2 * (ranks - 1) * number * WIRE_BYTES[self.weights_wire][0]

    def row_bytes(self, num_features: int, num_classes: int, *, wire: str | None = None) -> list[int]:
        """Bytes of a row in each layer's exchange; 0 for the first, which makes none."""
        a_value, a_row = WIRE_BYTES[wire or self.wire]
        later = self.widths(num_features, num_classes)[1:]
        return [0, *(min(pair) * a_value + a_row for pair in later)]


def age_of(policy: str, flag: str = "--staleness") -> int:
    """The most epochs that a kept row is old under a policy of the trainer.

    Raises:
        UsageError: it is none, or what it sends depends on the numbers.
    """
    if policy in CHOSEN_AGES:
        return CHOSEN_AGES[policy]
    name, _, number = policy.partition(":")
    least = {"fixed": 1, "adaptive": 0}.get(name)
    if least is None or not number.isdecimal() or int(number) < least:
        reason = "what it sends is known in training alone" if name == "variation" else "it is no policy"
        raise UsageError(f"{flag} {policy!r} cannot be planned, {reason}; use none, fixed[:K] or adaptive[:AGE]")
    return int(number) - least


@dataclass(slots=True)
class Work:
    """Counts that are multiplied by rates. Keys are widths."""

    edges: Counter[int] = field(default_factory=Counter)
    """in-edges summed over, by width"""
    entries: Counter[int] = field(default_factory=Counter)
    """features that are not 0, multiplied by a row of this width"""
    products: Counter[tuple[int, int]] = field(default_factory=Counter)
    """rows multiplied by a matrix [a, b]"""
    gradients: Counter[tuple[int, int]] = field(default_factory=Counter)
    """rows whose products [a] x [b] are added up to the gradient of a matrix"""
    masked: Counter[int] = field(default_factory=Counter)
    """rows that are multiplied by random masks"""
    passed: Counter[int] = field(default_factory=Counter)
    """rows read and written once"""

    @classmethod
    def of_all(cls, works: Iterable[Work]) -> Work:
        """The sum of some."""
        found = cls()
        for work in works:
            for each in fields(cls):
                getattr(found, each.name).update(getattr(work, each.name))
        return found


def epoch_work(
    plan: TrainingPlan,
    pairs: list[tuple[int, int]],
    *,
    rows: int,
    halo: int,
    edges: int,
    entries: float | None = None,
    edge_features: int = 0,
    columns: Mapping[int, int] | None = None,
    cross_edges: int = 0,
    all_cross_edges: int = 0,
) -> Work:
    """What one rank does in a training epoch with its share of the validations.

    Args:
        plan: the options.
        pairs: (a, b) of each layer.
        rows, halo, edges: n, H and E of the rank; GCN's own self-loops are added here.
        entries: features of a row that are not 0, where they are held by these; else None.
        edge_features: D, of those that the model reads.
        columns: by the number of each tensor-parallel layer, from 1, the columns of which it sums `all_cross_edges`.
        cross_edges: those of its in-edges that are from other ranks.
        all_cross_edges: the same of all ranks.
    """
    work = Work()
    is_gcn = plan.model == "gcn"
    edges += rows if is_gcn else 0
    cross = cross_edges, all_cross_edges
    rank = _Rank(rows, halo, edges, paths=1 if is_gcn else 2, columns=columns or {}, cross=cross)
    if entries is not None:
        _first_layer_by_entries(work, plan, pairs[0][1], rank, entries)
    folds = not plan.first_dropout
    for number, pair in enumerate(pairs):
        if edge_features:
            of_edges = edge_features, pair[1]
            _add(work.products, of_edges, rows * (1 + 1 / plan.eval_every))
            _add(work.gradients, of_edges, rows)
        if not number and entries is not None:
            continue
        _forward(work, plan, number, pair, rank, part=1.0, masks=True, folds=folds)
        _backward(work, plan, number, pair, rank, folds=folds)
        _forward(work, plan, number, pair, rank, part=1 / plan.eval_every, masks=False, folds=folds)
    return work


def batch_work(plan: TrainingPlan, pairs: list[tuple[int, int]], layers: Sequence[tuple[float, float, float]]) -> Work:
    """What one rank does in a step of mini-batches; no sums were made beforehand.

    Args:
        plan: the options.
        pairs: (a, b) of each layer.
        layers: of each one the rows that it computes, those that it reads beside these, and its edges, GCN's own
            self-loops among them.
    """
    work = Work()
    for number, (pair, (rows, halo, edges)) in enumerate(zip(pairs, layers, strict=True)):
        rank = _Rank(rows, halo, edges, paths=1 if plan.model == "gcn" else 2, columns={}, cross=(0, 0))
        _forward(work, plan, number, pair, rank, part=1.0, masks=True, folds=False)
        _backward(work, plan, number, pair, rank, folds=False)
    return work


class _Rank(NamedTuple):
    rows: float
    halo: float
    edges: float
    paths: int
    """Products of a layer with a node's own row."""
    columns: Mapping[int, int]
    cross: tuple[int, int]

    def add_sum(self, work: Work, number: int, width: int, part: float) -> None:
        """Add `part` times a sum of layer `number`, from 0, at `width`."""
        columns, (own, of_all) = self.columns.get(number + 1), self.cross
        _add(work.edges, width, part * (self.edges if columns is None else self.edges - own))
        if columns is not None:
            _add(work.edges, columns, part * of_all)


def _first_layer_by_entries(work: Work, plan: TrainingPlan, width: int, rank: _Rank, entries: float) -> None:
    """Forward, backward, and the validations' share of a forward pass."""
    rows, halo, edges, own_paths = rank[:4]
    passes = 2 + 1 / plan.eval_every
    _add(work.entries, width, passes * entries * (rows * own_paths + halo))
    _add(work.edges, width, passes * edges)
    if plan.first_dropout:
        _add(work.passed, math.ceil(entries), ROW_PASSES["forward"] * (rows + halo))
    _add(work.passed, width, rows * ((passes - 1) * ROW_PASSES["forward"] + ROW_PASSES["backward"]))


def _forward(
    work: Work,
    plan: TrainingPlan,
    number: int,
    pair: tuple[int, int],
    rank: _Rank,
    *,
    part: float,
    masks: bool,
    folds: bool,
) -> None:
    """Add `part` times a forward pass of one layer; `folds` says whether the sums of layer 1 were made once."""
    a, b = pair
    first, narrows = number == 0, b < a
    share = plan.first_dropout if first else plan.dropout
    folded = first and folds
    rows, halo, own_paths = rank.rows, rank.halo, rank.paths
    _add(work.products, pair, part * rows * own_paths)
    if not folded:
        rank.add_sum(work, number, min(pair), part)
        if first and narrows:
            _add(work.products, pair, part * halo)
    if masks and share:
        kept = rows * (1 if first else own_paths) + (halo if first or not narrows else 0)
        _add(work.masked, a, part * kept)
    _add(work.passed, b, part * rows * ROW_PASSES["forward"])


def _backward(work: Work, plan: TrainingPlan, number: int, pair: tuple[int, int], rank: _Rank, *, folds: bool) -> None:
    a, b = pair
    first, narrows = number == 0, b < a
    rows, halo, own_paths = rank.rows, rank.halo, rank.paths
    _add(work.gradients, pair, rows * own_paths)
    _add(work.passed, b, rows * ROW_PASSES["backward"])
    if first:
        if not folds and narrows:
            rank.add_sum(work, number, b, 1.0)
            _add(work.gradients, pair, halo)
        return
    _add(work.products, (b, a), rows * own_paths)
    rank.add_sum(work, number, min(pair), 1.0)
    if plan.dropout:
        _add(work.masked, a, rows * own_paths)


def _add(counter: Counter[int] | Counter[tuple[int, int]], key: object, amount: float) -> None:
    counter[key] += amount  # type: ignore[index,assignment]
