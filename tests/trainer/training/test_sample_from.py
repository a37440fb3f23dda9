"""`--sample-from auto`: the file where it fits, else the owners, the same on all ranks and said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from graphprep.cache.read import PartitionCache
from graphprep.cache.topology_file import mapped_topology, topology_file
from tests.trainer.handmade_cache import make_cache, random_graph
from trainer.base.errors import OptionError
from trainer.config.option_conflicts import check_together
from trainer.config.options import Options
from trainer.data.cache import Cache, open_cache
from trainer.dist.communicator import Communicator
from trainer.training import sample_from
from trainer.training.sample_from import chosen_source, topology_bytes

GRAPH = random_graph(num_nodes=60, num_edges=400, weighted=True)
NEEDED = 8 * 61 + 8 * len(GRAPH.src)
"""bytes of the file: 60 nodes, and edges with weights"""


class Ranks:
    """What `chosen_source` needs of a communicator; other ranks say what is given."""

    def __init__(self, *others: Mapping[str, Any], rank: int = 0) -> None:
        self._others, self.world, self.is_main = others, 1 + len(others), rank == 0

    def all_gather_object(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [dict(values), *({**values, **other} for other in self._others)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    parts = np.random.default_rng(0).integers(0, 2, 60)
    return open_cache(str(make_cache(tmp_path_factory.mktemp("caches") / "two", GRAPH, parts, 2)))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said, whatever other tests have made of the logger."""
    found: list[str] = []
    monkeypatch.setattr(sample_from.log, "info", lambda text, *values: found.append(text % values))
    return found


def chosen(cache: Cache, *others: Mapping[str, Any], **options: Any) -> str:
    ranks = cast(Communicator, Ranks(*others))
    return chosen_source(Options(cache="c", batch_size=8, **options), cache, ranks)


@pytest.mark.parametrize(
    ("free", "is_shared", "options", "other", "expected"),
    [
        (2 * NEEDED, True, {}, {}, "mapped"),
        (2 * NEEDED - 2, True, {}, {}, "owners"),
        (2 * NEEDED, True, {}, {"shared": False}, "owners"),
        (2 * NEEDED, True, {}, {"host": "another", "shared": False}, "mapped"),
        (2 * NEEDED, True, {}, {"host": "another", "available": NEEDED}, "owners"),
        (4 * NEEDED, False, {}, {}, "mapped"),
        (2 * NEEDED, True, {"task": "links"}, {}, "owners"),
        (NEEDED, True, {"sampler": "ladies"}, {}, "mapped"),
        (NEEDED, True, {"sample_from": "mapped"}, {}, "mapped"),
        (4 * NEEDED, True, {"sample_from": "owners"}, {}, "owners"),
    ],
)
def test_the_choice(
    cache: Cache,
    free: int,
    is_shared: bool,
    options: dict[str, Any],
    other: dict[str, Any],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
) -> None:
    """Guards against a machine of which only one rank is counted, or one that decides for all."""
    monkeypatch.setattr(sample_from, "available_bytes", lambda: free)
    monkeypatch.setattr(sample_from, "_is_shared", lambda *_: is_shared)
    assert chosen(cache, other, **options) == expected
    assert len(lines) == ("sample_from" not in options)
    assert all(line.startswith(f"--sample-from auto: {expected}, for") for line in lines)


def test_one_rank_has_no_other_to_ask(cache: Cache, lines: list[str]) -> None:
    """Guards against a sampler that serves nobody, and an option that is ignored without a word."""
    assert chosen(cache, sample_from="owners") == chosen(cache) == "mapped"
    assert lines == ["--sample-from owners: mapped, for the only rank owns all nodes"]


def test_the_file_has_the_length_that_the_rule_counts(
    cache: Cache,
) -> None:
    """Guards against a rule of bytes that are not those of the file, and a file by another name."""
    assert topology_bytes(cache) == NEEDED
    assert sample_from._is_shared(cache, 1)
    assert not sample_from._is_shared(cache, 1 << 62)
    assert mapped_topology(PartitionCache(cache.folder), timeout=5) is not None
    file = topology_file(cache.folder)
    assert file.name == sample_from.FILE
    assert 0 <= file.stat().st_size - 4096 - NEEDED < 2 * 64
    assert sample_from._is_shared(cache, 1 << 62)


@pytest.mark.parametrize("options", [{"draw": "weighted"}, {"draw": "replacement"}, {"sampler": "ladies"}])
def test_draws_that_owners_do_not_make(options: dict[str, str]) -> None:
    """Guards against draws by other rules than requested."""
    with pytest.raises(OptionError, match=r"--sample-from owners cannot be with --sampler .*use --sample-from mapped"):
        check_together(Options(cache="c", batch_size=8, sample_from="owners", **cast(Any, options)))
    check_together(Options(cache="c", batch_size=8, **cast(Any, options)))
