"""Which rows a rank gets, passes on and sends itself where rows are relayed: a plan for both directions.

A message has the rows of one batch of owners that go from rank to rank in one stage. Forward, the messages of stage 1
come from the owners; when all rows of a batch are here that arrive in a stage, those of them that go on are sent in the
next one. Backward, messages take the same way from the last stage to the first: a relay adds the partial sums that it
gets to its own, and sends one partial sum a row.

The owner's list of rows and both ends' lists of halo rows are in one order, that of the owner's rows, so that no
message needs numbers of rows.

A plan is made by the host and in its memory, since sizes of messages depend on it. `on` copies it to a GPU.

Letters: P ranks, H halo rows, R rows sent, m rows of a message.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import CacheError
from trainer.base.to_device import to_device
from trainer.config.options import Options
from trainer.config.policies import policy
from trainer.data.part import Part
from trainer.data.relays import PartRelays


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMessage:
    """The rows that go between this rank and a peer in one message."""

    stage: int
    batch: int
    """Stage 1: the owner; from stage 2 the group of owners."""
    peer: int
    rows_m: Tensor
    """int64: halo rows, by their place in the receive buffer; ascending"""


def rows_by_peer(messages: Sequence[RowMessage], peers: Sequence[int]) -> dict[int, int]:
    """How many rows messages have, for each peer."""
    counts = dict.fromkeys(peers, 0)
    for message in messages:
        counts[message.peer] += len(message.rows_m)
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPlan:
    """The messages of this rank's halo rows."""

    num_stages: int
    batch_P: Sequence[int]
    owner_H: Tensor
    """int64, of each row of the receive buffer"""
    is_direct_R: Tensor
    """bool: which of the rows that peers need this rank sends itself"""
    arriving: Sequence[RowMessage]
    """Forward: what this rank receives, by stage; each stage from the shortest message."""
    passed_on: Sequence[RowMessage]
    """Forward: what it sends of its halo, from stage 2, by stage."""
    arrival_A: Tensor
    """int64: the rows of `arriving`, message after message"""
    places_of_passed_on: Sequence[Tensor]
    """int64, for each message of `passed_on`: where its rows are among these"""
    _on_device: dict[torch.device, RelayPlan] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, relays: PartRelays) -> RelayPlan:
        """The plan of one part."""
        batch_H = torch.tensor(relays.batch_P)[relays.owner_H]
        arriving, passed_on = [], []
        for stage in range(1, relays.num_stages + 1):
            here_m = (relays.stage_H == stage).nonzero().squeeze(1)
            by_batch = relays.owner_H if stage == 1 else batch_H
            for peer in sorted(set(relays.via_H[here_m].tolist())):
                rows_m = here_m[relays.via_H[here_m] == peer]
                arriving += _by_batch(stage, peer, rows_m, by_batch)
        for (stage, target), rows_m in relays.forwards.items():
            passed_on += _by_batch(stage, target, rows_m, batch_H)
        return cls(
            num_stages=relays.num_stages,
            batch_P=relays.batch_P,
            owner_H=relays.owner_H,
            is_direct_R=relays.is_direct_R,
            **_messages(arriving, passed_on, len(relays.owner_H)),
        )

    def on(self, device: torch.device) -> RelayPlan:
        """The same plan with the rows of its messages on `device`, copied once."""
        if device.type == "cpu":
            return self
        if device not in self._on_device:
            rows = [self.arrival_A, *(one.rows_m for one in self.passed_on), *self.places_of_passed_on]
            arrival_A, *others = torch.split(to_device(torch.cat(rows), device), [len(one) for one in rows])
            of_arriving = torch.split(arrival_A, [len(one.rows_m) for one in self.arriving])
            number = len(self.passed_on)
            self._on_device[device] = replace(
                self,
                arriving=[replace(one, rows_m=rows_m) for one, rows_m in zip(self.arriving, of_arriving, strict=True)],
                passed_on=[
                    replace(one, rows_m=rows_m) for one, rows_m in zip(self.passed_on, others[:number], strict=True)
                ],
                arrival_A=arrival_A,
                places_of_passed_on=others[number:],
            )
        return self._on_device[device]

    def batch_of(self, message: RowMessage) -> int:
        """The group of the owners of a message's rows."""
        return self.batch_P[message.batch] if message.stage == 1 else message.batch

    def of_due(self, due: Sequence[bool]) -> RelayPlan:
        """The rows of the owners that send in this epoch alone."""
        if all(due):
            return self
        return self._where(torch.tensor(due)[self.owner_H])

    def of_kept(self, kept_H: Tensor) -> RelayPlan:
        """Some of the halo's rows alone, counted among themselves."""
        place_H = kept_H.long().cumsum(0) - 1
        kept = self._where(kept_H)
        arriving, passed_on = (
            [replace(one, rows_m=place_H[one.rows_m]) for one in messages]
            for messages in (kept.arriving, kept.passed_on)
        )
        owner_M = self.owner_H[kept_H]
        return replace(kept, owner_H=owner_M, **_messages(arriving, passed_on, len(owner_M)))

    def _where(self, mask_H: Tensor) -> RelayPlan:
        def some(messages: Sequence[RowMessage]) -> list[RowMessage]:
            chosen = [replace(message, rows_m=message.rows_m[mask_H[message.rows_m]]) for message in messages]
            return [message for message in chosen if len(message.rows_m)]

        arriving, passed_on = some(self.arriving), some(self.passed_on)
        return replace(self, **_messages(arriving, passed_on, len(self.owner_H)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayUse:
    """In which directions a run uses the relays of its cache, and why not in the others."""

    forward: bool
    backward: bool
    remarks: Sequence[str]


def relay_use(options: Options) -> RelayUse:
    """What the options of a run leave of the relays of its cache."""
    if options.relay == "off":
        return RelayUse(forward=False, backward=False, remarks=())
    if options.exchange not in ("boundary", "auto"):
        remark = f"--exchange {options.exchange} does not use the relays of the cache: every row is sent by its owner"
        return RelayUse(forward=False, backward=False, remarks=(remark,))
    if options.chooses_bits is not None:
        reason = "bits and age are chosen for each pair of ranks"
        remark = f"{options.chooses_bits} does not use the relays of the cache: {reason}"
        return RelayUse(forward=False, backward=False, remarks=(remark,))
    remarks = []
    reason = "--error-feedback" if options.error_feedback else f"--staleness-grad {options.staleness_grad}"
    backward = not (options.error_feedback or policy(options.staleness_grad).keeps)
    if not backward:
        remarks.append(
            f"gradients of rows go straight to their owners, not over the relays of the cache: {reason} needs that"
        )
    if options.inductive:
        remarks.append("--inductive trains on another graph, without the relays of the cache; validation uses them")
    return RelayUse(forward=True, backward=backward, remarks=remarks)


def rows_by_stage(part: Part, world: int) -> list[list[int]]:
    """How many rows this part sends to each rank in each stage of a forward exchange; none without relays."""
    if part.relays is None:
        return []
    rows_SP = [[0] * world for _ in range(part.relays.num_stages)]
    lengths = [len(rows) for rows in part.send_rows.values()]
    for peer, is_direct in zip(part.send_rows, torch.split(part.relays.is_direct_R, lengths), strict=True):
        rows_SP[0][peer] = int(is_direct.sum())
    for (stage, target), rows in part.relays.forwards.items():
        rows_SP[stage - 1][target] = len(rows)
    return rows_SP


def message_sums(part: Part) -> dict[str, dict[str, list[int]]]:
    """What this part sends to and expects from each peer with relays, as JSON for `check_messages`.

    For each peer the number of rows and a checksum over all messages: stage, batch, rows and the sum of their ids.
    """
    if part.relays is None:
        return {"sends": {}, "expects": {}}
    plan, ids_H = RelayPlan.of(part.relays), torch.cat(list(part.halo_ids.values()))
    sends, begin = [], 0
    for peer, rows in part.send_rows.items():
        is_direct = part.relays.is_direct_R[begin : begin + len(rows)]
        begin += len(rows)
        if is_direct.any():
            sends.append((peer, 1, part.number, part.ids_n[rows.long()[is_direct]]))
    sends += [(one.peer, one.stage, one.batch, ids_H[one.rows_m]) for one in plan.passed_on]
    expects = [(one.peer, one.stage, one.batch, ids_H[one.rows_m]) for one in plan.arriving]
    return {"sends": _sums_by_peer(sends), "expects": _sums_by_peer(expects)}


def _sums_by_peer(messages: Sequence[tuple[int, int, int, Tensor]]) -> dict[str, list[int]]:
    """Rows and checksum by peer, from peer, stage, batch and ids of each message."""
    by_peer: dict[int, list[tuple[int, int, int, int]]] = {}
    for peer, stage, batch, ids in messages:
        by_peer.setdefault(peer, []).append((stage, batch, len(ids), int(ids.sum())))
    return {
        str(peer): [sum(rows for _, _, rows, _ in found), zlib.crc32(repr(sorted(found)).encode())]
        for peer, found in by_peer.items()
    }


def check_messages(sums: Sequence[Mapping[str, Mapping[str, Sequence[int]]]]) -> None:
    """Compare the messages that each rank sends with those that its peers expect, before one waits for ever.

    Raises:
        CacheError: two parts disagree.
    """
    for p, of_p in enumerate(sums):
        for q, of_q in enumerate(sums):
            sent, expected = of_p["sends"].get(str(q), [0, 0]), of_q["expects"].get(str(p), [0, 0])
            if list(sent) != list(expected):
                raise CacheError(
                    f"with relays part {p} sends {sent[0]} rows to part {q}, which expects "
                    f"{'others' if sent[0] == expected[0] else expected[0]}: the parts are not of one cache; copy the "
                    "whole cache again, or give --relay off"
                )


def _by_batch(stage: int, peer: int, rows_m: Tensor, batch_H: Tensor) -> list[RowMessage]:
    batch_m = batch_H[rows_m]
    return [
        RowMessage(stage=stage, batch=batch, peer=peer, rows_m=rows_m[batch_m == batch])
        for batch in sorted(set(batch_m.tolist()))
    ]


def _messages(arriving: Sequence[RowMessage], passed_on: Sequence[RowMessage], num_halo: int) -> dict[str, Any]:
    """The messages of a plan as its fields.

    What arrives is in the order of stages, and in each the shorter first: of messages that share a link the shortest is
    complete first.
    """
    in_order = sorted(arriving, key=lambda one: (one.stage, len(one.rows_m), one.peer, one.batch))
    arrival_A = torch.cat([torch.empty(0, dtype=torch.int64), *(one.rows_m for one in in_order)])
    place_H = torch.empty(num_halo, dtype=torch.int64)
    place_H[arrival_A] = torch.arange(len(arrival_A))
    return {
        "arriving": in_order,
        "passed_on": passed_on,
        "arrival_A": arrival_A,
        "places_of_passed_on": [place_H[one.rows_m] for one in passed_on],
    }
