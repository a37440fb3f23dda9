"""The arrays of relayed exchange in a cache: which way each row of a halo comes, and what each rank passes on.

The ways are chosen when all parts are written, from the rows that they send to each other; see
`graphprep.traffic.relay`. What is read is one part's lists at a time, and the ways lie in files until they are written.

Halo rows of a part are counted owner after owner, and within an owner type after type in the order of `recv_<owner>`;
rows sent likewise, in the order of `send_<peer>`. So the rows that p sends to q are one stretch of either count.

Letters: P parts, S stages, R rows that one part sends, H halo rows, K rows that one part passes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.array_writer import FolderWriter
from graphprep.cache.format import RELAY_BATCHES, RELAY_MESSAGES, RELAY_ROWS, part_path
from graphprep.cache.read import map_array
from graphprep.core import csr
from graphprep.system import progress
from graphprep.topology import Topology
from graphprep.traffic.relay import Relays, SentRows, choose_relays

SentArray = Callable[[int, str, int], NDArray[Any]]
"""(part, node type, peer) -> `send_<peer>`"""
Sizes = Callable[[int], dict[str, int]]
"""part -> its nodes of each type"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassedOn:
    """The rows that one part passes on, by stage and target, and for each of these in the order of the halo."""

    halo_K: NDArray[np.int64]
    """their numbers in the halo"""
    counts_SP: NDArray[np.int64]
    """int64 [S - 1, P]: how many go to each target in each stage from the second"""


def sent_rows(part: int, num_parts: int, sizes: Sizes, sent_array: SentArray) -> SentRows:
    """What one part sends; its rows of all types are counted type after type."""
    rows, counts_P = [np.empty(0, np.int64)], np.zeros(num_parts, np.int64)
    nodes = sizes(part)
    for peer in range(num_parts):
        first = 0
        for node_type, count in nodes.items():
            if peer != part:
                sent = sent_array(part, node_type, peer)
                rows.append(first + sent.astype(np.int64))
                counts_P[peer] += len(sent)
            first += count
    return SentRows(row_R=np.concatenate(rows), counts_P=counts_P)


def map_sent(folder: Path, part: int, node_type: str, peer: int) -> NDArray[Any]:
    """`send_<peer>` of a part, in the folder of a cache that is being written."""
    return map_array(folder, f"{part_path(part)}/nodes/{node_type}/send_{peer}")


def write_relays(
    writer: FolderWriter,
    sent: Callable[[int], SentRows],
    topology: Topology,
    row_bytes: int,
    *,
    scratch: Path,
) -> None:
    """Choose relays and write the arrays of all parts; nothing where an exchange is as fast without relays.

    Args:
        writer: of the cache.
        sent: what each part sends.
        topology, row_bytes: as for `choose_relays`.
        scratch: an existing folder for the ways of all rows.

    Raises:
        OSError: the disk is full.
    """

    def allocate(name: str, length: int, dtype: Any) -> NDArray[Any]:
        if not length:
            return np.empty(0, dtype)
        array: NDArray[Any] = np.memmap(scratch / f"relay-{name}", dtype=dtype, mode="w+", shape=(length,))
        return array

    with progress.task("choosing relays"):
        relays = choose_relays(sent, topology, row_bytes, allocate=allocate)
    if relays is None:
        return
    writer.array(RELAY_ROWS, relays.traffic.rows_SPP)
    writer.array(RELAY_MESSAGES, relays.traffic.messages_SPP)
    writer.array(RELAY_BATCHES, relays.batch_P)
    counts_PP = np.stack([sent(part).counts_P for part in range(topology.num_ranks)])
    passed_on = rows_passed_on(relays, sent)
    for part in range(topology.num_ranks):
        _write_part(writer, part, relays, counts_PP, passed_on[part])


def _write_part(
    writer: FolderWriter, part: int, relays: Relays, counts_PP: NDArray[np.int64], passed_on: PassedOn
) -> None:
    folder = f"{part_path(part)}/relay"
    writer.group(folder)
    start_PP = np.cumsum(counts_PP, axis=1) - counts_PP
    for name, ways in (("via", relays.via), ("stage", relays.stage)):
        path = f"{folder}/{name}"
        target = writer.open_array(path, (int(counts_PP[:, part].sum()),), ways[part].dtype)
        begin = 0
        for owner, count in enumerate(counts_PP[:, part].tolist()):
            start = int(start_PP[owner, part])
            target[begin : begin + count] = ways[owner][start : start + count]
            begin += count
        writer.seal(path, target)
    writer.array(f"{folder}/direct", np.asarray(relays.stage[part] == 1))
    halo_dtype = csr.index_dtype(int(counts_PP[:, part].sum()))
    writer.array(f"{folder}/forward", passed_on.halo_K.astype(halo_dtype))
    writer.array(f"{folder}/forward_counts", passed_on.counts_SP)


def rows_passed_on(relays: Relays, sent: Callable[[int], SentRows]) -> Sequence[PassedOn]:
    """What each part passes on, by part."""
    num_stages, num_parts = len(relays.traffic.rows_SPP), len(relays.via)
    found: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = [[] for _ in range(num_parts)]
    halo_P = np.zeros(num_parts, np.int64)
    """where the rows of the owner begin in each part's halo"""
    for owner in range(num_parts):
        rows = sent(owner)
        target_R = np.repeat(np.arange(num_parts), rows.counts_P)
        span = int(rows.row_R.max(initial=0)) + 1
        key_R = target_R * span + rows.row_R
        place_K = np.flatnonzero(relays.stage[owner] > 1)
        relay_K = relays.via[owner][place_K].astype(np.int64)
        first_P = np.cumsum(rows.counts_P) - rows.counts_P
        number_K = np.searchsorted(key_R, relay_K * span + rows.row_R[place_K]) + (halo_P - first_P)[relay_K]
        group_K = (relays.stage[owner][place_K].astype(np.int64) - 2) * num_parts + target_R[place_K]
        order = np.argsort(relay_K, kind="stable")
        bounds = np.searchsorted(relay_K[order], np.arange(num_parts + 1))
        for relay, of_relay in enumerate(found):
            chosen = order[bounds[relay] : bounds[relay + 1]]
            if len(chosen):
                of_relay.append((group_K[chosen], number_K[chosen]))
        halo_P += rows.counts_P
    return [_grouped(of_relay, num_stages - 1, num_parts) for of_relay in found]


def _grouped(found: list[tuple[NDArray[np.int64], NDArray[np.int64]]], num_stages: int, num_parts: int) -> PassedOn:
    nothing = np.empty(0, np.int64)
    group_K = np.concatenate([nothing, *(group for group, _ in found)])
    halo_K = np.concatenate([nothing, *(number for _, number in found)])
    counts = np.bincount(group_K, minlength=num_stages * num_parts).reshape(num_stages, num_parts)
    return PassedOn(halo_K=halo_K[np.lexsort((halo_K, group_K))], counts_SP=counts)
