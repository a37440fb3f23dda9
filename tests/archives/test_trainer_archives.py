"""Caches that older versions wrote still train, to the same losses."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.trainer.rank_group import Run, among_ranks, train_once

ARCHIVES = Path(__file__).parent
LOSSES = {
    ("0.1.0", "people"): [1.458578, 1.356012, 1.266874],
    ("0.1.0", "papers"): [0.952805, 0.772804, 0.631281],
    ("0.1.0-format-3", "people"): [1.458578, 1.356012, 1.266874],
    ("0.1.0-format-3", "papers"): [0.952805, 0.772804, 0.631281],
}
"""of three epochs, by the version that wrote the cache"""
MODELS = {"people": "gcn", "papers": "rgcn"}
RANKS = {"0.1.0": 2, "0.1.0-format-3": 4}


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, str], Run]:
    found: dict[tuple[str, str], Run] = {}
    for version, ranks in RANKS.items():
        cases = [case for case in LOSSES if case[0] == version]
        tasks = [
            partial(train_once, cache=str(ARCHIVES / version / name / "cache"), model=MODELS[name], epochs=3)
            for _, name in cases
        ]
        found |= dict(zip(cases, among_ranks(ranks, tasks), strict=True))
    return found


def test_every_archived_version_is_trained() -> None:
    """Guards against an archive that is added without the losses that it must give."""
    archived = {path.name for path in ARCHIVES.iterdir() if path.is_dir() and path.name[0].isdigit()}
    assert archived == {version for version, _ in LOSSES}


@pytest.mark.parametrize(("version", "name"), LOSSES)
def test_an_old_cache_trains_to_the_losses_that_its_version_gave(
    runs: dict[tuple[str, str], Run], version: str, name: str
) -> None:
    """Guards against a trainer that refuses an old cache, or reads other rows from it."""
    assert runs[version, name].losses == pytest.approx(LOSSES[version, name], rel=1e-4)
