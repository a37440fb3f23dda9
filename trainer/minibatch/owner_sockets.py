"""Where the samplers of all ranks reach each other, for neighbours that are drawn by the samplers of their owners.

Each rank opens a socket before its sampler is started, so that no sampler has to wait for another one's start, and all
learn the addresses and the key of the run through the store. The sampler gets socket and key as open files. It is the
key that keeps others out: what is sent is not encrypted.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.base.errors import TrainingError
from trainer.dist.communicator import Communicator
from trainer.dist.reachability import address_for_peers

_WAITING = 4096
"""connections that may wait until a sampler has read its edges"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSockets:
    """What one sampler needs to serve others and to ask them."""

    listener: socket.socket
    addresses: Sequence[tuple[str, int]]
    """of the samplers of all ranks"""
    key: bytes
    """that all of them have to show"""


def open_owner_sockets(communicator: Communicator) -> OwnerSockets:
    """Open this rank's socket and learn those of others; every rank has to call it.

    Raises:
        LostPeerError: a rank did not come within the timeout.
        TrainingError: no socket can be opened.
    """
    hosts = {values["host"] for values in communicator.all_gather_object({"host": socket.gethostname()})}
    address = "127.0.0.1"
    if len(hosts) > 1:
        address = address_for_peers(os.environ, on_gpu=communicator.uses_nccl)
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((address, 0))
        listener.listen(_WAITING)
    except OSError as error:
        listener.close()
        raise TrainingError(
            f"the sampler of rank {communicator.rank} cannot listen at {address} ({error.strerror}); give "
            "--sample-from mapped"
        ) from error
    mine = {"address": address, "port": listener.getsockname()[1], "key": secrets.token_hex(32)}
    places = communicator.all_gather_object(mine)
    return OwnerSockets(
        listener=listener,
        addresses=[(place["address"], place["port"]) for place in places],
        key=bytes.fromhex(places[0]["key"]),
    )
