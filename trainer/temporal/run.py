"""One run on an event cache, from options to a result: by the model that the options name."""

from __future__ import annotations

from typing import Any

from trainer.config.options import SNAPSHOT_MODELS, Options
from trainer.data.events import EventCache
from trainer.dist.communicator import Communicator
from trainer.reporting.report import Report
from trainer.temporal.events.run import train_events
from trainer.temporal.snapshots.run import train_snapshots


def train_temporal(options: Options, cache: EventCache, communicator: Communicator, report: Report) -> dict[str, Any]:
    """Train among `communicator`; every rank has to call it.

    Returns:
        the result, the same on every rank except for seconds.

    Raises:
        TrainerError: in one sentence what is wrong.
    """
    if options.model in SNAPSHOT_MODELS:
        return train_snapshots(options, cache, communicator, report)
    return train_events(options, cache, communicator, report)
