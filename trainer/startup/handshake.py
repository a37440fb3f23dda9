"""The handshake of the ranks before they train: facts compared through the store, before any rank waits for data.

Each rank posts a few facts about itself and its part, and all ranks check all facts in the same way. A run that was
started with two caches, two sets of options, or on the wrong hosts is refused here, in a sentence that names the ranks.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trainer.base.errors import CacheError, TrainingError
from trainer.config.edge_shares import edge_counts, is_array_name
from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.cross_edges import missing_parts
from trainer.data.csr import Csr
from trainer.data.edge_labels import EdgeLabels
from trainer.data.edge_split import PartEdges
from trainer.data.labels import LabelCounts, Labels
from trainer.data.objective import Objective
from trainer.data.part import Part
from trainer.data.typed import RelationSums
from trainer.dist.communicator import Communicator
from trainer.dist.device_placement import check_devices, check_hosts, places
from trainer.dist.link_model import LinkModel
from trainer.exchange.exchange import boundary_counts, check_boundaries, row_counts
from trainer.exchange.layer_exchanges import LayerExchange
from trainer.exchange.relay_routes import check_messages, message_sums, relay_use, rows_by_stage
from trainer.layers.sums import allows_sparse_features
from trainer.sparse.feature_rows import count_entries
from trainer.sparse.sparsity import are_sparse
from trainer.startup.exchange_choice import choose_exchanges, is_any_tensor
from trainer.startup.memory import (
    Sizes,
    TypedSizes,
    available_bytes,
    check_memory,
    estimate_bytes,
    estimate_summary,
    with_cross_edges,
)

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What all ranks know after the handshake."""

    num_train: int
    """Labelled nodes, or pairs, of all ranks to train on, above 0."""
    num_val: int
    num_test: int
    label_counts: LabelCounts
    """Of all ranks' training nodes."""
    by_entries: bool
    """Whether features are held by the entries that are not 0."""
    memory: str
    """A sentence about the memory estimate of the fullest rank, for the log."""
    remark: str | None
    """A sentence about the machines, for the log."""
    layer_exchanges: Sequence[LayerExchange] = ()
    """Of the layers that may be tensor-parallel, where that was asked for."""
    exchange_remark: str | None = None
    """A sentence about them, for the log."""
    memory_bytes: Sequence[int] = ()
    """The memory estimate of each rank."""


def facts_of(
    options: Options,
    cache: Cache,
    part: Part,
    learnt: Labels | PartEdges | EdgeLabels,
    communicator: Communicator,
    *,
    objective: Objective,
) -> Facts:
    """What this rank posts to the others, as JSON; `learnt` are the labels of its nodes, or the edges into them."""
    counts = LabelCounts(labelled_C=[], positive_C=[])
    if isinstance(learnt, Labels):
        counts, nodes = learnt.counts(objective), [len(learnt.train), len(learnt.val), len(learnt.test)]
    else:
        nodes = learnt.counts
    sizes = sizes_of(part, cache, objective, communicator, may_be_sparse=not options.dense_features)
    if part.x_nF is not None and allows_sparse_features(options, cache):
        sizes = replace(sizes, entries=count_entries(part.x_nF))
    return {
        **rank_facts(options, cache, part, communicator),
        "rows": part.num_rows,
        "nodes": nodes,
        "sizes": asdict(sizes),
        "available": available(communicator.device),
        "labels": [counts.labelled_C, counts.positive_C],
        "stage_rows": rows_by_stage(part, communicator.world) if options.exchange in ("tensor", "auto") else [],
        "missing_parts": missing_parts(cache) if options.exchange in ("tensor", "auto") else [],
    }


def rank_facts(options: Options, cache: Cache, part: Part, communicator: Communicator) -> Facts:
    """What `check_ranks` reads of a rank, as JSON."""
    same_options = json.dumps(options.same_on_all_ranks(), sort_keys=True)
    return {
        "host": socket.gethostname(),
        "device": str(communicator.device),
        "through_host": communicator.through_host,
        "cache": cache.manifest.key,
        "options": hashlib.sha256(same_options.encode()).hexdigest(),
        "boundaries": boundary_counts(part),
        "messages": message_sums(part),
    }


