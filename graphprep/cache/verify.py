"""Is a cache whole and does it mean what it says? Reads everything; each finding is one sentence.

First the bytes: the manifest's own sum, every file's size and SHA-256, no file that the manifest does not list but the
one that samplers map (`topology_file`), which has a checksum of its own. Then the meaning: every node in exactly one
part and where `assignment` says, every edge counted once, valid CSR, what one part sends is what the other expects, and
`traffic_rows` counts it; each row of a halo has a way on which it arrives, where the cache has relays. Features, labels
and the like have a row a node.
"""

from __future__ import annotations

import numpy as np

from graphprep.cache.format import X_AGGREGATED
from graphprep.cache.read import PartitionCache
from graphprep.cache.relay_arrays import check_relays
from graphprep.cache.topology_file import check_topology_file, files_of_topology
from graphprep.core import csr
from graphprep.errors import CacheError
from graphprep.system import progress

AGAIN = "partition again with --replace"


def verify_cache(cache: PartitionCache) -> int:
    """Check the cache and return the number of files that were read.

    Raises:
        CacheError: the first thing that is wrong.
    """
    manifest = cache.check_sizes()
    of_samplers = {path.name for path in files_of_topology(cache.folder)}
    if extra := [path for path in manifest.unlisted(cache.folder) if path not in of_samplers]:
        raise CacheError(f"{cache.folder}: {extra[0]} is not in the manifest; remove it or {AGAIN}")
    total = sum(entry.size for entry in manifest.files.values())
    with progress.task("checking files", total=total, unit="B") as task:
        for path, entry in manifest.files.items():
            manifest.check_file(cache.folder, path)
            task.advance(entry.size)
    if manifest.key != cache.key:
        raise CacheError(f"{cache.folder}: manifest.json belongs to another cache; {AGAIN}")
    for node_type, count in cache.node_types.items():
        _check_nodes(cache, node_type, count)
    with progress.task("checking parts", total=cache.num_parts, unit="parts") as task:
        for part in range(cache.num_parts):
            _check_edges(cache, part)
            task.advance()
    _check_edge_counts(cache)
    if cache.has_relays:
        check_relays(cache)
    return len(manifest.files) + check_topology_file(cache)


def _check_nodes(cache: PartitionCache, node_type: str, count: int) -> None:
    """Each node once, where the assignment says; sends match receives, and traffic_rows counts them."""
    assignment_N = cache.assignment(node_type)
    seen_N = np.zeros(count, np.bool_)
    for part in range(cache.num_parts):
        ids = cache.node_array(part, node_type, "global_ids")
        in_range = not len(ids) or (ids.min() >= 0 and ids.max() < count)
        if not in_range or len(np.unique(ids)) != len(ids) or seen_N[ids].any():
            raise CacheError(f"{cache.folder}: part {part} lists a {node_type} twice or out of range; {AGAIN}")
        seen_N[ids] = True
        if (assignment_N[ids] != part).any():
            raise CacheError(
                f"{cache.folder}: part {part} owns a {node_type} that `assignment` puts elsewhere; {AGAIN}"
            )
        _check_rows(cache, part, node_type, len(ids))
        for peer in range(cache.num_parts):
            if peer == part:
                continue
            sent = cache.node_array(part, node_type, f"send_{peer}")
            if len(sent) and (sent.min() < 0 or sent.max() >= len(ids) or (np.diff(sent) <= 0).any()):
                raise CacheError(f"{cache.folder}: send_{peer} of part {part} is not ascending local rows; {AGAIN}")
            if not np.array_equal(ids[sent], cache.node_array(peer, node_type, f"recv_{part}")):
                raise CacheError(f"{cache.folder}: part {part} does not send what part {peer} expects; {AGAIN}")
    if not seen_N.all():
        raise CacheError(f"{cache.folder}: {int((~seen_N).sum())} nodes of type {node_type} are in no part; {AGAIN}")


def _check_rows(cache: PartitionCache, part: int, node_type: str, count: int) -> None:
    """A row a node in every array, and as many features as the root says."""
    names = cache.node_arrays(part, node_type)
    if cache.aggregated(node_type) != "none":
        names = (*names, X_AGGREGATED)
    for name in ("degree", *names):
        array = cache.node_array(part, node_type, name)
        where = f"{cache.folder}: {name} of {node_type} in part {part}"
        if len(array) != count:
            raise CacheError(f"{where} has {len(array)} rows for {count} nodes; {AGAIN}")
        width = cache.attributes["num_features"][node_type]
        if name in ("x", X_AGGREGATED) and array.shape[1:] != (width,):
            raise CacheError(f"{where} has the shape {list(array.shape)}, not {width} columns; {AGAIN}")


def _check_edges(cache: PartitionCache, part: int) -> None:
    sizes = cache.part_sizes(part)
    for edge_type in cache.edge_types:
        for owner in range(cache.num_parts):
            block = cache.block(part, edge_type, owner)
            where = f"{cache.folder}: edges {edge_type.key} of part {part} from part {owner}"
            if block.num_rows != sizes[edge_type.destination]:
                raise CacheError(
                    f"{where} have {block.num_rows} rows for {sizes[edge_type.destination]} nodes; {AGAIN}"
                )
            name = "global_ids" if owner == part else f"recv_{owner}"
            if block.num_sources != len(cache.node_array(part, edge_type.source, name)):
                raise CacheError(f"{where} have columns for another number of sources; {AGAIN}")
            if problem := csr.fault(block):
                raise CacheError(f"{where} are damaged: {problem}; {AGAIN}")
            for name in cache.edge_arrays(edge_type):
                found = len(cache.edge_array(part, edge_type, owner, name))
                if found != block.num_edges:
                    raise CacheError(f"{where} have {found} rows of {name} for {block.num_edges} edges; {AGAIN}")


def _check_edge_counts(cache: PartitionCache) -> None:
    rows_PP = np.zeros((cache.num_parts, cache.num_parts), np.int64)
    edges_PP = np.zeros_like(rows_PP)
    counts = dict.fromkeys(cache.attributes["edge_types"], 0)
    for part in range(cache.num_parts):
        for owner in range(cache.num_parts):
            for edge_type in cache.edge_types:
                edges = cache.block(part, edge_type, owner).num_edges
                counts[edge_type.key] += edges
                if owner != part:
                    edges_PP[owner, part] += edges
            if owner != part:
                rows_PP[owner, part] = sum(
                    len(cache.node_array(part, node_type, f"recv_{owner}")) for node_type in cache.node_types
                )
    if counts != cache.attributes["edge_types"]:
        raise CacheError(
            f"{cache.folder}: the parts hold {counts} edges, not {cache.attributes['edge_types']}; {AGAIN}"
        )
    for name, found_PP in (("traffic_rows", rows_PP), ("cross_edges", edges_PP)):
        if not np.array_equal(cache.array(name), found_PP):
            raise CacheError(f"{cache.folder}: `{name}` does not count what the parts exchange; {AGAIN}")
