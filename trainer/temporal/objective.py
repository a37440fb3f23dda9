"""What a run on an event cache learns: links of coming events, or the states that events leave their sources in."""

from __future__ import annotations

from trainer.base.errors import TrainingError
from trainer.config.options import Options
from trainer.data.events import EventCache
from trainer.data.objective import Objective


def objective_of(options: Options, cache: EventCache) -> Objective:
    """What is learnt, and by which metric it is measured.

    Raises:
        TrainingError: events do not say in which of several states they leave their sources.
    """
    if options.task != "classes":
        return Objective(task="links", metric="mrr" if options.metric == "mrr" else "ap", num_outputs=1)
    if cache.num_states < 2:
        raise TrainingError(
            f"the events of {cache.folder} do not say in which of several states they leave their sources; give a "
            "stream with states, or --task links"
        )
    metric = "roc-auc" if options.metric == "auto" else options.metric
    return Objective(task="classes", metric=metric, num_outputs=cache.num_states)
