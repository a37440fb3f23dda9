"""Relay arrays that do not fit are refused when a part is opened, before any row is sent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache
from tests.cache.test_relay_arrays import relayed_cache
from tests.graphs import labelled_graph
from tests.stores import make_store
from tests.traffic.test_relay import TWO_OF_THREE
from tests.trainer.handmade_cache import seal
from trainer.base.errors import CacheError
from trainer.data.cache import open_cache
from trainer.data.part import load_part

Edit = Callable[[NDArray[np.generic]], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relays")
    store = make_store(labelled_graph(np.random.default_rng(1), 200, 3000), target=folder / "g.zarr")
    return relayed_cache(store, TWO_OF_THREE, folder / "cache").folder


def test_relays_are_those_of_the_cache(whole: Path) -> None:
    """Guards against rows, owners or batches that are counted another way than they were written."""
    cache, opened = PartitionCache(whole), open_cache(str(whole))
    assert opened.has_relays
    for number in range(cache.num_parts):
        relays = load_part(opened, number, split=0).relays
        assert relays is not None
        stored = [cache.array(f"parts/{number}/relay/{name}") for name in ("via", "stage", "direct")]
        found = [relays.via_H.numpy(), relays.stage_H.numpy(), relays.is_direct_R.numpy()]
        assert all(np.array_equal(one, other) for one, other in zip(stored, found, strict=True))
        assert sum(map(len, relays.forwards.values())) == len(cache.array(f"parts/{number}/relay/forward"))
        assert relays.num_stages == 2
        assert list(relays.batch_P) == [0, 0, 0, 1, 1, 1]


LATER = [0]
"""A row of part 1's halo that arrives in stage 2."""
DAMAGES: dict[str, tuple[str, Edit, str]] = {
    "no such rank": ("via", lambda values: values.__setitem__(0, 6), "names a rank"),
    "itself": ("via", lambda values: values.__setitem__(0, 1), "names a rank"),
    "no such stage": ("stage", lambda values: values.__setitem__(0, 9), "is not within 1 .. 2"),
    "stage of another way": ("stage", lambda values: values.__setitem__(slice(None), 1), "is 1 for other rows"),
    "no such row": ("forward", lambda values: values.__setitem__(0, 10**6), "points outside"),
    "row of a later stage": ("forward", lambda values: values.__setitem__(0, LATER[0]), "does not arrive before it"),
    "other counts": ("forward_counts", lambda values: values.__setitem__((0, 0), 10**6), "does not count"),
    "to itself": ("forward_counts", lambda values: values.__setitem__((0, slice(None)), 0), "does not count"),
    "no truth value": ("direct", lambda values: values.view(np.uint8).__setitem__(0, 7), "other than 0 and 1"),
}


@pytest.mark.parametrize(("name", "edit", "words"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_arrays_are_one_sentence(whole: Path, tmp_path: Path, name: str, edit: Edit, words: str) -> None:
    """Guards against an index that a kernel follows out of bounds, and against a message that nobody sends."""
    folder = Path(shutil.copytree(whole, tmp_path / "cache"))
    path = f"parts/1/relay/{name}"
    values = np.array(PartitionCache(whole).array(path))
    LATER[0] = int(np.argmax(PartitionCache(whole).array("parts/1/relay/stage") == 2))
    edit(values)
    shape = json.loads((folder / path / "zarr.json").read_text())["shape"]
    (folder / path / "c").joinpath(*["0"] * len(shape)).write_bytes(values.tobytes())
    seal(folder)
    with pytest.raises(CacheError, match=words):
        load_part(open_cache(str(folder)), 1, split=0)
