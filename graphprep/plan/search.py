"""The ways to train one partitioned graph that there are, and which of them is best by prediction.

What changes no result beyond rounding (the exchange of each layer, relays, 16-bit wires) is always among them. What
approximates (int8 rows, kept rows and gradients, budgets of error and bytes) needs more epochs on some graphs, so it is
only among them where pilot runs have shown how many; mini-batches likewise, in the sizes that a person gave. Options
that a person fixed stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from graphprep.errors import UsageError
from graphprep.plan.training import TrainingPlan
from graphprep.system.options import check_options, option

EXACT: dict[str, tuple[str, ...]] = {
    "exchange": ("boundary", "auto"),
    "relay": ("auto", "off"),
    "wire": ("fp32", "bf16"),
    "weights_wire": ("fp32", "bf16"),
}
APPROXIMATE: dict[str, tuple[str, ...]] = {
    "wire": ("fp32", "bf16", "int8"),
    "staleness": ("none", "adaptive:1", "adaptive:3"),
    "staleness_grad": ("none", "adaptive:1", "adaptive:3"),
}
SEARCHED = tuple({**EXACT, **APPROXIMATE})
"""The options that are chosen."""
WORTH_AN_OPTION = 0.02
"""Share of the time that one more option has to save."""
SHOWN = 3
_DEFAULT = TrainingPlan()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way, with what is predicted for it."""

    training: TrainingPlan
    ranks: int
    topology: str
    epoch_seconds: float
    compute_seconds: float
    communication_seconds: float
    memory_bytes: int
    """Of the rank that needs the most."""
    fits: bool | None
    """Whether each rank has enough memory; None where it is not known how much it has."""
    factor: float
    """Epochs to the same accuracy, as a multiple of those of an exact exchange."""
    epochs: int | None
    """Of an exact exchange until that accuracy; None without pilots."""
    row_bytes: int
    batches: Mapping[str, Any] = field(default_factory=dict)
    """The trainer's options for mini-batches; none for the whole graph."""
    bits: Mapping[str, Any] = field(default_factory=dict)
    """The trainer's option for a budget by which the run chooses bits and age of rows; none where it does not."""
    note: str | None = None
    """What is to be said of it beside the comparison with the defaults, as a clause."""

    @property
    def effective_seconds(self) -> float:
        """Seconds for what an exact epoch achieves."""
        return self.epoch_seconds * self.factor

    def run_seconds(self, epochs: int) -> float:
        """Seconds of a run of as much progress as `epochs` exact ones."""
        return self.effective_seconds * epochs

    @property
    def changes(self) -> dict[str, Any]:
        """The options that differ from the trainer's defaults, of those that are chosen."""
        values = {name: getattr(self.training, name) for name in SEARCHED}
        of_exchange = {name: value for name, value in values.items() if value != getattr(_DEFAULT, name)}
        return {**of_exchange, **self.batches, **self.bits}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may take."""

    epochs: int = option(200, "Epochs of the run, where no pilot shows how many it needs; with --best.", at_least=1)
    within: float | None = option(
        None, "Seconds that the run may take: then the way with the fewest rank-seconds is best; with --best.", above=0
    )
    price: float | None = option(None, "Of a rank for an hour, to say what each run costs; with --best.", above=0)
    cost: float | None = option(
        None, "The most that the run may cost, by --price; then the quickest is best; with --best.", above=0
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.cost is not None and self.price is None:
            raise UsageError("--cost needs --price, what a rank costs in an hour")

    def epochs_of(self, candidate: Candidate) -> int:
        return self.epochs if candidate.epochs is None else candidate.epochs

    def cost_of(self, candidate: Candidate) -> float | None:
        """What its run costs; None without a price."""
        if self.price is None:
            return None
        return self.price * candidate.ranks * candidate.run_seconds(self.epochs_of(candidate)) / 3600

    def allows(self, candidate: Candidate) -> bool:
        cost, seconds = self.cost_of(candidate), candidate.run_seconds(self.epochs_of(candidate))
        return not (
            (self.within is not None and seconds > self.within)
            or (self.cost is not None and cost is not None and cost > self.cost)
        )


def trainings_to_search(
    base: TrainingPlan, fixed: Collection[str], *, ranks: int, has_relays: bool, approximate: bool
) -> list[TrainingPlan]:
    """All that there are; the first is `base` itself.

    Args:
        base: the options that were given, with defaults for the others.
        fixed: names of those that stay.
        ranks: with one there is nothing to exchange.
        has_relays: whether there are any to use or to leave.
        approximate: whether pilots can tell what approximations cost.
    """
    values = {**EXACT, **(APPROXIMATE if approximate else {})}
    if ranks == 1:
        values = {}
    if not has_relays:
        values.pop("relay", None)
    free = {name: those for name, those in values.items() if name not in fixed}
    found = [base]
    for chosen in product(*free.values()):
        each = base.with_options(**dict(zip(free, chosen, strict=True)))
        if each not in found:
            found.append(each)
    return found


def is_approximate(training: TrainingPlan) -> bool:
    """Whether it needs other epochs than an exact exchange."""
    return training.wire == "int8" or max(training.sent_shares) < 1 or min(training.sent_shares) < 1


def best(candidates: Iterable[Candidate], budget: Budget) -> list[Candidate]:
    """The best that fit into memory and budget, the best first, of those that are much alike only the simplest.

    With a budget of cost alone the quickest is best; with a budget of seconds alone the cheapest by rank-seconds; else
    the quickest. One more option has to save `WORTH_AN_OPTION`.
    """
    allowed = [each for each in candidates if each.fits is not False and budget.allows(each)]
    by_cost = budget.within is not None and budget.cost is None

    def amount(each: Candidate) -> float:
        return each.effective_seconds * (each.ranks if by_cost else 1)

    found: list[Candidate] = []
    rest = sorted(allowed, key=amount)
    while rest and len(found) < SHOWN:
        near = [each for each in rest if amount(each) <= amount(rest[0]) * (1 + WORTH_AN_OPTION)]
        chosen = min(near, key=lambda each: (len(each.changes), amount(each)))
        found.append(chosen)
        rest = [each for each in rest if each not in near and _kind(each) != _kind(chosen)]
    return found


def _kind(candidate: Candidate) -> tuple[Any, ...]:
    """What distinguishes ways that are worth showing side by side."""
    training, more = candidate.training, sorted([*candidate.batches, *candidate.bits])
    return candidate.ranks, candidate.topology, training.exchange, training.wire, training.staleness, more


def reasons(candidate: Candidate, default: Candidate) -> Sequence[str]:
    """Why it is better than the trainer's defaults on the same ranks, as clauses."""
    found = [] if candidate.note is None else [candidate.note]
    if candidate.communication_seconds < default.communication_seconds * (1 - WORTH_AN_OPTION):
        times = default.communication_seconds / max(candidate.communication_seconds, 1e-12)
        found.append(f"links take {times:.1f} times less time than by default")
    if candidate.compute_seconds < default.compute_seconds * (1 - WORTH_AN_OPTION):
        found.append(f"computing takes {default.compute_seconds / candidate.compute_seconds:.1f} times less")
    if abs(candidate.factor - 1) > WORTH_AN_OPTION:
        found.append(f"it needs {candidate.factor:.2f} times the epochs by the pilots")
    share = candidate.communication_seconds / candidate.epoch_seconds if candidate.epoch_seconds else 0.0
    overlaps = ", beside computing" if candidate.batches else ""
    return [*found, f"{100 * share:.0f} % of an epoch is communication{overlaps}"]
