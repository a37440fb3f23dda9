"""The one cost model: what an assignment makes the ranks exchange, and what that takes on the links between them."""

from graphprep.traffic.counts import Assignments, Matrices, Traffic, count_traffic
from graphprep.traffic.links import Balance, LinkLoads, LinkModel, LinkTypeLoad, epoch_seconds, link_seconds
from graphprep.traffic.quality import LinkRow, Quality, RankRow, assess
from graphprep.traffic.work import EDGE_COST, NODE_COST, TRAINING_IMBALANCE, Limit, Workload, speed_shares

__all__ = [
    "EDGE_COST",
    "NODE_COST",
    "TRAINING_IMBALANCE",
    "Assignments",
    "Balance",
    "Limit",
    "LinkLoads",
    "LinkModel",
    "LinkRow",
    "LinkTypeLoad",
    "Matrices",
    "Quality",
    "RankRow",
    "Traffic",
    "Workload",
    "assess",
    "count_traffic",
    "epoch_seconds",
    "link_seconds",
    "speed_shares",
]
