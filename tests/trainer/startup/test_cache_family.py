"""A folder of caches: a run takes the one for its ranks, says so, and goes on with another number of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from graphprep.topology import Topology
from tests.graphs import labelled_graph
from tests.stores import make_cache, make_store
from trainer.__main__ import main
from trainer.base.errors import CacheError, OptionError
from trainer.config.options import Options
from trainer.startup.cache_family import with_cache_for


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Caches of one graph in one part and in two, and things that are none."""
    folder = tmp_path_factory.mktemp("graph")
    store = make_store(labelled_graph(np.random.default_rng(1), 60, 400, undirected=True), target=folder / "store.zarr")
    for parts in (1, 2):
        make_cache(store, Topology.flat(parts), folder / "family" / f"parts-{parts}")
    (folder / "family" / "notes").mkdir()
    (folder / "family" / "notes.txt").write_text("none of them")
    return folder / "family"


@pytest.mark.slow
def test_the_cache_for_as_many_ranks_is_taken(family: Path) -> None:
    """Guards against a cache of another number of parts, and against a choice that nobody is told of."""
    for ranks in (1, 2):
        chosen, sentence = with_cache_for(Options(cache=str(family)), ranks)
        assert chosen.cache == str(family / f"parts-{ranks}")
        assert sentence == f"parts-{ranks} is the cache of {family} for {ranks} rank(s)"
    one = Options(cache=str(family / "parts-2"))
    assert with_cache_for(one, 1) == (one, None)
    nothing = Options(cache=str(family / "notes"))
    assert with_cache_for(nothing, 1) == (nothing, None)  # and is refused as no cache


def test_what_is_not_there_is_one_sentence(family: Path) -> None:
    """Guards against the first cache that comes, where none or several are for these ranks."""
    options = Options(cache=str(family))
    with pytest.raises(CacheError, match=r"has no cache for 3 rank\(s\), only for 1 \(parts-1\), 2 \(parts-2\)"):
        with_cache_for(options, 3)
    with pytest.raises(OptionError, match="has caches for several numbers of ranks: 1"):
        with_cache_for(options, None)
    (family / "again").symlink_to(family / "parts-2")
    try:
        with pytest.raises(CacheError, match="has several caches for 2 rank"):
            with_cache_for(options, 2)
    finally:
        (family / "again").unlink()


def test_a_run_goes_on_from_what_other_ranks_wrote(
    family: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a command that fits one number of ranks alone. The other number has its own test of resumption."""
    words = [str(family), "--epochs", "3", "--checkpoint", str(tmp_path / "run"), "--resume", "--json"]
    assert main(words) == 0
    *_, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert (result["ranks"], result["resumed_after"]) == (1, None)
    assert main([*words, "--epochs", "5"]) == 0
    *_, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert result["resumed_after"] == 3
