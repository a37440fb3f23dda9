"""The legs that rows take with relays: once into each group, and each move changes what it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.partition.refine import link_loads
from graphprep.partition.refine import refine_kernels as kernels
from graphprep.partition.refine.hypergraph import row_nets
from graphprep.partition.refine.legs import links_of, relayed_seconds
from graphprep.partition.refine.parallel import count_pins
from graphprep.partition.refine.refine import EFFORTS, OBJECTIVES, Refinement
from graphprep.topology import Topology
from graphprep.topology.rank_groups import RankGroup, ranks_in
from graphprep.traffic import LinkModel
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges

TREES: dict[str, RankGroup] = {
    "two machines": [[0, 1, 2], [3, 4]],
    "machines of racks": [[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
    "one rank beside a group": [[[0, 3], 1], 2],
}


def entered(group: RankGroup, home: int, needing: set[int]) -> tuple[int, int]:
    """How often a row of `home` crosses into a group from its owner, and how often it is passed on inside one."""
    if isinstance(group, int) or not needing & set(ranks_in(group)):
        return 0, 0
    entering = sum(bool(needing & set(ranks_in(part))) for part in group if home not in ranks_in(part))
    below = [entered(part, home, needing) for part in group]
    if home in ranks_in(group):
        return entering + sum(one[0] for one in below), sum(one[1] for one in below)
    return 0, entering - 1 + sum(one[1] for one in below)


def relayed(tree: RankGroup, seed: int, num_nodes: int, num_edges: int) -> kernels.State:
    rng = np.random.default_rng(seed)
    num_parts = len(ranks_in(tree))
    nets = row_nets(csr_of(random_edges(rng, num_nodes, num_edges, weighted=False, hub=True), num_nodes))
    links = links_of(LinkModel.of(Topology.flat(num_parts)), 1024, tree)
    most_PC = np.full((num_parts, 1), float(num_nodes))
    refinement = Refinement(links, most_PC, effort=EFFORTS["fast"], objective=OBJECTIVES["slowest"], seed=0)
    part_N = rng.permutation(np.arange(num_nodes) % num_parts).astype(np.int32)
    return refinement._state(nets, part_N, np.ones((num_nodes, 1)))


@settings(deadline=None)
@given(st.sampled_from(sorted(TREES)), st.data())
def test_a_row_enters_each_group_once(name: str, data: st.DataObject) -> None:
    tree = TREES[name]
    num_parts = len(ranks_in(tree))
    links = links_of(LinkModel.of(Topology.flat(num_parts)), 1024, tree)
    home = data.draw(st.integers(0, num_parts - 1))
    needing = data.draw(st.lists(st.integers(0, num_parts - 1), min_size=1, unique=True))
    kernels.add_legs(links, home, np.array(needing), 5)
    from_owner, inside = links.rows_PL[:, :num_parts], links.rows_PL[:, num_parts:]
    assert (from_owner.sum(), inside.sum()) == tuple(5 * count for count in entered(tree, home, set(needing) - {home}))
    assert from_owner.sum() == from_owner[home].sum()
    assert links.total[0] == 5 * len(set(needing) - {home})


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TREES)), st.integers(8, 40), st.integers(0, 200), st.integers(0, 2**32 - 1), st.booleans()
)
def test_moves_keep_the_counts_and_prices_foresee_them(
    name: str, num_nodes: int, num_edges: int, seed: int, steep: bool
) -> None:
    """With the norm's power at 1 prices are constant, so that the gain of a move is what the cost falls by."""
    state = relayed(TREES[name], seed, num_nodes, num_edges)
    num_parts = len(state.links.rows_PL)
    state.links.latency_D[:] = 0.0
    count_pins(state.pins, state.part_X, state.links, None)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        node, anywhere = int(rng.integers(num_nodes)), bool(rng.integers(2))
        link_loads.scale(state.links, max(link_loads.slowest(state.links), 1e-9), 3 if steep else 0, row_weight=0.5)
        kernels.price_moves(state.links)
        cost = kernels.cost_of(state.links)
        target, gain = kernels.best_move(node, state, anywhere, False)
        if target < 0:
            target = int(rng.integers(num_parts))
            gain = None
        kernels.move(node, target, state)
        if not steep and gain is not None:
            assert cost - kernels.cost_of(state.links) == pytest.approx(gain, abs=1e-9 * max(1.0, cost))
        rows_PL, load_D = state.links.rows_PL.copy(), state.links.load_D.copy()
        count_pins(state.pins, state.part_X, state.links, None)
        assert np.array_equal(rows_PL, state.links.rows_PL)
        assert load_D == pytest.approx(state.links.load_D, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", sorted(TREES))
def test_seconds_of_a_partition_are_those_of_the_legs_that_refinement_counts(name: str) -> None:
    """Guards against a choice for relays by other rows than the moves are judged by."""
    state = relayed(TREES[name], seed=3, num_nodes=60, num_edges=500)
    matrix = csr_of(random_edges(np.random.default_rng(3), 60, 500, weighted=False, hub=True), 60)
    links = links_of(LinkModel.of(Topology.flat(len(state.links.rows_PL))), 1024, TREES[name])
    seconds = relayed_seconds(matrix, state.part_X, links)
    assert np.array_equal(links.rows_PL, state.links.rows_PL)
    assert seconds > float(state.links.load_D.max())  # one stage after the other, and each has to start


@pytest.mark.slow
def test_kernels_stay_within_bounds_with_relays(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range reads and writes, where graphs have no edge and parts need two words of bits."""
    bounds_checked(
        "import numpy as np\n"
        "from tests.graphs import csr_of, random_edges\n"
        "from graphprep.partition.refine.hypergraph import row_nets\n"
        "from graphprep.partition.refine.legs import links_of, relayed_seconds\n"
        "from graphprep.partition.refine.refine import EFFORTS, OBJECTIVES, Refinement\n"
        "from graphprep.topology import Topology\n"
        "from graphprep.traffic import LinkModel\n"
        "rng = np.random.default_rng(0)\n"
        "wide = [[[8 * m + 2 * s, 8 * m + 2 * s + 1] for s in range(4)] for m in range(9)]\n"
        "for tree, parts in (([[0, 1], 2], 3), ([[[0, 1], [2, 3]], [4, 5]], 6), (wide, 72)):\n"
        "    for nodes, edges in ((parts, 0), (90, 900), (700, 3000)):\n"
        "        matrix = csr_of(random_edges(rng, nodes, edges, weighted=False, hub=True), nodes)\n"
        "        part_N = (np.arange(nodes) % parts).astype(np.int32)\n"
        "        links = links_of(LinkModel.of(Topology.flat(parts)), 1024, tree)\n"
        "        relayed_seconds(matrix, part_N, links)\n"
        "        run = Refinement(links, np.full((parts, 1), 2.0 + 1.1 * nodes / parts), effort=EFFORTS['fast'],\n"
        "                         objective=OBJECTIVES['slowest'], seed=0)\n"
        "        run.run(row_nets(matrix), part_N, np.ones((nodes, 1)))\n"
    )
