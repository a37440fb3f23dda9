"""AP and MRR of pairs among their negatives.

ap    average precision of the pairs among as many negatives, the first one of each, as scikit-learn's
mrr   mean of 1 / rank of each pair among its negatives, ties half
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.dist.communicator import Communicator
from trainer.temporal.epochs import Metrics
from trainer.training.ranking import ranking_metrics

_SCORES_AT_A_TIME = 1 << 20


def link_metrics(scores_km: Tensor, communicator: Communicator) -> Metrics:
    """ap, and mrr where pairs have several negatives; every rank has to call it.

    Args:
        scores_km: [k, 1 + negatives], of this rank's pairs and of the negatives of each.
        communicator: the ranks of the run.
    """
    positive_k1, negative_kn = scores_km[:, :1], scores_km[:, 1:]
    above_k, ties_k = (compare(negative_kn, positive_k1).sum(1).double() for compare in (torch.gt, torch.eq))
    is_ranked = negative_kn.shape[1] > 1
    found = ranking_metrics(
        positive_k1.squeeze(1).contiguous(),
        negative_kn[:, 0].contiguous(),
        1 + above_k + ties_k / 2 if is_ranked else None,
        communicator,
        batch=_SCORES_AT_A_TIME,
    )
    return {name: found[name] for name in (("ap", "mrr") if is_ranked else ("ap",))}
