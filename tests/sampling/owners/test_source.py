"""Neighbours that owners draw: the same batches, bit for bit, and one sentence where an owner is not there."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.errors import TrainingError, UsageError
from graphprep.sampling.batch_options import BatchOptions
from graphprep.sampling.batches import PartBatches
from graphprep.sampling.graph import sampling_graph
from graphprep.sampling.neighbour_source import WholeGraph
from graphprep.sampling.owners.connection import Owners, Request
from graphprep.sampling.owners.server import COUNTS, SOURCES, OwnerServer, request_of
from graphprep.sampling.owners.source import OwnedEdges, OwnerNetwork
from graphprep.sampling.samplers.neighbour import SamplingOptions
from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.minibatch.in_process import serve_in_thread
from tests.trainer.typed_cache import make_typed_cache, typed_graph

KEY = b"k" * 32
PARTS = 3


def listeners(number: int) -> list[socket.socket]:
    return [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]


def networks(number: int, *, timeout: float = 60.0) -> list[OwnerNetwork]:
    opened = listeners(number)
    addresses = [each.getsockname() for each in opened]
    return [OwnerNetwork(listener=each, addresses=addresses, key=KEY, timeout=timeout) for each in opened]


def owned(cache: PartitionCache, **options: Any) -> list[OwnedEdges]:
    """The sources of all parts, which wait for each other."""
    with ThreadPoolExecutor(cache.num_parts) as pool:
        made = [
            pool.submit(OwnedEdges, cache, part, network, serve_in_thread, **{"weighted": True, **options})
            for part, network in enumerate(networks(cache.num_parts))
        ]
        return [each.result() for each in made]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> PartitionCache:
    graph = random_graph(num_nodes=60, num_edges=500, weighted=True, loops_and_duplicates=True)
    assignment = np.random.default_rng(0).integers(0, PARTS, 60)
    return PartitionCache(make_cache(tmp_path_factory.mktemp("owners") / "plain", graph, assignment, PARTS))


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> PartitionCache:
    graph, rng = typed_graph(), np.random.default_rng(2)
    parts = {name: rng.integers(0, PARTS, len(x)) for name, x in graph.x.items()}
    return PartitionCache(make_typed_cache(tmp_path_factory.mktemp("owners") / "typed", graph, parts, PARTS))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("plain", {"sums": "gcn", "roots": True, "histories": True}),
        ("plain", {"sums": "mean", "fanouts": [-1, 0, 2]}),
        ("plain", {"sums": None}),
        ("plain", {"sums": "gcn", "negatives": 1}),
        ("plain", {"sums": "gcn", "num_kept": {"node": 7}, "cache_policy": "presampled"}),
        ("typed", {"sums": "mean", "is_typed": True}),
    ],
)
def test_batches_are_those_of_the_whole_graph(
    name: str, changes: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """Guards against draws by other hashes or of another part's rows, weights and degrees of other edges, edges that
    were to be taken out, and an order of edges that depends on who drew them."""
    cache: PartitionCache = request.getfixturevalue(name)
    node_type = next(iter(cache.node_types))
    common = {"batch_size": 11, "fanouts": [3, 2], "seed": 5, "is_typed": False, "node_type": node_type}
    options = BatchOptions(**{**common, **changes})
    seeds, removed = np.arange(0, cache.node_types[node_type], 2), None
    if options.negatives is not None:
        seeds = np.stack([seeds, seeds[::-1] + 1])
        kind = cache.edge_types[0]
        block = cache.block(0, kind, 0)
        ids = cache.node_array(0, node_type, "global_ids")
        destination = np.repeat(ids, np.diff(block.indptr))[:9]
        removed = np.stack([ids[block.indices][:9], destination]).astype(np.int64)
    for part, source in enumerate(owned(cache, removed=removed, weighted=options.sums is not None)):
        batches = PartBatches(cache, part, seeds, options, (1, 2), removed, source)
        expected = PartBatches(cache, part, seeds, options, (1, 2), removed)
        assert batches.most_bytes() == expected.most_bytes()
        for epoch in (1, 2):
            for step in range(expected.steps):
                arrays, right = batches.make(epoch, step), expected.make(epoch, step)
                assert arrays.keys() == right.keys()
                for key, values in right.items():
                    assert arrays[key].dtype == values.dtype, key
                    np.testing.assert_array_equal(arrays[key], values, err_msg=key)


def test_a_part_holds_its_own_edges_alone(plain: PartitionCache) -> None:
    """Guards against a source that reads everything all the same."""
    sources = owned(plain)
    held = [sum(matrix.num_edges for matrix in source._own.values()) for source in sources]
    assert sum(held) == sum(plain.attributes["edge_types"].values())
    assert all(held)
    assert all(not matrix.num_edges for source in sources for matrix in source.graph.edges.values())


@pytest.mark.parametrize("name", ["plain", "typed"])
def test_scores_of_nodes_are_those_of_the_whole_graph(name: str, request: pytest.FixtureRequest) -> None:
    """Guards against rows that are kept by the edges of one part alone."""
    cache: PartitionCache = request.getfixturevalue(name)
    whole, fanouts = WholeGraph(sampling_graph(cache)), dict.fromkeys(cache.edge_types, (2, -1))
    node_type = next(iter(cache.node_types))
    seeds = {node_type: np.linspace(0, 0.5, cache.node_types[node_type])}
    expected, degrees = whole.visit_probabilities(fanouts, seeds), whole.out_degrees()
    for source in owned(cache):
        visits, found = source.visit_probabilities(fanouts, seeds), source.out_degrees()
        assert visits.keys() == expected.keys() == found.keys()
        for each in expected:
            np.testing.assert_allclose(visits[each], expected[each], rtol=1e-12)
            np.testing.assert_array_equal(found[each], degrees[each])


def test_bytes_between_samplers_are_counted(plain: PartitionCache) -> None:
    """Guards against rounds that cost more than is said: 4 bytes a node, and 8 an edge with its weight."""
    source = owned(plain)[0]
    before, ids = source.num_bytes, plain.node_array(1, "node", "global_ids")[:6].astype(np.int64)
    drawn = source.sampler(SamplingOptions(fanouts=[2], every_node=True)).sample({"node": ids}, epoch=1)
    [edges] = drawn.edges.values()
    degree_n = np.diff(next(iter(source.graph.edges.values())).indptr)[ids]
    assert source.num_bytes - before == 29 + 4 * (degree_n > 0).sum() + 8 * len(edges.source_E)
    own = plain.node_array(0, "node", "global_ids")[:6].astype(np.int64)
    before = source.num_bytes
    source.sampler(SamplingOptions(fanouts=[2], every_node=True)).sample({"node": own}, epoch=1)
    assert source.num_bytes == before


def test_draws_that_owners_do_not_make(plain: PartitionCache) -> None:
    """Guards against draws that are made by other rules than requested."""
    with pytest.raises(UsageError, match="--sample-from owners is for draws of different neighbours"):
        owned(plain)[0].sampler(SamplingOptions(fanouts=[2], weighted=True))


def ask(address: tuple[str, int], *, key: bytes = KEY, timeout: float = 60.0, answer_bytes: int = 3) -> bytearray:
    request = Request(content=request_of(COUNTS, 0), answer_bytes=answer_bytes)
    return Owners([address], key, timeout=timeout).ask({0: request})[0]


@pytest.fixture
def served(plain: PartitionCache) -> tuple[str, int]:
    """The address of a server of part 0, whose counts are `abc`."""
    [listener] = listeners(1)
    source = OwnerServer(owned(plain)[0]._own, [np.arange(1)], [b"abc"], KEY)
    threading.Thread(target=source.serve, args=(listener, lambda: True), daemon=True).start()
    address: tuple[str, int] = listener.getsockname()
    return address


def test_who_lacks_the_key_gets_nothing(served: tuple[str, int]) -> None:
    """Guards against edges for whoever finds the port, and answers of whoever opened it."""
    assert ask(served) == b"abc"
    with pytest.raises(TrainingError, match=r"the sampler of rank 0 at 127\.0\.0\.1, port \d+, is gone"):
        ask(served, key=b"x" * 32)
    with pytest.raises(TrainingError, match="answered with 3 bytes in place of 4: it has another graph or release"):
        ask(served, answer_bytes=4)
    [listener] = listeners(1)

    def pretend() -> None:
        connection, _ = listener.accept()
        connection.sendall(b"n" * 32 + b"wrong" * 8)

    threading.Thread(target=pretend, daemon=True).start()
    with pytest.raises(TrainingError, match="is of another run"):
        ask(listener.getsockname())


@pytest.mark.parametrize("kind", [0, 7])
def test_numbers_that_are_no_nodes_end_the_connection(served: tuple[str, int], kind: int) -> None:
    """Guards against kernels that read out of bounds."""
    content = request_of(SOURCES, kind, key=1, fanout=2, about=np.array([60], np.int32))
    with pytest.raises(TrainingError, match="is gone"):
        Owners([served], KEY, timeout=60).ask({0: Request(content=content, answer_bytes=8)})


def test_an_owner_that_is_silent_or_gone() -> None:
    """Guards against a wait without an end."""
    [listener] = listeners(1)
    address = listener.getsockname()
    with pytest.raises(TrainingError, match="has not answered for 0 s; it may be stopped"):
        ask(address, timeout=0.2)
    listener.close()
    with pytest.raises(TrainingError, match="is gone; the lines of that rank say why"):
        ask(address)
