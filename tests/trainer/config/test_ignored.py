"""What a cache has and a run does not use is said."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache, random_graph
from trainer.__main__ import main
from trainer.config.options import Options
from trainer.data.cache import open_cache
from trainer.startup.preflight import ignored_arrays

WORDS = "weights are ignored"


@pytest.mark.parametrize(
    ("options", "is_said"),
    [
        (["--model", "gat"], True),
        (["--model", "gatv2"], True),
        (["--model", "sage", "--aggregator", "max"], True),
        (["--model", "sage"], False),
        (["--model", "gcn"], False),
        (["--model", "gin"], False),
        (["--model", "rgcn"], False),
    ],
)
def test_weights_that_do_not_count_are_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], is_said: bool
) -> None:
    """gat and gatv2 ignored the edges' weights without a word, and so did a maximum."""
    cache = make_cache(tmp_path / "c", random_graph(weighted=True), np.zeros(60, int), 1)
    assert main([str(cache), "--epochs", "1", *options]) == 0
    assert capsys.readouterr().err.count(WORDS) == is_said


def test_nothing_is_said_of_weights_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A word on every run is a word that nobody reads."""
    cache = make_cache(tmp_path / "c", random_graph(), np.zeros(60, int), 1)
    assert main([str(cache), "--epochs", "1", "--model", "gat"]) == 0
    assert "ignored" not in capsys.readouterr().err


def test_other_arrays_of_edges_and_nodes_are_named(tmp_path: Path) -> None:
    """Times of edges and of nodes lie in the cache, and no model reads them."""
    folder = make_cache(tmp_path / "c", random_graph(), np.zeros(60, int), 1)
    manifest = json.loads((folder / "manifest.json").read_text())
    [edges] = {name.rsplit("/local/")[0] for name in manifest["files"] if "/local/indptr/" in name}
    [nodes] = {name.rsplit("/y/")[0] for name in manifest["files"] if "/y/zarr.json" in name}
    for name in (f"{edges}/local/time/zarr.json", f"{nodes}/year/zarr.json"):
        manifest["files"][name] = {"size": 0, "sha256": "0" * 64}
    text = json.dumps(manifest)
    (folder / "manifest.json").write_text(text)
    (folder / "manifest.sha256").write_text(hashlib.sha256(text.encode()).hexdigest() + "\n")
    said = ignored_arrays(Options(cache=str(folder)), open_cache(str(folder)))
    assert [sentence.split(" are ignored")[0] for sentence in said] == [
        "the edges' arrays time",
        "the nodes' arrays year",
    ]
