"""What batches are made for: nodes, or pairs of nodes with random pairs beside them.

Letters: B seeds in all, b those of a batch, k random pairs of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphprep.core.types import EdgeType
from graphprep.sampling.draw_key import RANDOM_PAIRS, key_of
from graphprep.sampling.samplers.neighbour_kernels import draw_pairs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchSeeds:
    """The seeds of one batch, as a sampler takes them, and what the batch has for them beside its graph."""

    seeds: Mapping[str, NDArray[np.int64]]
    until_B: NDArray[Any] | None
    of: str | EdgeType
    """the node type or the edge type whose seeds they are"""
    arrays: Mapping[str, NDArray[Any] | int]
    """by the names that PyG has for them"""


class Seeds(Protocol):
    """The seeds of all batches of an epoch."""

    def __len__(self) -> int: ...

    def batch(self, places_b: NDArray[np.int64], *, epoch: int, has_trees: bool) -> BatchSeeds:
        """Those at some places; `has_trees` is the sampler's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeSeeds:
    """Nodes of one type."""

    node_type: str
    ids_B: NDArray[np.int64]
    """numbers in the store"""
    until_B: NDArray[Any] | None = None
    """int64 or float64, the time of each, where neighbours must not be later"""

    def __len__(self) -> int:
        return len(self.ids_B)

    def batch(self, places_b: NDArray[np.int64], *, epoch: int, has_trees: bool) -> BatchSeeds:  # noqa: ARG002
        arrays: dict[str, NDArray[Any] | int] = {"input_id": places_b, "batch_size": len(places_b)}
        until = None
        if self.until_B is not None:
            until = arrays["seed_time"] = self.until_B[places_b]
        return BatchSeeds(seeds={self.node_type: self.ids_B[places_b]}, until_B=until, of=self.node_type, arrays=arrays)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairSeeds:
    """Pairs of nodes, from the source type of an edge type to its destination type, and random pairs beside them.

    Random pairs are drawn by a hash of (seed, epoch, pair), each node with equal probability; one may be an edge.
    """

    edge_type: EdgeType
    source_B: NDArray[np.int64]
    destination_B: NDArray[np.int64]
    label_B: NDArray[Any] | None
    """what each pair is labelled with; None where pairs have label 1 and random pairs 0"""
    until_B: NDArray[Any] | None
    num_nodes: tuple[int, int]
    """of the source type and of the destination type"""
    ratio: float
    """random pairs for each pair"""
    seed: int = 0
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    """of the labels 1 and 0"""

    def __len__(self) -> int:
        return len(self.source_B)

    def batch(self, places_b: NDArray[np.int64], *, epoch: int, has_trees: bool) -> BatchSeeds:
        number = math.ceil(self.ratio * len(places_b))
        owner_k = places_b[np.arange(number) % len(places_b)]
        source_k, destination_k = draw_pairs(
            owner_k, len(places_b), *self.num_nodes, key_of(self.seed, epoch, RANDOM_PAIRS)
        )
        source = np.concatenate([self.source_B[places_b], source_k])
        destination = np.concatenate([self.destination_B[places_b], destination_k])
        seeds, label_index = self._numbered(source, destination, has_trees=has_trees)
        label = np.repeat(np.array([1, 0], self.dtype), [len(places_b), number])
        arrays: dict[str, NDArray[Any] | int] = {
            "edge_label_index": label_index,
            "edge_label": label if self.label_B is None else self.label_B[places_b],
            "input_id": places_b,
        }
        until = None
        if self.until_B is not None:
            time = arrays["edge_label_time"] = self.until_B[np.concatenate([places_b, owner_k])]
            until = np.concatenate([time, time])
        return BatchSeeds(seeds=seeds, until_B=until, of=self.edge_type, arrays=arrays)

    def _numbered(
        self, source: NDArray[np.int64], destination: NDArray[np.int64], *, has_trees: bool
    ) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]:
        """The seeds by type, and the numbers of both ends of each pair among those of their types."""
        kind, count = self.edge_type, len(source)
        if kind.source != kind.destination:
            if has_trees:
                return {kind.source: source, kind.destination: destination}, np.stack([np.arange(count)] * 2)
            (sources, first), (destinations, second) = (
                np.unique(ids, return_inverse=True) for ids in (source, destination)
            )
            return {kind.source: sources, kind.destination: destinations}, np.stack([first, second])
        both = np.concatenate([source, destination])
        if has_trees:
            return {kind.source: both}, np.arange(2 * count).reshape(2, count)
        ids, place = np.unique(both, return_inverse=True)
        return {kind.source: ids}, place.reshape(2, count)
