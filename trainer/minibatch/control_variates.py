"""Control variates: sums over few drawn neighbours whose error shrinks as weights settle (VR-GCN, Chen et al. 2018).

Each layer reads rows H. Of each node its owner keeps H' of the last exact pass over the whole graph, and the exact sums
A H' over its neighbours. With S for the drawn edges, each of which counts D / k times, a layer's sums in a batch are

    S (H - H')  +  A H'

which is as much as A H on average, and differs from it by little once H' is near H. The features of layer 1 do not
change: there H' is H, and the sums are exact.

Dropout makes H - H' large again. So the rows M without dropout are computed beside those with it, and the sums are

    R (H - M)  +  S (M - M')  +  A M'

where R counts each drawn edge sqrt(D / k) times: dropout is independent from node to node, so that the noise of the sum
has its own variance, not D / k times as much.

Letters: n nodes that a layer computes, H those that its hop has added, F columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.to_device import to_device
from trainer.base.traffic_log import TrafficLog
from trainer.dist.communicator import Communicator
from trainer.layers.aggregate import Aggregation
from trainer.layers.inputs import Projected
from trainer.minibatch.feature_rows import FeatureRows, PendingRows, Plans
from trainer.minibatch.idle_time import IdleTime
from trainer.minibatch.rows_of_batch import RowsOfBatch
from trainer.sparse.dense import dense


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerHistory:
    """What is known of one layer's nodes from the last exact pass."""

    rows_nF: Tensor | None
    """[n + H, F]: what the layer read; None for the features"""
    sums_nF: Tensor
    """[n, F]: A of that"""


class Histories:
    """What this rank's nodes had in the last exact pass, and what other ranks' had where a batch needs it."""

    def __init__(self, communicator: Communicator, traffic_log: TrafficLog, idle: IdleTime) -> None:
        """Begin without any."""
        self._communicator, self._log, self._idle = communicator, traffic_log, idle
        self._widths: list[tuple[int, int]] = []
        self._rows: FeatureRows | None = None

    def refresh(self, of_layers: Sequence[tuple[Tensor | None, Tensor]]) -> None:
        """Keep what `Network.histories` gave."""
        tables = [table for pair in of_layers for table in pair if table is not None]
        self._widths = [(0 if rows is None else rows.shape[1], sums.shape[1]) for rows, sums in of_layers]
        table_nT = torch.cat([table.float() for table in tables], dim=1).cpu()
        if self._rows is None:
            self._rows = FeatureRows([table_nT], torch.float32, self._communicator, self._log, self._idle)
        else:
            self._rows.replace([table_nT])

    def begin(self, plans: Plans) -> PendingRows:
        return self._fetched.begin(plans)

    def request(self, pending: PendingRows) -> None:
        self._fetched.request(pending)

    def send(self, pending: PendingRows) -> None:
        self._fetched.send(pending)

    def finish(self, pending: PendingRows) -> list[Tensor]:
        return self._fetched.finish(pending)

    def drop(self, pending: PendingRows) -> None:
        self._fetched.drop(pending)

    @property
    def _fetched(self) -> FeatureRows:
        assert self._rows is not None
        return self._rows

    def of_layers(self, table_nT: Tensor, counts: Sequence[int]) -> list[LayerHistory]:
        """Those of a batch's layers, the first one first.

        Args:
            table_nT: what `finish` gave.
            counts: nodes before the first hop and after each.
        """
        table_nT = to_device(table_nT, self._communicator.device)
        sizes = [width for pair in self._widths for width in pair]
        columns = iter(torch.split(table_nT, sizes, dim=1))
        found = []
        for own, after in zip(counts[-2::-1], counts[:0:-1], strict=True):
            rows_nF, sums_nF = next(columns), next(columns)
            of_rows = rows_nF[:after] if rows_nF.shape[1] else None
            found.append(LayerHistory(rows_nF=of_rows, sums_nF=sums_nF[:own]))
        return found


@dataclass(slots=True, kw_only=True)
class ControlledRows(RowsOfBatch):
    """The input of one layer, whose sums have control variates."""

    history: LayerHistory
    means: ControlledRows | None
    """The same without dropout; None where these are without"""
    roots: Aggregation | None
    """R, where dropout is used"""
    sums_nF: Tensor | None = None
    """Once they are known"""

    def aggregate(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:
        if edge_weight is not None:
            self.aggregation.check_edge_features()
        sums_nF = self._sums()
        return sums_nF if weight_FG is None else dense(sums_nF, weight_FG, self.aggregation.clock)

    def maximum(self, weight_FG: Tensor | None = None, *, edge_weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        raise self._refused("a maximum")

    def project(self, weight_FG: Tensor) -> Projected:  # noqa: ARG002
        raise self._refused("attention")

    def _sums(self) -> Tensor:
        if self.sums_nF is None:
            self.sums_nF = self._without_dropout() if self.means is None else self._with_dropout(self.means)
        return self.sums_nF

    def _without_dropout(self) -> Tensor:
        history = self.history
        sums_nF = history.sums_nF.to(self.rows_nF.dtype)
        if history.rows_nF is None:
            return sums_nF
        halo_HF = self._halo()
        own, added = torch.split(history.rows_nF.to(halo_HF.dtype), [len(self.rows_nF), len(halo_HF)])
        return self.aggregation.with_halo(self.rows_nF - own, halo_HF - added) + sums_nF

    def _with_dropout(self, means: ControlledRows) -> Tensor:
        assert self.roots is not None
        return self.roots.with_halo(self.rows_nF - means.rows_nF, self._halo() - means._halo()) + means._sums()

    def _refused(self, what: str) -> TrainingError:
        with found_by_every_rank():
            raise TrainingError(f"--control-variates are for sums over neighbours, and the model needs {what}")
