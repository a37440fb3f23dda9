"""OGB's own table as registry entries: right for the datasets of today, and open for those of tomorrow."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphprep.core.types import EdgeType, Treatment
from graphprep.datasets import ogb_table, registry
from graphprep.datasets.reader_options import options_of
from graphprep.datasets.readers import ogb


def installed() -> Path:
    spec = importlib.util.find_spec("ogb")
    assert spec
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of ogb's tables, which a test may change."""
    for task in (ogb_table.NODES, ogb_table.LINKS):
        (tmp_path / task).mkdir()
        shutil.copy(installed() / task / "master.csv", tmp_path / task)
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    return tmp_path


def test_the_well_known_five() -> None:
    """Direction, layout and counts decide what graph comes out; each of these was published."""
    entries = registry.load_registry()
    inverse = {name: entry.options["inverse_edges"] for name, entry in entries.items() if name.startswith("ogbn-")}
    assert inverse == {
        "ogbn-arxiv": False,
        "ogbn-products": True,
        "ogbn-proteins": True,
        "ogbn-mag": False,
        "ogbn-papers100m": False,
    }
    arxiv = registry.entry("OGBN_Arxiv")
    assert arxiv.files[0].url.endswith("/arxiv.zip")
    assert arxiv.expected.total("edges") == 1_166_243
    assert arxiv.edge_treatment == Treatment()
    for name in inverse:
        expected = entries[name].expected
        assert expected.total("nodes")
        assert entries[name].licence != ogb_table.SEE_HOMEPAGE
    for name in ("ogbn-arxiv", "ogbn-products", "ogbn-proteins"):
        expected = entries[name].expected
        assert sum(expected.total(part) or 0 for part in ("train", "val", "test")) == expected.total("nodes")
    mag = entries["ogbn-mag"].expected
    assert mag.total("nodes") == 1_939_743
    assert mag.total("edges") == 21_111_007
    assert isinstance(mag.edges, dict)
    for key in mag.edges:
        assert {EdgeType.from_key(key).source, EdgeType.from_key(key).destination} <= mag.nodes.keys()  # type: ignore[union-attr]


def test_every_entry_has_options_that_the_reader_knows() -> None:
    """A table entry that its reader refuses would fail only after the download."""
    for name, entry in registry.load_registry().items():
        if entry.source == "ogb":
            options = options_of(entry, ogb.OgbOptions)
            assert name.startswith(("ogbn-", "ogbl-"))
            assert (options.tasks is None) == name.startswith("ogbl-")
            assert entry.files[0].file_name == f"{options.folder}.zip"


def test_links_without_features_are_left_out() -> None:
    """There is nothing to train on."""
    assert {name for name in ogb_table.entries() if name.startswith("ogbl-")} == {
        "ogbl-ppa",
        "ogbl-collab",
        "ogbl-citation2",
        "ogbl-vessel",
    }


def test_what_a_new_release_adds(package: Path) -> None:
    """A dataset that ogb learns is known here without a release of ours."""
    path = package / ogb_table.NODES / "master.csv"
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join(
            f"{line},{line.rsplit(',', 1)[1]}2" if number == 0 else f"{line},{line.rsplit(',', 1)[1]}"
            for number, line in enumerate(lines)
        )
    )
    found = registry.entry("ogbn-papers100M2")
    assert found.options["binary"]
    assert found.expected.nodes is None
    assert found.licence == ogb_table.SEE_HOMEPAGE


@pytest.mark.parametrize("spoil", ["Maybe", "http2"])
def test_what_cannot_be_understood(package: Path, spoil: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One odd column in a table of someone else's must not take Cora away."""
    path = package / ogb_table.NODES / "master.csv"
    text = path.read_text()
    old = "binary,False,False" if spoil == "Maybe" else "http://snap.stanford.edu/ogb/data/nodeproppred/products"
    assert old in text
    path.write_text(text.replace(old, f"binary,False,{spoil}" if spoil == "Maybe" else "ftp://x.org/products"))
    entries = registry.load_registry()
    assert "ogbn-products" not in entries
    assert {"cora", "ogbn-arxiv", "ogbn-proteins"} <= entries.keys()
    assert "ogbn-products" in capsys.readouterr().err


def test_without_ogb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is only where the table lies; without it all other datasets are there."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ogb_table.entries() == {}
    assert "cora" in registry.load_registry()


def test_datasets_yaml_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry with a checksum in datasets.yaml must win over the table's, which has none."""
    cora = registry.entry("cora")
    monkeypatch.setattr(ogb_table, "entries", lambda: {"cora": cora.model_copy(update={"title": "another"})})
    assert registry.entry("cora").title == cora.title


def test_nothing_heavy_is_imported() -> None:
    """`graphprep list` must answer at once; importing ogb costs four seconds, and it asks the network for news."""
    script = (
        "import sys; from graphprep.datasets.registry import load_registry; assert 'ogbn-arxiv' in load_registry(); "
        "print([name for name in ('ogb', 'torch', 'pandas', 'pyarrow', 'zarr') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
