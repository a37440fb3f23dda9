"""Features of nodes that change: none is seen before it is true, in the store, in the cache and in the trainer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphprep as gp
from cli import main
from graphprep.core.event_rows import ChangingFeatures
from graphprep.errors import CacheError, DatasetError, UsageError
from graphprep.temporal.cache import EventCache
from graphprep.temporal.changing_features import FeatureHistory
from graphprep.temporal.write_cache import cache_of_arrays
from trainer.data.events import open_event_cache

NODES = 5
ROWS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, 20)), max_size=40)


def expected(rows: list[tuple[int, int]], node: int, time: int) -> int:
    """The number of the row that is true of a node at a time, from a plain loop; -1 for none."""
    best, when = -1, -1
    for number, (other, start) in enumerate(rows):
        if other == node and start < time and start >= when:
            best, when = number, start
    return best


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, questions=st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(-1, 22)), max_size=30))
def test_no_feature_is_seen_before_it_is_true(rows: list[tuple[int, int]], questions: list[tuple[int, int]]) -> None:
    """The last strictly earlier row, of equal times the last one of the input, zeros before the first."""
    changing = ChangingFeatures(
        node=np.array([node for node, _ in rows], np.int64),
        time=np.array([time for _, time in rows], np.int64),
        x=np.arange(1, len(rows) + 1, dtype=np.float32)[:, None],
    )
    history = FeatureHistory.sorted(changing, NODES, np.dtype(np.int64))
    nodes, times = (np.array([one[place] for one in questions], np.int64) for place in (0, 1))
    found = history.before(nodes, times)[:, 0]
    assert found.tolist() == [expected(rows, node, time) + 1 for node, time in questions]


@pytest.mark.usefixtures("bounds_checked")
def test_the_kernel_keeps_within_its_arrays() -> None:
    """Guards against a search that reads behind the last row."""
    rows = ChangingFeatures(node=np.array([2, 0]), time=np.array([3.5, 1.0]), x=np.ones((2, 2), np.float32))
    history = FeatureHistory.sorted(rows, 3, np.dtype(np.float64))
    assert history.before(np.array([0, 1, 2, 2]), np.array([9.0, 9.0, 3.5, 4.0]))[:, 0].tolist() == [1, 0, 0, 1]
    with pytest.raises(UsageError, match="there is no node 3"):
        history.before(np.array([3]), np.array([1.0]))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_the_trainer_reads_what_the_cache_has(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]]
) -> None:
    """Guards against another order in the cache, and another search in the trainer."""
    changing = ChangingFeatures(
        node=np.array([node for node, _ in rows], np.int64),
        time=np.array([time for _, time in rows], np.int64),
        x=np.arange(1, 1 + 2 * len(rows), dtype=np.float32).reshape(-1, 2),
    )
    time = np.arange(20)
    folder = tmp_path_factory.mktemp("cache") / "cache"
    cache_of_arrays(folder, time % NODES, (time + 1) % NODES, time, changing=changing)
    if rows:
        assert EventCache(folder).check() > 0
    history = open_event_cache(str(folder)).tensors().changing
    assert history is not None
    nodes, times = np.repeat(np.arange(NODES), 23), np.tile(np.arange(-1, 22), NODES)
    row = history.rows_before(torch.from_numpy(nodes), torch.from_numpy(times))
    sorted_rows = FeatureHistory.sorted(changing, NODES, np.dtype(np.int64))
    np.testing.assert_array_equal(history.rows(row).numpy(), sorted_rows.before(nodes, times))


def test_a_table_is_imported_and_kept(tmp_path: Path) -> None:
    """Guards against ids that are taken as rows, rows of unknown nodes, and a cache without what the store has."""
    (tmp_path / "events.txt").write_text("".join(f"{10 * (i % 3)} {10 * ((i + 1) % 3)} {i}\n" for i in range(30)))
    table = tmp_path / "features.csv"
    table.write_text("node,time,age,balance\n20,4,1,2\n10,0,3,4\n20,1,5,6\n99,0,7,8\n")
    arguments = ["import", str(tmp_path / "events.txt"), "--name", "changing", "--events", "edges"]
    result = CliRunner().invoke(main, [*arguments, "--changing-features", str(table)])
    assert result.exit_code == 0, result.output
    assert "1 of 4 rows are of nodes without events" in result.stderr
    store = gp.open_events("changing")
    assert store.check() > 0
    history = store.changing_features
    assert history is not None
    assert history.before(np.array([2, 2, 1, 2]), np.array([4, 5, 1, 1])).tolist() == [[5, 6], [1, 2], [3, 4], [0, 0]]
    cache = gp.partition_events(store, parts=2, progress=False)
    assert cache.check() > 0
    assert cache.attributes["num_changing_features"] == 2
    table.write_text("node,time,age\n20,4,1\n")
    again = CliRunner().invoke(main, [*arguments, "--changing-features", str(table)])
    assert again.exit_code == 3
    assert "was made from other files or options" in again.stderr


def test_kinds_of_nodes_are_named_by_the_first_column(tmp_path: Path) -> None:
    """Guards against a user's features that an item of the same number gets."""
    (tmp_path / "jodie.csv").write_text(
        "user_id,item_id,timestamp,state_label,f\n" + "".join(f"{i % 2},{i % 3},{i}.5,0,1\n" for i in range(12))
    )
    table = tmp_path / "items.csv"
    table.write_text("item,time,price\n0,1.0,7\n")
    store = gp.import_events(tmp_path / "jodie.csv", name="shop", changing_features=table, progress=False)
    history = store.changing_features
    assert history is not None
    assert history.before(np.array([0, 2]), np.array([5.5, 5.5]))[:, 0].tolist() == [0, 7]
    table.write_text("node,time,price\n0,1.0,7\n")
    with pytest.raises(DatasetError, match="are of the kinds user and item; call it as one of them"):
        gp.import_events(tmp_path / "jodie.csv", name="shop-2", changing_features=table, progress=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,time\n0,1\n", "needs rows of a node, a time and features"),
        ("node,time,a\n0,1.5,1\n", "times of features that change are not whole"),
        ("node,time,a\nx,1,1\n", "it has the node 'x', and the ids of the events are whole numbers"),
        ("node,time,a\n7,1,1\n", "no row of its column 'node' is a node of the events"),
        ("node,time,a\n0,1,b\n", "column 'a' is not of numbers"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """In a sentence."""
    (tmp_path / "events.txt").write_text("".join(f"{i % 3} {(i + 1) % 3} {i}\n" for i in range(9)))
    (tmp_path / "features.csv").write_text(text)
    with pytest.raises(DatasetError, match=message):
        gp.import_events(
            tmp_path / "events.txt", name="wrong", changing_features=tmp_path / "features.csv", progress=False
        )


def test_a_damaged_history_is_refused(tmp_path: Path) -> None:
    """Guards against a search in times that do not ascend."""
    time = np.arange(20)
    changing = ChangingFeatures(node=np.zeros(2, np.int64), time=np.array([1, 2]), x=np.ones((2, 1), np.float32))
    folder = cache_of_arrays(tmp_path / "cache", time % 3, (time + 1) % 3, time, changing=changing)
    payload = folder / "changing/time/c/0"
    payload.write_bytes(np.array([5, 2], np.int64).tobytes())
    with pytest.raises(CacheError, match="has changed since it was written"):
        EventCache(folder).check()
    from trainer.base.errors import CacheError as TrainerCacheError

    with pytest.raises(TrainerCacheError, match="does not ascend among the rows of a node"):
        open_event_cache(str(folder)).tensors()
