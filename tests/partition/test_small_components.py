"""Small components are set aside and then placed where they even out the loads; no part stays empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.partition import small_components
from graphprep.partition.components import components
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, edge_counter, random_edges
from tests.partition.problems import edges

QUARTERS = np.full(4, 0.25)


def clean_of(src: list[int] | range, dst: list[int] | range, num_nodes: int) -> Csr:
    """The clean graph of some edges."""
    return csr.undirected_simple(csr_of(edges(src, dst), num_nodes))


def ones(num_nodes: int) -> np.ndarray:
    """The one load that counts nodes."""
    return np.ones((1, num_nodes), np.int64)


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), num_nodes=st.integers(1, 60), num_edges=st.integers(0, 80))
def test_components_are_those_of_scipy(seed: int, num_nodes: int, num_edges: int) -> None:
    """Guards against components that are joined or torn apart."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    clean = csr.undirected_simple(csr_of(random_edges(np.random.default_rng(seed), num_nodes, num_edges), num_nodes))
    component_N, count = components(clean)
    matrix = csr_matrix((np.ones(clean.num_edges), clean.indices, clean.indptr), shape=(num_nodes, num_nodes))
    expected, label_N = connected_components(matrix, directed=False)
    assert count == expected
    assert np.array_equal(component_N, label_N)


def test_only_what_is_small_against_every_part_is_set_aside() -> None:
    """Guards against half a graph that bypasses the partitioner, and against a heavy single component that is light
    in nodes.
    """
    clean = clean_of([*range(0, 499), 500, 503], [*range(1, 500), 501, 504], 1000)
    amounts_DN = np.ones((2, 1000), np.int64)
    amounts_DN[1, 503] = 1000
    small = small_components.find_small(clean, amounts_DN, QUARTERS)
    assert small.core_N[:500].all()
    assert not small.core_N[[500, 501, 502, 505]].any()
    assert small.core_N[[503, 504]].all()
    assert small.component_N[500] == small.component_N[501]
    assert small.count == len(np.unique(small.component_N[~small.core_N]))
    core = small_components.core_graph(clean, small)
    assert core.num_rows == core.num_sources == 502
    kept = np.flatnonzero(small.core_N)
    new_id = {old: new for new, old in enumerate(kept.tolist())}
    inside = [(s, d, w) for s, d, w in edge_counter(clean) if s in new_id and d in new_id]
    assert set(edge_counter(core)) == {(new_id[s], new_id[d], w) for s, d, w in inside}


def test_single_nodes_fill_the_gaps_exactly() -> None:
    """Guards against isolated nodes that all land in one part, and against rounding that leaves a part over."""
    clean = clean_of([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], 12)
    thirds = np.full(3, 1 / 3)
    small = small_components.find_small(clean, ones(12), thirds)
    parts_N = small_components.place_small(np.array([0, 0, 0, 0, 1, 1], np.int32), small, ones(12), thirds)
    assert np.bincount(parts_N).tolist() == [4, 4, 4]
    many = clean_of([], [], 100_003)
    small = small_components.find_small(many, ones(100_003), np.array([0.5, 0.3, 0.2]))
    parts_N = small_components.place_small(np.zeros(0, np.int32), small, ones(100_003), np.array([0.5, 0.3, 0.2]))
    assert (np.abs(np.bincount(parts_N) - 100_003 * np.array([0.5, 0.3, 0.2])) <= 1).all()


def test_components_stay_whole_and_even_out_all_loads() -> None:
    """Guards against components that are cut, and against a balance of nodes bought with training nodes."""
    rng = np.random.default_rng(0)
    # 3000 chains of 1 to 4 nodes; a fifth of the nodes trains, and the core has all of its own in part 0.
    sizes = rng.integers(1, 5, 3000)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    num_apart = int(starts[-1])
    src = np.setdiff1d(np.arange(num_apart), starts[1:] - 1)
    core = num_apart + np.arange(4000)
    clean = clean_of([*src, *core[:-1]], [*(src + 1), *core[1:]], num_apart + 4000)
    amounts_DN = np.ones((3, clean.num_rows), np.int64)
    amounts_DN[1] = np.diff(clean.indptr)
    amounts_DN[2] = rng.random(clean.num_rows) < 0.2
    core_parts = np.repeat(np.arange(4, dtype=np.int32), [1600, 1200, 800, 400])
    amounts_DN[2, core] = 0
    amounts_DN[2, core[:300]] = 1
    small = small_components.find_small(clean, amounts_DN, QUARTERS)
    assert small.count == 3000
    parts_N = small_components.place_small(core_parts, small, amounts_DN, QUARTERS)
    assert np.array_equal(parts_N[core], core_parts)
    assert np.array_equal(parts_N[src], parts_N[src + 1])
    for amount_N in amounts_DN:
        load_P = np.bincount(parts_N, weights=amount_N, minlength=4)
        assert load_P.max() <= 1.03 * load_P.mean() + amount_N.max()
    assert np.array_equal(parts_N, small_components.place_small(core_parts, small, amounts_DN, QUARTERS))


def test_an_empty_part_gets_the_least_connected_node_of_the_largest() -> None:
    """Guards against parts without a node, and against a hub that is torn from its neighbours to fill one."""
    parts_N = np.array([0, 0, 0, 0, 2], np.int32)
    degree_N = np.array([9, 3, 1, 4, 0])
    filled = small_components.fill_empty_parts(parts_N, 4, degree_N)
    assert filled.tolist() == [0, 3, 1, 0, 2]
    assert parts_N.tolist() == [0, 0, 0, 0, 2]
    assert small_components.fill_empty_parts(np.array([1], np.int32), 3, np.array([0])).tolist() == [1]


@pytest.mark.slow
def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against out-of-range writes in the walk, in placement and in LDG."""
    bounds_checked(
        "import numpy as np\n"
        "from graphprep.core.csr import undirected_simple\n"
        "from graphprep.partition import small_components\n"
        "from graphprep.partition.methods import baselines\n"
        "from tests.graphs import csr_of, random_edges\n"
        "for num_nodes, num_edges in ((1, 0), (300, 100), (300, 900)):\n"
        "    chunk = random_edges(np.random.default_rng(0), num_nodes, num_edges, hub=num_edges == 900)\n"
        "    clean = undirected_simple(csr_of(chunk, num_nodes))\n"
        "    amounts = np.stack([np.ones(num_nodes, np.int64), np.diff(clean.indptr)])\n"
        "    for parts in (1, 2, 300, 400):\n"
        "        shares = np.full(parts, 1 / parts)\n"
        "        small = small_components.find_small(clean, amounts, shares)\n"
        "        core = small_components.core_graph(clean, small)\n"
        "        found = baselines.ldg(core, shares_P=shares, seed=0, imbalance=1.05)\n"
        "        small_components.place_small(found, small, amounts, shares)\n"
    )
