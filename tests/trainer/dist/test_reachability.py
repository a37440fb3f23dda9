"""Whether machines reach each other, tried with ranks as threads, each thread's name being its machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from torch.distributed import HashStore

from trainer.dist import reachability
from trainer.base.errors import TrainingError
from trainer.dist.network_interfaces import GLOO, NCCL, address_of, named_interface
from trainer.dist.reachability import Place, check_reachable, faults

HERE = Place("a", "127.0.0.1", 1, "word", "")


def among(hosts: list[str], environment: dict[str, str] | None = None, *, on_gpu: bool = False) -> list[object]:
    """What `check_reachable` gives or raises on each rank."""
    store, found = HashStore(), [None] * len(hosts)

    def check(rank: int) -> None:
        try:
            found[rank] = check_reachable(
                store, rank=rank, world=len(hosts), environment=environment or {}, on_gpu=on_gpu, timeout=5.0
            )
        except TrainingError as error:
            found[rank] = error

    threads = [threading.Thread(target=check, args=(rank,), name=host) for rank, host in enumerate(hosts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return found


@pytest.fixture(autouse=True)
def machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: threading.current_thread().name)
    monkeypatch.setattr(reachability, "_own_address", lambda: "127.0.0.1")


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_machines_that_reach_each_other_go_on() -> None:
    """Guards against a check that ends runs which would work, also with several ranks a machine."""
    assert among(["a", "a", "b", "c"]) == ["machines reach each other at a: 127.0.0.1, b: 127.0.0.1, c: 127.0.0.1"] * 4


def test_the_interface_that_is_named_is_the_one_that_is_tried() -> None:
    """Guards against a check of another address than the one that will be used."""
    assert address_of("lo") == "127.0.0.1"
    assert named_interface({GLOO: "lo"}, on_gpu=False) == named_interface({NCCL: "l"}, on_gpu=True) == "lo"
    assert named_interface({GLOO: "lo"}, on_gpu=True) is named_interface({NCCL: "^lo"}, on_gpu=True) is None
    assert among(["a", "b"], {NCCL: "=lo"}, on_gpu=True)[0] == "machines reach each other at a: 127.0.0.1, b: 127.0.0.1"


def test_what_cannot_be_known_is_not_checked() -> None:
    """Guards against ports opened on one machine, and against a guess at what NCCL chooses."""
    assert among(["a", "a"]) == [None, None]
    assert among(["a", "b"], on_gpu=True) == [None, None]


def test_all_ranks_end_with_the_sentence_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a machine that goes on to wait for one that has given up."""
    monkeypatch.setattr(reachability, "faults", lambda here, *_: "b does not reach a" if here.host == "b" else "")
    assert [str(error) for error in among(["a", "b", "b"])] == ["b does not reach a"] * 3


def test_a_closed_port_is_named_with_its_machine_and_variable() -> None:
    """A wrong interface was waited for, five time-outs long, and the ranks called each other lost."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    sentence = faults(HERE, [Place("b", "127.0.0.1", port, "other", "docker0")], GLOO, 5.0)
    assert sentence.startswith("a does not reach b at 127.0.0.1 of interface docker0 (Connection refused); give GLOO_")


def test_a_port_that_says_nothing_is_given_up(silent: int) -> None:
    """Guards against a firewall, or another program, that is waited for without end."""
    sentence = faults(HERE, [Place("b", "127.0.0.1", silent, "other", "")], GLOO, 0.2)
    assert "b at 127.0.0.1, to which its own name resolves (no answer in time)" in sentence


def test_another_program_is_not_taken_for_a_rank() -> None:
    """Guards against an address that leads back to this machine, where something else listens at the port."""
    with reachability._listening("127.0.0.1") as (port, word):
        assert faults(HERE, [Place("b", "127.0.0.1", port, word, "")], GLOO, 5.0) == ""
        found = faults(HERE, [Place("b", "127.0.0.1", port, "x" * len(word), "")], GLOO, 5.0)
    assert "(something else answers there)" in found
