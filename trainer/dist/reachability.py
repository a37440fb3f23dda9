"""Checks that the machines of a run reach each other at the addresses that gloo or NCCL will use.

An interface that is there may still be the wrong one: loopback, where /etc/hosts gives it the machine's own name, or a
bridge of containers. The libraries would wait for each other there, one time-out after the other, and then report a
lost peer. So the first rank of each machine listens at its address, connects to those of all other machines, and
reads a token that only they can know; the result goes to all ranks through the store.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torch.distributed import Store  # type: ignore[attr-defined]

from trainer.base.errors import TrainingError
from trainer.dist.network_interfaces import GLOO, NCCL, address_of, named_interface

SECONDS = 10.0
"""that one machine waits for another's token, unless --timeout is shorter"""
_PAGE, _VERDICT = "reach", "reach/verdict"


class Place(NamedTuple):
    """Where a machine listens."""

    host: str
    address: str
    port: int
    token: str
    """what it sends to whoever connects"""
    interface: str
    """that a variable names; nothing if none does"""


def check_reachable(
    store: Store, *, rank: int, world: int, environment: Mapping[str, str], on_gpu: bool, timeout: float
) -> str | None:
    """Refuse addresses at which machines do not reach each other.

    Args:
        store: of these ranks alone.
        rank: of this process.
        world: how many ranks there are.
        environment: GLOO_SOCKET_IFNAME counts between CPUs, NCCL_SOCKET_IFNAME between GPUs.
        on_gpu: whether NCCL joins the ranks; it is checked only where its variable names an interface, since it chooses
            by rules of its own otherwise.
        timeout: seconds to wait for another machine.

    Returns:
        Which addresses the machines use, for people; None on one machine, or where nothing could be checked.

    Raises:
        TrainingError: one machine does not reach another; the same sentence on every rank.
    """
    host = socket.gethostname()
    store.set(f"{_PAGE}/host/{rank}", host)
    hosts = [store.get(f"{_PAGE}/host/{peer}").decode() for peer in range(world)]
    leaders = [hosts.index(name) for name in dict.fromkeys(hosts)]
    if len(leaders) < 2:
        return None
    variable = NCCL if on_gpu else GLOO
    if rank in leaders:
        interface = named_interface(environment, on_gpu=on_gpu)
        address = address_of(interface) if interface else None if on_gpu else _own_address()
        with _listening(address) as (port, token):
            place = Place(host, address or "", port, token, interface or "")
            store.set(f"{_PAGE}/place/{rank}", json.dumps(place))
            places = _places(store, leaders)
            others = [place for leader, place in zip(leaders, places, strict=True) if leader != rank]
            store.set(f"{_VERDICT}/{rank}", faults(place, others, variable, min(SECONDS, timeout)))
            verdicts = _verdicts(store, leaders)  # no rank stops to listen before all have connected
    else:
        places, verdicts = _places(store, leaders), _verdicts(store, leaders)
    if sentence := next(filter(None, verdicts), None):
        raise TrainingError(sentence)
    if not all(place.address for place in places):
        return None
    return "machines reach each other at " + ", ".join(f"{place.host}: {place.address}" for place in places)


def address_for_peers(environment: Mapping[str, str], *, on_gpu: bool) -> str:
    """The address of this machine for others: that of the interface that the user names, else of the machine's name.

    Args:
        environment: as for `check_reachable`.
        on_gpu: likewise.
    """
    interface = named_interface(environment, on_gpu=on_gpu)
    return (address_of(interface) if interface else None) or _own_address()


def faults(here: Place, others: Sequence[Place], variable: str, timeout: float) -> str:
    """What keeps this machine from others, as a sentence; nothing if it reaches them.

    Args:
        here: this machine.
        others: those that it has to reach; one without an address is left out.
        variable: the one that names interfaces.
        timeout: seconds to wait for each.
    """
    for other in others:
        if not other.address:
            continue
        try:
            with socket.create_connection((other.address, other.port), timeout) as connection:
                connection.settimeout(timeout)
                received = _read(connection, len(other.token))
        except OSError as error:
            problem = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
        else:
            if received == other.token:
                continue
            problem = "something else answers there"
        through = f" of interface {other.interface}" if other.interface else ", to which its own name resolves"
        return (
            f"{here.host} does not reach {other.host} at {other.address}{through} ({problem}); give {variable} on every "
            "machine the interface that joins them, as `ip -brief address` shows it, or open its ports between them"
        )
    return ""


@contextlib.contextmanager
def _listening(address: str | None) -> Iterator[tuple[int, str]]:
    """Send a token to whoever connects to `address`, until the block ends; the port and the token."""
    token = uuid.uuid4().hex
    if address is None:
        yield 0, token
        return
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((address, 0))
        listener.listen()
        thread = threading.Thread(target=_answer, args=(listener, token.encode()), daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1]), token
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which close would not
            thread.join()


def _answer(listener: socket.socket, token: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(token)


def _read(connection: socket.socket, length: int) -> str:
    received = b""
    while len(received) < length and (piece := connection.recv(length - len(received))):
        received += piece
    return received.decode("ascii", "replace")


def _own_address() -> str:
    """The address to which the machine's own name resolves, as gloo finds it; loopback where it resolves to none."""
    with contextlib.suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(socket.gethostname(), None):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as tried:
                tried.bind((address[0], 0))
                return str(address[0])
    return "127.0.0.1"


def _places(store: Store, leaders: Sequence[int]) -> list[Place]:
    return [Place(*json.loads(store.get(f"{_PAGE}/place/{leader}"))) for leader in leaders]


def _verdicts(store: Store, leaders: Sequence[int]) -> list[str]:
    return [store.get(f"{_VERDICT}/{leader}").decode() for leader in leaders]
