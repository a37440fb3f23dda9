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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.to_device import to_device
from trainer.base.traffic_log import TrafficLog
from trainer.dist.communicator import Communicator
from trainer.layers.aggregate import Aggregation
from trainer.layers.inputs import Projected
from trainer.minibatch.feature_rows import FeatureRows, PendingRows
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


ExactLayer = tuple[Tensor | None, Callable[[], Tensor]]
"""What a layer reads in an exact pass (None for the features) and what computes its sums over neighbours."""


class Histories:
    """What this rank's nodes had in the last exact pass, and what other ranks' had where a batch needs it.

    The sums of the features never change: batches get them beside their features, in any epoch. What changes is known
    before the last layer's sums are, but for these, which are of the seeds alone. So it is sent for the epoch's first
    batches before they are computed.
    """

    def __init__(self, communicator: Communicator, traffic_log: TrafficLog, idle: IdleTime) -> None:
        """Begin without any."""
        self._communicator, self._log, self._idle = communicator, traffic_log, idle
        self._widths: list[int] = []
        self._last_sums_nF: Tensor | None = None
        self._fixed: FeatureRows | None = None
        self._changing: FeatureRows | None = None

    @torch.no_grad()
    def refresh(self, of_layers: Sequence[ExactLayer], send: Callable[[], None]) -> None:
        """Keep what an exact pass gives.

        Args:
            of_layers: from `Network.histories`.
            send: sends what has changed for the batches that wait for it.
        """
        (_, first_sums), *later = of_layers
        if self._fixed is None:
            self._fixed = self._source(first_sums().float().cpu())
        tables = [torch.empty(self._fixed.num_rows, 0)]
        for number, (rows_nF, sums) in enumerate(later, start=1):
            assert rows_nF is not None
            tables += [rows_nF] if number == len(later) else [rows_nF, sums()]
        self._widths = [table.shape[1] for table in tables[1:]]
        table_nT = torch.cat([table.float().cpu() for table in tables], dim=1)
        if self._changing is None:
            self._changing = self._source(table_nT)
        else:
            self._changing.replace([table_nT])
        send()
        if later:
            self._last_sums_nF = later[-1][1]().float().cpu()

    @property
    def fixed(self) -> FeatureRows:
        """The sums of the features."""
        assert self._fixed is not None
        return self._fixed

    def send(self, fixed: PendingRows) -> PendingRows:
        """Send what changes for a batch whose `fixed` rows have been sent."""
        return self._known.send_too(fixed)

    def finish(self, fixed: PendingRows, changing: PendingRows) -> list[Tensor]:
        """The tables of a batch's nodes but the last hop's: of what is fixed, and of what changes."""
        return [*self.fixed.finish(fixed), *self._known.finish(changing)]

    @property
    def _known(self) -> FeatureRows:
        assert self._changing is not None
        return self._changing

    def _source(self, table_nT: Tensor) -> FeatureRows:
        return FeatureRows([table_nT], torch.float32, self._communicator, self._log, self._idle)

    def of_layers(self, tables: Sequence[Tensor], counts: Sequence[int], seed_row: Tensor) -> list[LayerHistory]:
        """Those of a batch's layers, the first one first.

        Args:
            tables: what `finish` gave.
            counts: nodes before the first hop and after each.
            seed_row: this rank's rows of the seeds.
        """
        device = self._communicator.device
        fixed_nT, changing_nT = (to_device(table_nT, device) for table_nT in tables)
        columns = iter(torch.split(changing_nT, self._widths, dim=1))
        found = [LayerHistory(rows_nF=None, sums_nF=fixed_nT[: counts[-2]])]
        for own, after in zip(counts[-3::-1], counts[-2:0:-1], strict=True):
            rows_nF = next(columns)[:after]
            sums_nF = next(columns, None)
            if sums_nF is None:
                assert self._last_sums_nF is not None
                sums_nF = to_device(self._last_sums_nF.index_select(0, seed_row), device)
            found.append(LayerHistory(rows_nF=rows_nF, sums_nF=sums_nF[:own]))
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
