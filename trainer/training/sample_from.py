"""Where samplers find the in-edges of nodes: in one mapped file of the machine, or with the samplers of their owners.

`auto` maps the file where it takes at most half of the memory that is free on every machine. Where it is not there yet
and cannot be written, each rank would hold the edges by itself, and it is all ranks of the machine that are counted.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket

from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.dist.communicator import Communicator
from trainer.startup.memory import available_bytes

log = logging.getLogger("trainer")

FILE = "sampling-topology"
"""of the cache's folder; graphprep/cache/topology_file.py writes it"""


def topology_bytes(cache: Cache) -> int:
    """How long the file is, but for its header."""
    num_nodes = {kind.name: kind.num_nodes for kind in cache.node_types}
    total = 0
    for relation in cache.relations:
        of_edge = (4 if num_nodes[relation.source] < 2**31 else 8) + 4 * cache.is_weighted(relation.key)
        total += 8 * (num_nodes[relation.destination] + 1) + of_edge * relation.num_edges
    return total


def chosen_source(options: Options, cache: Cache, communicator: Communicator, *, speaks: bool = True) -> str:
    """`mapped` or `owners`, the same on all ranks; every rank has to call it.

    Args:
        options: of the run.
        cache: whose graph it is.
        communicator: the ranks of the run.
        speaks: whether rank 0 says what `auto` has chosen.

    Raises:
        LostPeerError: a rank did not come within the timeout.
    """
    if communicator.world == 1:
        if options.sample_from == "owners" and speaks:
            log.info("--sample-from owners: mapped, for the only rank owns all nodes")
        return "mapped"
    if options.sample_from != "auto":
        return options.sample_from
    needed = topology_bytes(cache)
    mine = {"host": socket.gethostname(), "available": available_bytes(), "shared": _is_shared(cache, needed)}
    facts = communicator.all_gather_object(mine)
    fits, least = True, min(fact["available"] for fact in facts)
    for host in {fact["host"] for fact in facts}:
        here = [fact for fact in facts if fact["host"] == host]
        copies = 1 if all(fact["shared"] for fact in here) and not options.learns_links else len(here)
        fits &= copies * needed <= min(fact["available"] for fact in here) / 2
    source = "mapped" if fits or options.obstacle_to_owners is not None else "owners"
    if communicator.is_main and speaks:
        reason = f"the topology is {needed / 1e9:.3g} GB, and {least / 1e9:.3g} GB of memory are free"
        if source == "mapped" and not fits:
            reason = f"owners cannot be with {options.obstacle_to_owners}, though {reason}"
        log.info("--sample-from auto: %s, for %s", source, reason)
    return source


def _is_shared(cache: Cache, needed: int) -> bool:
    """Whether the file is there, or can be written."""
    if (cache.folder / FILE).is_file():
        return True
    return os.access(cache.folder, os.W_OK) and shutil.disk_usage(cache.folder).free > needed
