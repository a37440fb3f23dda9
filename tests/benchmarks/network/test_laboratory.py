"""Namespaces with throttled cables: that they are throttled, that ranks train across them, and that none is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.network import needs
from benchmarks.network.laboratory import Laboratory, Weather, laboratory
from benchmarks.network.namespaces import PREFIX, existing
from benchmarks.network.ranks import train
from graphprep.topology import Topology
from tests.conftest import heed_interrupts
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store

MISSING = needs.missing()
needs_namespaces = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("network")]

PATIENCE = 180
"""Seconds that a test waits for a process before it fails; nothing here takes long on an idle machine."""
BYTES, MBITS = 1_000_000, 20
TWO = Topology.from_text(
    "name: two\nranks:\n  - {name: r0, machine: m0}\n  - {name: r1, machine: m1}\nlinks:\n"
    f"  - {{ends: [r0, r1], type: network, gbytes_per_s: {MBITS / 8000}, latency_us: 100}}\n"
)
RECEIVE = f"""
import socket, sys, time
listener = socket.create_server((sys.argv[1], 5000))
print("listening", flush=True)
connection, _ = listener.accept()
connection.settimeout(5)
received, started = 0, time.perf_counter()
try:
    while received < {BYTES}:
        received += len(connection.recv(65536))
except TimeoutError:
    sys.exit("nothing came")
print(time.perf_counter() - started)
"""
SEND = f"""
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 5000))
connection.sendall(bytes({BYTES}))
time.sleep(float(sys.argv[2]))
"""
HARNESS = """
import sys, time
from benchmarks.network.laboratory import laboratory
from graphprep.topology import Topology
with laboratory(Topology.from_file(sys.argv[1])) as lab:
    lab.start(0, ["sleep", "1000"])
    print("built", flush=True)
    time.sleep(1000)
"""


def transfer_seconds(lab: Laboratory) -> float:
    """Of BYTES from machine 0 to machine 1."""
    receiver = lab.start(1, [sys.executable, "-c", RECEIVE, lab.address(1)])
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "listening\n"
    sender = lab.start(0, [sys.executable, "-c", SEND, lab.address(1), "0"])
    assert sender.wait(timeout=PATIENCE) == 0
    assert receiver.wait(timeout=PATIENCE) == 0
    return float(receiver.stdout.read())


@needs_namespaces
def test_cables_have_the_topologys_bandwidth_and_go_when_the_block_ends() -> None:
    """Guards against links that are not throttled, one-sided throttling, and namespaces that stay."""
    with laboratory(TWO) as lab:
        seconds = transfer_seconds(lab)
        mine = list(lab.names)
        assert set(mine) <= set(existing())
    assert seconds > 0.9 * BYTES * 8 / (MBITS * 1e6)
    assert not set(mine) & set(existing())


@needs_namespaces
def test_a_cable_that_is_down_carries_nothing() -> None:
    """Guards against faults that are not there."""
    ping = [sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], 5000), timeout=1)"]
    with laboratory(TWO) as lab:
        lab.start(1, [sys.executable, "-m", "http.server", "5000", "--bind", lab.address(1)])

        def reaches() -> bool:
            return lab.start(0, [*ping, lab.address(1)]).wait(timeout=PATIENCE) == 0

        deadline = time.monotonic() + PATIENCE
        while not reaches():
            assert time.monotonic() < deadline
        lab.unplug(0)
        assert not reaches()
        lab.plug(0)
        while not reaches():
            assert time.monotonic() < deadline


@needs_namespaces
def test_two_machines_train_across_a_lossy_cable_as_one_does_alone(tmp_path: Path) -> None:
    """Guards against ranks that do not meet in namespaces, rows that a bad network changes, cables without delay."""
    store = make_store(labelled_graph(np.random.default_rng(0), 300, 1500))
    cache = tmp_path / "cache"
    make_cache(store, TWO, cache)
    options = ["--epochs", "3", "--hidden", "16", "--patience", "0", "-q"]
    with laboratory(TWO, {0: Weather(delay_s=0.005, jitter_s=0.005, loss=0.02)}) as lab:
        run = train(lab, cache, options, patience_s=PATIENCE)
    assert run.statuses == (0, 0), run.said
    make_cache(store, Topology.flat(1), tmp_path / "whole")
    alone = [sys.executable, "-m", "trainer", str(tmp_path / "whole"), "--device", "cpu", "--json", *options]
    said = subprocess.run(alone, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    losses = [json.loads(line)["loss"] for line in said.splitlines()[:-1]]
    assert [line["loss"] for line in run.lines] == pytest.approx(losses, abs=1e-5)
    assert run.result is not None
    [backward] = [row for row in run.result["exchanges"] if row["direction"] == "backward"]
    # There and back takes a message two delays at least: gloo's receiver says that it is ready, then the rows come.
    assert min(backward["seconds_by_rank"]) > 0.005 * backward["exchanges"]


@needs_namespaces
def test_an_interface_that_other_machines_do_not_reach_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a wrong interface that ranks wait at for several time-outs, and then call each other lost."""
    monkeypatch.setattr(Laboratory, "interface", lambda lab, node: "lo")
    cache = tmp_path / "cache"
    make_cache(make_store(labelled_graph(np.random.default_rng(0), 60, 200)), TWO, cache)
    with laboratory(TWO) as lab:
        run = train(lab, cache, ["--epochs", "1", "-q"], patience_s=PATIENCE)
    assert 0 not in run.statuses
    assert "at 127.0.0.1 of interface lo (" in "".join(run.said)
    assert "GLOO_SOCKET_IFNAME" in "".join(run.said)


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_harness_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """Guards against namespaces and processes that outlive their harness; a killed one's go with the next."""
    written = tmp_path / "two.yaml"
    written.write_text(TWO.to_yaml())
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(written)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    assert harness.stdout is not None
    assert harness.stdout.readline() == "built\n", harness.communicate(timeout=PATIENCE)
    mine = [name for name in existing() if name.startswith(f"{PREFIX}-{harness.pid}-")]
    assert len(mine) == 2
    inside: list[int] = []
    started = time.monotonic()
    while not inside and time.monotonic() < started + PATIENCE:  # `ip` has to get there before it becomes the process
        inside = [int(pid) for name in mine for pid in ip_pids(name)]
    assert inside
    os.kill(harness.pid, number)
    harness.communicate(timeout=PATIENCE)
    assert harness.returncode != 0
    if number == signal.SIGKILL:
        with laboratory(TWO):
            pass
    assert not set(mine) & set(existing())
    assert not any(runs(pid) for pid in inside)


def runs(pid: int) -> bool:
    """Whether a process is there; one that nobody has waited for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ip_pids(namespace: str) -> list[str]:
    return subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True).stdout.split()


def test_where_namespaces_cannot_be_had_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a traceback where there is no root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as ended:
        needs.require()
    assert ended.value.code == 2
    assert "need root" in capsys.readouterr().err
