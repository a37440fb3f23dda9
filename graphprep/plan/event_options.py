"""What a person says of training on an event cache, where it is planned."""

from __future__ import annotations

from dataclasses import dataclass, fields

from graphprep.errors import UsageError
from graphprep.system.options import check_options, option

SHARED = ("hidden", "eval_every", "batch_size", "epochs")
"""options of other plans that plans of event caches have too"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPlan:
    """The trainer's options of TGN that decide what an epoch takes; None for the trainer's default."""

    parallel: str | None = option(
        None,
        "Of event caches: how ranks are divided, shares,epochs,copies such as 2,1,2, or auto, as in training.",
        metavar="I,J,K",
        default_words="auto",
    )
    neighbours: int | None = option(
        None, "Of event caches: recent neighbours that a node attends to.", at_least=1, default_words="10"
    )
    negatives: int | None = option(
        None, "Of event caches: negatives of each event in training.", at_least=1, default_words="1"
    )

    def __post_init__(self) -> None:
        check_options(self)


OF_EVENTS = tuple(field.name for field in fields(EventPlan))


def require_for_events(given: set[str], *, purpose: str) -> None:
    """Refuse options that plans of event caches do not have.

    Args:
        given: the names of options on the command line.
        purpose: of the cache: events or snapshots.

    Raises:
        UsageError: one of them is not for it.
    """
    own = {*SHARED, *OF_EVENTS, "parts", "topology"} if purpose == "events" else {"hidden", "topology"}
    for name in sorted(given - own):
        flag = "--rates" if name == "rates_from" else f"--{name.replace('_', '-')}"
        raise UsageError(f"{flag} is not for the plan of a cache of {purpose}; leave it out")


def require_for_graphs(given: set[str]) -> None:
    """Refuse options that only plans of event caches have.

    Raises:
        UsageError: one of them is given.
    """
    for name in sorted(given & set(OF_EVENTS)):
        raise UsageError(f"--{name} is for the plan of a cache of events; leave it out")