def sizes_of(
    part: Part, cache: Cache, objective: Objective, communicator: Communicator, *, may_be_sparse: bool = True
) -> Sizes:
    """What this rank's memory depends on; `may_be_sparse` features are held by their entries where few are not 0."""
    counted, learns_rows = row_counts(part), part.typed is None and not cache.num_features
    blocks = [part.local, *part.remote.values()]
    return Sizes(
        rows=part.num_rows,
        halo=counted["num_halo"],
        largest_halo=max((block.num_columns for block in part.remote.values()), default=0),
        sent=counted["num_sent"],
        others=cache.num_nodes - part.num_rows if communicator.world > 1 else 0,
        edges=sum(block.num_edges for block in blocks),
        shared_rows=_distinct(list(part.send_rows.values())),
        halo_sums=_rows_with_edges(list(part.remote.values())),
        cross_edges=sum(block.num_edges for block in part.remote.values()),
        index_bytes=part.local.indptr.element_size(),
        features=cache.num_features,
        outputs=objective.num_outputs,
        edge_features=part.num_edge_features,
        learnt=part.num_rows if learns_rows else 0,
        gathered=cache.num_nodes if learns_rows and communicator.is_main else 0,
        typed=_typed_sizes(part, cache, communicator, may_be_sparse=may_be_sparse),
    )


def _rows_with_edges(blocks: Sequence[Csr]) -> int:
    """How many rows have an edge in one of some matrices of the same rows."""
    return int((torch.stack([block.indptr.diff().long() for block in blocks]).sum(0) > 0).sum()) if blocks else 0


def _typed_sizes(part: Part, cache: Cache, communicator: Communicator, *, may_be_sparse: bool) -> TypedSizes | None:
    if part.typed is None:
        return None
    matrices = [rows.x_kF for rows in part.typed.types if rows.x_kF is not None]
    values = [(count_entries(x_kF) if may_be_sparse else None, x_kF.numel()) for x_kF in matrices]
    kinds = list(zip(cache.node_types, part.typed.types, strict=True))
    with_features = [(kind, rows) for kind, rows in kinds if kind.num_features]
    without = [(kind, rows.rows.stop - rows.rows.start) for kind, rows in kinds if not kind.num_features]
    return TypedSizes(
        sums=part.local.num_rows,
        relations=len(cache.relations),
        feature_weights=sum(kind.num_features for kind, _ in with_features),
        features=sum(number for entries, number in values if not are_sparse([(entries, number)])),
        entries=sum(entries or 0 for entries, number in values if are_sparse([(entries, number)])),
        learnt=sum(number for _, number in without),
        gathered=sum(kind.num_nodes for kind, _ in without) if communicator.is_main else 0,
        sources=sum(_num_sources(block, part.typed.relations) for block in (part.local, *part.remote.values())),
    )


def _num_sources(block: Csr, relations: Sequence[RelationSums]) -> int:
    """How many columns have an edge, counted for each relation by itself."""
    number, begin = 0, 0
    for relation in relations:
        end = begin + len(relation.rows_m)
        has_edges = torch.zeros(block.num_columns, dtype=torch.bool)
        has_edges[block.indices[int(block.indptr[begin]) : int(block.indptr[end])].long()] = True
        number, begin = number + int(has_edges.sum()), end
    return number


