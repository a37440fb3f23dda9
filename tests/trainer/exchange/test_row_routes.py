"""Row routes: which rows go where, on three ranks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.parity_cases import graphs
from tests.trainer.rank_group import among_ranks, empty_traffic_log, fetch_halo, run_options, send_back_halo
from trainer.base.pass_context import PassContext
from trainer.config.options import EXCHANGES
from trainer.data.cache import open_cache
from trainer.data.part import halo_ids, load_part
from trainer.dist.communicator import Communicator
from trainer.exchange.exchange import Exchange
from trainer.exchange.row_routes import boundary_routes, broadcast_routes

pytestmark = pytest.mark.slow

NAMES = ("directed, weighted, uneven", "an empty part", "a part without halo")
FIRST = PassContext(epoch=1, training=True)


def looked_at(communicator: Communicator, *, cache: str, exchange: str) -> dict[str, Any]:
    """Whether each rank got its own halo's rows, and both sides of <forward x, y> = <x, backward y> over all ranks."""
    communicator.connect()
    part = load_part(open_cache(cache), communicator.rank, split=0)
    there = Exchange(run_options(cache, exchange=exchange), part, communicator, empty_traffic_log(communicator))
    halo = fetch_halo(there, part.ids_n.float().unsqueeze(1), 2, FIRST).squeeze(1)
    is_right = torch.tensor(float(torch.equal(halo.long(), halo_ids(part))))
    generator = torch.Generator().manual_seed(communicator.rank)
    own = torch.randint(-9, 9, (part.num_rows, 3), generator=generator).float()
    partial_HF = torch.randint(-9, 9, (there.num_halo, 3), generator=generator).float()
    forward = (fetch_halo(there, own, 3, FIRST) * partial_HF).sum()
    backward = (own * send_back_halo(there, partial_HF, 3, FIRST)).sum()
    sums = communicator.all_reduce(torch.stack([is_right, forward, backward])).tolist()
    return {"right": sums[0], "forward": sums[1], "backward": sums[2]}


def rows_that_travel(communicator: Communicator, *, cache: str) -> dict[str, Any]:
    """The rows that rank 0 sends and gets in each direction of each exchange."""
    communicator.connect()
    part = load_part(open_cache(cache), communicator.rank, split=0)
    both = {
        "boundary": boundary_routes(part, communicator, to=communicator.peers, of=communicator.peers),
        "broadcast": broadcast_routes(part, communicator),
    }
    return {
        name: [list(route.send_counts) + list(route.recv_counts) for route in (routes.forward, routes.backward)]
        for name, routes in both.items()
    } | {
        "needed": [len(part.send_rows[peer]) for peer in communicator.peers],
        "halo": [part.halo_rows(peer) for peer in communicator.peers],
        "rows": [facts["rows"] for facts in communicator.all_gather_object({"rows": part.num_rows})],
    }


@pytest.fixture(scope="module")
def found(caches: dict[tuple[str, int], Path]) -> dict[Any, dict[str, Any]]:
    cases: dict[Any, Any] = {
        (name, exchange): partial(looked_at, cache=str(caches[name, 3]), exchange=exchange)
        for name in NAMES
        for exchange in EXCHANGES
    }
    cases["rows"] = partial(rows_that_travel, cache=str(caches[NAMES[0], 3]))
    return dict(zip(cases, among_ranks(3, list(cases.values())), strict=True))


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_rank_gets_its_halo_in_its_own_order(found: dict[Any, Any], name: str, exchange: str) -> None:
    """A row that is picked from the wrong block, or one place too far, has another node's number."""
    assert name in graphs()
    assert found[name, exchange]["right"] == 3


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_backward_is_the_transpose_of_forward(found: dict[Any, Any], name: str, exchange: str) -> None:
    """A gradient that is lost, doubled or placed on another row breaks <A x, y> = <x, A' y>, here in whole numbers."""
    assert found[name, exchange]["forward"] == found[name, exchange]["backward"]


def test_rows_that_travel(found: dict[Any, Any]) -> None:
    """Broadcast that sends only what is needed is no broadcast to compare with; boundary that sends more is none."""
    rows = found["rows"]
    needed, halo, (own, *theirs) = rows["needed"], rows["halo"], rows["rows"]
    assert rows["boundary"] == [needed + halo, halo + needed]
    assert rows["broadcast"] == [[own, own, *theirs], [*theirs, own, own]]
