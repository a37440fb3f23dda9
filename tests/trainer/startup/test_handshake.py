"""Ranks that do not belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache, random_graph
from trainer.base.errors import CacheError, TrainerError, TrainingError
from trainer.config.options import Options
from trainer.data.cache import Cache, open_cache
from trainer.data.labels import LabelCounts
from trainer.data.part import load_part
from trainer.exchange.exchange import boundary_counts
from trainer.exchange.relay_routes import message_sums
from trainer.startup.handshake import agree
from trainer.startup.memory import Sizes


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    folder = make_cache(tmp_path_factory.mktemp("agreement") / "cache", random_graph(), np.arange(60) % 2, 2)
    return open_cache(str(folder))


def facts(cache: Cache, /, **of_rank_1: Any) -> list[dict[str, Any]]:
    """Facts of two ranks that agree, but for what is given."""
    both = [
        {
            "host": "h0",
            "device": "cpu",
            "cache": "k",
            "options": "o",
            "rows": 30,
            "nodes": [10, 5 + rank, 3],
            "through_host": False,
            "sizes": {**dict.fromkeys(Sizes.__slots__, 1), "typed": None},
            "available": 10**9,
            "labels": [[10, 10], [4 + rank, 6 - rank]],
            "missing_parts": [],
            "boundaries": boundary_counts(load_part(cache, rank, split=0)),
            "messages": message_sums(load_part(cache, rank, split=0)),
            "stage_rows": [],
        }
        for rank in range(2)
    ]
    both[1] |= of_rank_1
    return both


def test_counts_are_those_of_all_ranks(cache: Cache) -> None:
    """A loss divided by a rank's own count weighs the nodes of small parts more."""
    found = agree(Options(cache="c"), cache, facts(cache))
    assert (found.num_train, found.num_val, found.num_test) == (20, 11, 6)
    assert found.label_counts == LabelCounts(labelled_C=[20, 20], positive_C=[9, 11])


@pytest.mark.parametrize(
    ("of_rank_1", "error", "said"),
    [
        ({"cache": "other"}, CacheError, "rank 1 on h0 opened another cache than rank 0"),
        ({"options": "other"}, TrainingError, "rank 1 was started with other options"),
        ({"host": "h1"}, TrainingError, "rank 0 .* and rank 1 .* on the same machine"),
        ({"device": "cuda:0"}, TrainingError, "rank 0 on h0 runs on the CPU"),
        ({"boundaries": {"sends": {"0": 0}, "expects": {"0": 0}}}, CacheError, "not of one cache"),
        ({"rows": 29}, CacheError, "have 59 nodes, not 60"),
        ({"nodes": [-10, 0, 0]}, TrainingError, "no labelled training node"),
    ],
)
def test_ranks_that_do_not_fit_are_named(
    cache: Cache, of_rank_1: dict[str, Any], error: type[TrainerError], said: str
) -> None:
    """Ranks with different seeds or caches train on, each towards its own goal."""
    with pytest.raises(error, match=said):
        agree(Options(cache="c"), cache, facts(cache, **of_rank_1))


def test_parts_that_are_elsewhere_are_named(cache: Cache) -> None:
    """A machine that has only its own parts fails when it is to read the others, and all others wait for it."""
    partial_copy = facts(cache, missing_parts=[0, 2])
    with pytest.raises(CacheError, match=r"--exchange tensor .* the cache on h0 \(rank 1\) lacks parts/0; copy"):
        agree(Options(cache="c", exchange="tensor"), cache, partial_copy)
    found = agree(Options(cache="c", exchange="auto"), cache, partial_copy)
    assert found.layer_exchanges == []
    assert found.exchange_remark is not None
    assert "boundary in every layer" in found.exchange_remark
    assert "lacks parts/0" in found.exchange_remark


def test_what_decides_the_result_is_compared_and_nothing_else() -> None:
    """Ranks may find the cache under different paths; they may not have different step sizes."""
    one = Options(cache="a", quiet=True, device="cpu").same_on_all_ranks()
    assert one == Options(cache="b", debug=True).same_on_all_ranks()
    assert one != Options(cache="a", lr=0.5).same_on_all_ranks()
    # A rank that looks for a checkpoint, or sends rows for a file, waits for the others to do so too.
    assert one != Options(cache="a", checkpoint="c").same_on_all_ranks()
    assert one != Options(cache="a", save_predictions="p.npy").same_on_all_ranks()
    assert (
        Options(cache="a", checkpoint="c").same_on_all_ranks() == Options(cache="a", checkpoint="d").same_on_all_ranks()
    )


def test_no_file_of_the_cache_is_needed_but_its_own(cache: Cache, tmp_path: Path) -> None:
    """The format promises that a rank reads the root, the manifest and its own part, so only those may be copied."""
    import shutil

    target = tmp_path / "partial copy"
    for name in ("zarr.json", "manifest.json", "manifest.sha256"):
        target.mkdir(exist_ok=True)
        shutil.copy(cache.folder / name, target / name)
    shutil.copytree(cache.folder / "parts/1", target / "parts/1")
    assert load_part(open_cache(str(target)), 1, split=0).num_rows == 30