def available(device: torch.device) -> int:
    """Bytes available to the ranks on this device: of a GPU its own, else the machine's."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else available_bytes()


def agree(options: Options, cache: Cache, facts: Sequence[Facts]) -> Agreement:
    """Check the facts of all ranks, in rank order.

    Raises:
        CacheError: the ranks opened different caches, or parts that do not fit.
        TrainingError: they have other options, hosts or devices than they should, there is nothing to train on,
            or too little memory.
    """
    remark = check_ranks(options, cache, facts)
    if options.exchange == "tensor":
        _check_parts(facts)
    sizes = [Sizes.of(fact["sizes"]) for fact in facts]
    by_entries = are_sparse([(size.entries, size.rows * size.features) for size in sizes])
    if not by_entries:
        sizes = [replace(size, entries=None) for size in sizes]
    rows_SPP, links = _rows_sent(options, facts), partial(link_model, cache)
    layers, exchange_remark = choose_exchanges(options, facts, sizes, rows_SPP, links)
    if is_any_tensor(options, layers):
        sizes = with_cross_edges(sizes)
    check_memory(facts, options, sizes)
    num_rows = sum(fact["rows"] for fact in facts)
    if num_rows != cache.num_nodes:
        raise CacheError(f"the parts of {cache.folder} have {num_rows} nodes, not {cache.num_nodes}; partition again")
    num_train, num_val, num_test = (sum(group) for group in zip(*(fact["nodes"] for fact in facts), strict=True))
    if options.learns_pairs:
        if not is_array_name(options.edge_split):
            num_train, num_val, num_test = edge_counts(options.edge_split, num_train)
        if not num_train:
            what = f"edge to learn whose {options.edge_label} is known" if options.edge_label else "edge between nodes"
            raise TrainingError(f"{cache.folder} has no {what}, so there is nothing to learn; give another graph")
    if not num_train:
        raise TrainingError(
            f"{cache.folder} has no labelled training node in split {options.split}; choose another --split"
        )
    return Agreement(
        num_train=num_train,
        num_val=num_val,
        num_test=num_test,
        label_counts=LabelCounts.total([fact["labels"] for fact in facts]),
        by_entries=by_entries,
        memory=estimate_summary(options, sizes),
        remark=remark,
        layer_exchanges=layers,
        exchange_remark=exchange_remark,
        memory_bytes=[sum(estimate_bytes(options, size).values()) for size in sizes],
    )


def check_same_run(facts: Sequence[Facts]) -> None:
    """Refuse ranks that have not the same cache and options.

    Raises:
        CacheError: they opened different caches.
        TrainingError: they have other options.
    """
    hosts = [fact["host"] for fact in facts]
    for rank, fact in enumerate(facts):
        if fact["cache"] != facts[0]["cache"]:
            raise CacheError(
                f"rank {rank} on {hosts[rank]} opened another cache than rank 0 on {hosts[0]}; copy one to all hosts"
            )
        if fact["options"] != facts[0]["options"]:
            raise TrainingError(f"rank {rank} was started with other options than rank 0; start all ranks alike")


def check_ranks(options: Options, cache: Cache, facts: Sequence[Facts]) -> str | None:
    """Refuse ranks that cannot exchange rows; a sentence about their machines for the log, if there is one.

    Raises:
        CacheError: the ranks opened different caches, or parts that do not fit.
        TrainingError: they have other options, hosts or devices than they should.
    """
    check_same_run(facts)
    hosts = [fact["host"] for fact in facts]
    remark = check_hosts(places(cache), hosts)
    check_devices([fact["device"] for fact in facts], hosts, may_share=all(fact["through_host"] for fact in facts))
    check_boundaries([fact["boundaries"] for fact in facts])
    if relay_use(options).forward:
        check_messages([fact["messages"] for fact in facts])
    return remark


def _distinct(row_lists: Sequence[Tensor]) -> int:
    """How many rows the lists have, each counted once."""
    return len(torch.unique(torch.cat(list(row_lists)))) if row_lists else 0


def _rows_sent(options: Options, facts: Sequence[Facts]) -> list[list[list[int]]]:
    """Rows that rank p (row) sends to rank q (column) in each stage of a boundary exchange."""
    ranks = range(len(facts))
    if relay_use(options).forward and all(fact["stage_rows"] for fact in facts):
        return [list(of_stage) for of_stage in zip(*(fact["stage_rows"] for fact in facts), strict=True)]
    return [[[fact["boundaries"]["sends"].get(str(peer), 0) for peer in ranks] for fact in facts]]


def link_model(cache: Cache) -> LinkModel:
    try:
        return LinkModel.of(cache.topology)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise cache.manifest.damaged("zarr.json", f"has a topology with malformed links ({error!r})") from error


def _check_parts(facts: Sequence[Facts]) -> None:
    """Refuse tensor-parallel layers where a machine has only some of the parts."""
    for rank, fact in enumerate(facts):
        if fact["missing_parts"]:
            raise CacheError(
                f"--exchange tensor reads the edges of all parts, and the cache on {fact['host']} (rank {rank}) lacks "
                f"parts/{fact['missing_parts'][0]}; copy the whole cache there, or use --exchange boundary"
            )
