"""What a person says of files of events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphprep.system.options import check_options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Whether an event store is made, and of what."""

    events: Literal["auto", "edges", "jodie", "tgn", "tgb"] | None = option(
        None,
        "Make an event store in place of a graph store, of edges with times or a layout of temporal graphs; auto goes "
        "by the first line.",
    )
    time_unit: Literal["ns", "us", "ms", "s", "min", "h", "d", "w"] = option("s", "Of the times of events.")

    changing_features: Path | None = option(
        None,
        "Of nodes, with --events: a table whose columns are the node's id, the time from which on the row is true, and "
        "features.",
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        check_options(self)
