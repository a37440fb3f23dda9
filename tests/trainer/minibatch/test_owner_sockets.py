"""Where samplers reach each other: this machine alone where it is the only one, and one key for all."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, cast

import pytest

from trainer.base.errors import TrainingError
from trainer.dist import reachability
from trainer.dist.communicator import Communicator
from trainer.minibatch.owner_sockets import open_owner_sockets


class Ranks:
    """What `open_owner_sockets` needs of a communicator; one more rank says what is given."""

    rank, uses_nccl = 1, False

    def __init__(self, host: str) -> None:
        self._host = host

    def all_gather_object(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        other = {"host": self._host} if "host" in values else {"address": "192.0.2.7", "port": 9, "key": "ab" * 32}
        return [other, dict(values)]


@pytest.mark.parametrize("host", [socket.gethostname(), "another"])
def test_addresses_and_the_key_of_rank_0(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against loopback between machines, an open port where nobody has to come in, and ranks with keys of their
    own."""
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(reachability, "_own_address", lambda: "127.0.0.2")
    sockets = open_owner_sockets(cast(Communicator, Ranks(host)))
    with sockets.listener:
        address, port = sockets.listener.getsockname()
        assert address == ("127.0.0.2" if host == "another" else "127.0.0.1")
        assert sockets.addresses == [("192.0.2.7", 9), (address, port)]
        assert sockets.key == b"\xab" * 32
        socket.create_connection((address, port), 5).close()


def test_an_address_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback where the machine's name leads elsewhere."""
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(reachability, "_own_address", lambda: "192.0.2.8")
    with pytest.raises(
        TrainingError, match=r"the sampler of rank 1 cannot listen at 192\.0\.2\.8 .*--sample-from mapped"
    ):
        open_owner_sockets(cast(Communicator, Ranks("another")))


def test_the_interface_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against another interface than the ranks'."""
    monkeypatch.setattr(reachability, "_own_address", lambda: "127.0.0.2")
    named = reachability.address_for_peers({"GLOO_SOCKET_IFNAME": "lo"}, on_gpu=False)
    assert named == "127.0.0.1"
    assert reachability.address_for_peers({}, on_gpu=False) == "127.0.0.2"
