"""Requests to the samplers of other parts, over connections on which both ends have shown that they have the run's key.

    server    32 random bytes
    client    32 random bytes, HMAC-SHA256(key, "client" + the server's + its own)
    server    HMAC-SHA256(key, "server" + the client's + its own)

After that the client sends requests, and the server an answer to each: its length in 8 bytes, and so many bytes. A
client knows how long the answer has to be before it reads it.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphprep.errors import TrainingError

_RANDOM_BYTES, _DIGEST_BYTES, _LENGTH_BYTES = 32, 32, 8


def receive(connection: socket.socket, count: int) -> bytearray:
    """So many bytes.

    Raises:
        EOFError: the other end is closed.
        OSError: of the system; TimeoutError too.
    """
    content = bytearray(count)
    view = memoryview(content)
    while len(view):
        received = connection.recv_into(view)
        if not received:
            raise EOFError
        view = view[received:]
    return content


def answer(connection: socket.socket, content: bytes | bytearray) -> None:
    """Send one answer."""
    connection.sendall(len(content).to_bytes(_LENGTH_BYTES, "little"))
    connection.sendall(content)


def admit(connection: socket.socket, key: bytes) -> bool:
    """The server's side of the greeting: whether the client has the key."""
    own = secrets.token_bytes(_RANDOM_BYTES)
    connection.sendall(own)
    theirs = receive(connection, _RANDOM_BYTES)
    shown = receive(connection, _DIGEST_BYTES)
    if not hmac.compare_digest(shown, _digest(key, b"client", own, theirs)):
        return False
    connection.sendall(_digest(key, b"server", theirs, own))
    return True


def _greet(connection: socket.socket, key: bytes) -> bool:
    """The client's side: whether the server has the key."""
    own = secrets.token_bytes(_RANDOM_BYTES)
    theirs = receive(connection, _RANDOM_BYTES)
    connection.sendall(own + _digest(key, b"client", theirs, own))
    return hmac.compare_digest(receive(connection, _DIGEST_BYTES), _digest(key, b"server", own, theirs))


def _digest(key: bytes, *pieces: bytes | bytearray) -> bytes:
    return hmac.digest(key, b"".join(pieces), "sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one other part is asked for."""

    content: bytes
    answer_bytes: int
    """how long its answer has to be"""


class Owners:
    """The samplers of other parts. After a fork each process has connections of its own."""

    def __init__(self, addresses: Sequence[tuple[str, int]], key: bytes, *, timeout: float) -> None:
        """Connect to nobody yet.

        Args:
            addresses: host and port of each part's sampler.
            key: of the run.
            timeout: seconds to wait for an answer.
        """
        self._addresses, self._key, self._timeout = addresses, key, timeout
        self._connections: dict[int, socket.socket] = {}
        self._pid = os.getpid()
        self.num_bytes = 0
        """of requests and answers so far"""

    def ask(self, requests: Mapping[int, Request]) -> dict[int, bytearray]:
        """The answers of some parts, all of which are at work at once.

        Raises:
            TrainingError: one of them is gone, or does not answer in time, or as it should.
        """
        if self._pid != os.getpid():
            self.close()
            self._pid = os.getpid()
        for owner, request in requests.items():
            with self._translated(owner):
                self._connection(owner).sendall(request.content)
        answers = {}
        for owner, request in requests.items():
            with self._translated(owner):
                connection = self._connection(owner)
                length = int.from_bytes(receive(connection, _LENGTH_BYTES), "little")
                if length != request.answer_bytes:
                    raise TrainingError(
                        f"{self._name(owner)} answered with {length} bytes in place of {request.answer_bytes}: it has "
                        "another graph or release; give all ranks the same cache and graphprep"
                    )
                answers[owner] = receive(connection, length)
                self.num_bytes += len(request.content) + length
        return answers

    def close(self) -> None:
        """Close this process's connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _connection(self, owner: int) -> socket.socket:
        if owner not in self._connections:
            connection = socket.create_connection(self._addresses[owner], self._timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[owner] = connection
            if not _greet(connection, self._key):
                raise TrainingError(f"{self._name(owner)} is of another run; start the ranks again")
        return self._connections[owner]

    def _name(self, owner: int) -> str:
        host, port = self._addresses[owner]
        return f"the sampler of rank {owner} at {host}, port {port},"

    @contextlib.contextmanager
    def _translated(self, owner: int) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise TrainingError(
                f"{self._name(owner)} has not answered for {self._timeout:.0f} s; it may be stopped or the network "
                "slow, for which --timeout can be longer"
            ) from error
        except (OSError, EOFError) as error:
            if isinstance(error, TrainingError):
                raise
            raise TrainingError(
                f"{self._name(owner)} is gone; the lines of that rank say why, and if there are none and nobody ended "
                "it, its machine may be short of memory"
            ) from error
