"""Relayed exchange gives what direct sends give: losses, bytes and copies, on 4 and 8 ranks and over three stages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphprep.core.types import HOMOGENEOUS_NODE, RawGraph
from graphprep.partition.external_assignment import ExternalAssignment
from graphprep.partition.request import PartitionRequest
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, run_partition
from tests.graphs import labelled_graph
from tests.stores import make_store
from tests.traffic.test_relay import THREE_STAGES, machines
from tests.trainer.rank_group import Run, among_ranks, fetch_halo, run_options, send_back_halo, train_once
from trainer.base.errors import CacheError
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import TrafficLog
from trainer.data.cache import open_cache
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange
from trainer.exchange.relay_routes import check_messages, message_sums, relay_use, rows_by_stage

TWO_OF_TWO = machines("  - {count: 2, gpus: 2, pcie: {gbytes_per_s: 10}, network: {gbytes_per_s: 0.1}}\n")
TOPOLOGIES = {4: TWO_OF_TWO, 8: THREE_STAGES}
EXACT: dict[str, dict[str, Any]] = {
    "plain": {},
    "attention": {"model": "gatv2", "heads": 2},
    "maximum": {"model": "sage", "aggregator": "max"},
    "staleness": {"staleness": "adaptive:2"},
    "variation": {"staleness": "variation:0.1"},
    "sampling": {"boundary_sampling": 0.5},
    "error feedback": {"wire": "bf16", "error_feedback": True, "staleness_grad": "fixed:2"},
    "inductive": {"inductive": True},
    "sequential": {"exchange": "sequential"},
    "broadcast": {"exchange": "broadcast"},
}
"""Those whose losses are those of direct sends to rounding."""
ROUNDED: dict[str, dict[str, Any]] = {
    "bf16": {"wire": "bf16"},
    "fp16": {"wire": "fp16"},
    "int8": {"wire": "int8"},
    "precision bf16": {"precision": "bf16"},
}
"""Those that round partial sums once a hop."""
AT_THREE_STAGES = ("plain", "staleness", "variation", "sampling", "error feedback", "bf16", "int8")
"""Those that are also run on eight ranks; the others differ from them in what has nothing to do with stages."""
EXACT_CASES = [(world, name) for world in TOPOLOGIES for name in EXACT if world == 4 or name in AT_THREE_STAGES]
ROUNDED_CASES = [(world, name) for world in TOPOLOGIES for name in ROUNDED if world == 4 or name in AT_THREE_STAGES]


def relayed_cache(graph: RawGraph, topology: Topology, folder: Path) -> Path:
    """A cache with relays and uneven parts: rank p of P has p + 1 shares of the nodes."""
    store, world = make_store(graph, target=folder / f"{topology.num_ranks}.zarr"), topology.num_ranks
    shares = np.arange(1, world + 1)
    num_nodes = store.num_nodes[HOMOGENEOUS_NODE]
    part_N = np.random.default_rng(0).choice(world, num_nodes, p=shares / shares.sum()).astype(np.int32)
    plan = PartitionPlan(
        store=store,
        topology=topology,
        request=PartitionRequest(effort="none", row_bytes=65_536),
        target=folder / f"cache-{world}",
        external=ExternalAssignment(path=folder, sha256="0" * 64, assignment_N=part_N),
    )
    cache = run_partition(plan).cache
    assert cache.has_relays
    return cache.folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    graph = labelled_graph(np.random.default_rng(5), 150, 1500, weighted=True)
    folder = tmp_path_factory.mktemp("relayed")
    return {world: relayed_cache(graph, topology, folder) for world, topology in TOPOLOGIES.items()}


class InCalls(Communicator):
    """Sends each stage in one call, as between GPUs, though the backend is gloo."""

    uses_nccl = True


def halo_seen(
    communicator: Communicator, *, cache: str, relay: str, wire: str, how: str = "in background"
) -> tuple[list[Any], list[Any]]:
    """The rows that rank 0 gets of its halo, and its sums of what comes back, over epochs with a policy.

    Args:
        how: `in background`; `in calls`, a call a stage; `through the host`, from copies in the host's memory.
    """
    communicator.connect()
    communicator.through_host = how == "through the host"
    communicator.__class__ = InCalls if how == "in calls" else Communicator
    part = load_part(open_cache(cache), communicator.rank, split=0)
    log = TrafficLog(num_rows=part.num_rows, num_sent=0, num_halo=0, rank=communicator.rank, world=communicator.world)
    options = run_options(cache, relay=relay, wire=wire, staleness="adaptive:3")
    exchange = Exchange(options, part, communicator, log)
    halos, sums = [], []
    for epoch in range(1, 7):
        step = PassContext(epoch=epoch, training=True, may_skip=epoch > 1)
        ids = part.ids_n.float().unsqueeze(1)
        rows = torch.cat([(ids * epoch).sin(), ids.cos(), ids / 100 + epoch], dim=1)
        halos.append(fetch_halo(exchange, rows, 2, step).tolist())
        back = torch.arange(exchange.num_halo * 3).reshape(-1, 3).remainder(7).float() + communicator.rank
        sums.append(send_back_halo(exchange, back, 2, step).tolist())
    communicator.through_host, communicator.__class__ = False, Communicator
    return halos, sums


@pytest.fixture(scope="module")
def found(folders: dict[int, Path]) -> dict[Any, Any]:
    outcomes: dict[Any, Any] = {}
    for world, folder in folders.items():
        cases: dict[Any, Any] = {}
        for relay in ("auto", "off"):
            for name in [name for ranks, name in EXACT_CASES + ROUNDED_CASES if ranks == world]:
                changes = {**EXACT, **ROUNDED}[name]
                epochs = 5 if "staleness" in changes or "staleness_grad" in changes else 3
                plain = {"epochs": epochs, "layers": 3, "dropout": 0.3, "relay": relay}
                cases[world, name, relay] = partial(train_once, cache=str(folder), **{**plain, **changes})
            for wire in ("fp32", "bf16"):
                cases[world, f"halo {wire}", relay] = partial(halo_seen, cache=str(folder), relay=relay, wire=wire)
        for how in ("in calls", "through the host"):
            cases[world, how] = partial(halo_seen, cache=str(folder), relay="auto", wire="bf16", how=how)
        outcomes |= dict(zip(cases, among_ranks(world, list(cases.values())), strict=True))
    return outcomes


WORLDS = pytest.mark.parametrize("world", TOPOLOGIES)


@pytest.mark.slow
@pytest.mark.parametrize(("world", "name"), EXACT_CASES)
def test_losses_are_those_of_direct_sends(found: dict[Any, Any], world: int, name: str) -> None:
    """Guards against a row that arrives in another row's place, and a partial sum that is added twice or never."""
    relayed, direct = found[world, name, "auto"], found[world, name, "off"]
    assert relayed.losses == pytest.approx(direct.losses, rel=1e-6)
    assert relayed.result["test_accuracy"] == direct.result["test_accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize(("world", "name"), ROUNDED_CASES)
def test_narrow_wires_stay_close(found: dict[Any, Any], world: int, name: str) -> None:
    """Guards against bytes of one wire that are decoded as another's on the way."""
    assert found[world, name, "auto"].losses == pytest.approx(found[world, name, "off"].losses, rel=2e-3)


@pytest.mark.slow
@WORLDS
@pytest.mark.parametrize("wire", ["fp32", "bf16"])
def test_rows_arrive_as_their_owner_encoded_them(found: dict[Any, Any], world: int, wire: str) -> None:
    """Guards against a second rounding, a copy that is not kept, and one of an owner that did not send."""
    (halos, sums), (direct_halos, direct_sums) = (found[world, f"halo {wire}", relay] for relay in ("auto", "off"))
    assert halos == direct_halos
    np.testing.assert_allclose(np.array(sums), np.array(direct_sums), rtol=1e-5 if wire == "fp32" else 0.05)


@pytest.mark.slow
@WORLDS
@pytest.mark.parametrize("how", ["in calls", "through the host"])
def test_every_way_to_send_stages_gives_the_same(found: dict[Any, Any], world: int, how: str) -> None:
    """Guards against stages between GPUs that wait for each other, or take each other's messages."""
    assert found[world, how] == found[world, "halo bf16", "auto"]


def bytes_by_type(run: Run) -> dict[str, int]:
    sums: defaultdict[str, int] = defaultdict(int)
    for row in run.result["link_types"]:
        sums[row["link_type"]] += row["bytes_sent"]
    return sums


@pytest.mark.slow
@WORLDS
def test_bytes_are_counted_where_they_are_sent(found: dict[Any, Any], folders: dict[int, Path], world: int) -> None:
    """Guards against relayed bytes that nobody counts, or that their owner does."""
    from graphprep.cache.read import PartitionCache

    relayed, direct = found[world, "plain", "auto"], found[world, "plain", "off"]
    assert relayed.result["row_bytes_sent"] == direct.result["row_bytes_sent"]
    assert bytes_by_type(relayed)["network"] < bytes_by_type(direct)["network"]
    rows_PP = np.array(PartitionCache(folders[world]).array("relay_rows")).sum(axis=0)
    for direction in ("forward", "backward"):
        [layer] = [row for row in relayed.result["exchanges"] if (row["layer"], row["direction"]) == (2, direction)]
        sent_PP = np.zeros_like(rows_PP)
        for row in relayed.result["pairs"]:
            if (row["layer"], row["direction"]) == (2, direction):
                sent_PP[row["source"], row["destination"]] = row["bytes_sent"]
        expected = layer["exchanges"] * layer["width"] * 4 * rows_PP
        assert np.array_equal(sent_PP, expected if direction == "forward" else expected.T)


@WORLDS
def test_rows_of_stages_are_those_of_the_cost_model(folders: dict[int, Path], world: int) -> None:
    """Guards against a choice between exchanges that is made by other rows than are sent."""
    from graphprep.cache.read import PartitionCache

    cache = open_cache(str(folders[world]))
    rows_PSP = [rows_by_stage(load_part(cache, rank, split=0), world) for rank in range(world)]
    assert np.array_equal(np.swapaxes(rows_PSP, 0, 1), np.array(PartitionCache(folders[world]).array("relay_rows")))


@pytest.mark.slow
def test_stale_rows_are_left_out_by_relays_too(found: dict[Any, Any]) -> None:
    """Guards against a relay that passes on rows of an owner that did not send, from an old buffer."""
    relayed, direct = found[8, "staleness", "auto"], found[8, "staleness", "off"]
    for name in ("bytes_sent", "bytes_skipped"):
        one, other = (
            sum(row[name] for row in run.result["exchanges"] if row["direction"] == "forward")
            for run in (relayed, direct)
        )
        assert one == other


def test_what_does_not_use_relays_says_so() -> None:
    """Guards against a run that quietly sends every row over the slow link."""
    assert not relay_use(run_options("c")).remarks
    assert not relay_use(run_options("c", relay="off")).forward
    assert not relay_use(run_options("c", relay="off")).remarks
    for changes, words in (
        ({"exchange": "sequential"}, "--exchange sequential does not use the relays"),
        ({"staleness_grad": "fixed:2"}, "--staleness-grad fixed:2"),
        ({"error_feedback": True}, "--error-feedback"),
        ({"inductive": True}, "--inductive"),
    ):
        [remark] = relay_use(run_options("c", **changes)).remarks
        assert words in remark
    assert relay_use(run_options("c", staleness_grad="fixed:2")).forward
    assert not relay_use(run_options("c", staleness_grad="fixed:2")).backward


@WORLDS
def test_parts_that_do_not_fit_are_a_sentence(folders: dict[int, Path], world: int) -> None:
    """Guards against two ranks that wait for each other for ever."""
    cache = open_cache(str(folders[world]))
    parts = [load_part(cache, number, split=0) for number in range(world)]
    check_messages([message_sums(part) for part in parts])
    relays = parts[-1].relays
    assert relays is not None
    place = int((relays.stage_H == 1).nonzero()[0])
    stage_H = relays.stage_H.clone()
    via_H = relays.via_H.clone()
    via_H[place], stage_H[place] = (world - 2), 2
    parts[-1] = replace(parts[-1], relays=replace(relays, via_H=via_H, stage_H=stage_H))
    with pytest.raises(CacheError, match=f"to part {world - 1}, which expects .*copy the whole cache again"):
        check_messages([message_sums(part) for part in parts])
    parts[-1] = replace(parts[-1], relays=None)
    with pytest.raises(CacheError, match="which expects 0"):
        check_messages([message_sums(part) for part in parts])
