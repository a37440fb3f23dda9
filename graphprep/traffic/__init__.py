"""The one cost model: what an assignment makes the ranks exchange, and what that takes on the links between them."""

from graphprep.core.choices import LIMITS, Balance
from graphprep.traffic.batch_figures import BatchFigures, batch_figures
from graphprep.traffic.counts import Assignments, Count, Matrices, RelayedRows, Traffic, count_traffic
from graphprep.traffic.counts_streamed import count_in_order
from graphprep.traffic.links import LinkLoads, LinkModel, LinkTypeLoad, epoch_seconds, link_seconds
from graphprep.traffic.memory import SHARE_BEFORE_HALO, capacities, memory_of
from graphprep.traffic.quality import (
    LinkRow,
    Quality,
    RankRow,
    RelayFigures,
    assess,
    assess_again,
    assess_relays,
    assess_with_relays,
    shares_of,
    step_of,
)
from graphprep.traffic.relay import Relays, SentRows, choose_relays, sent_rows_of, with_relays
from graphprep.traffic.step import RowSeconds, Step, StepModel
from graphprep.traffic.visits import BatchShape, fetched_rows
from graphprep.traffic.work import EDGE_COST, NODE_COST, TRAINING_IMBALANCE, Limit, Workload, speed_shares

__all__ = [
    "EDGE_COST",
    "LIMITS",
    "NODE_COST",
    "SHARE_BEFORE_HALO",
    "TRAINING_IMBALANCE",
    "Assignments",
    "Balance",
    "BatchFigures",
    "BatchShape",
    "Count",
    "Limit",
    "LinkLoads",
    "LinkModel",
    "LinkRow",
    "LinkTypeLoad",
    "Matrices",
    "Quality",
    "RankRow",
    "RelayFigures",
    "RelayedRows",
    "Relays",
    "RowSeconds",
    "SentRows",
    "Step",
    "StepModel",
    "Traffic",
    "Workload",
    "assess",
    "assess_again",
    "assess_relays",
    "assess_with_relays",
    "batch_figures",
    "capacities",
    "choose_relays",
    "count_in_order",
    "count_traffic",
    "epoch_seconds",
    "fetched_rows",
    "link_seconds",
    "memory_of",
    "sent_rows_of",
    "shares_of",
    "speed_shares",
    "step_of",
    "with_relays",
]
