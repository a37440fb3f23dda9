"""Files for other partitioners hold the graph in the formats that their manuals give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphprep.core import csr
from graphprep.core.types import Csr
from graphprep.partition.methods import graph_files
from tests.conftest import BoundsChecked
from tests.graphs import csr_of, random_edges
from tests.partition.problems import edges


@pytest.fixture
def square() -> Csr:
    """0 - 1 - 2 - 3 - 0 and 0 - 2, and one node alone."""
    return csr.undirected_simple(csr_of(edges([0, 1, 2, 3, 0], [1, 2, 3, 0, 2]), 5))


def test_metis_text(square: Csr, tmp_path: Path) -> None:
    """Guards against ids from 0 where the format counts from 1, and against weights before their neighbours."""
    graph_files.write_metis(tmp_path / "plain", square, None)
    assert (tmp_path / "plain").read_text().split("\n") == ["5 5", "2 3 4 ", "1 3 ", "1 2 4 ", "1 3 ", "", ""]
    weights = 10 * np.arange(1, square.num_edges + 1)
    graph_files.write_metis(tmp_path / "weighted", square, weights)
    lines = (tmp_path / "weighted").read_text().split("\n")
    assert lines[:3] == ["5 5 001", "2 10 3 20 4 30 ", "1 40 3 50 "]


def test_hmetis_text(square: Csr, tmp_path: Path) -> None:
    """Guards against nets without their own node, which would count too few rows."""
    graph_files.write_hmetis(tmp_path / "nets", square)
    assert (tmp_path / "nets").read_text().split("\n") == ["5 5", "1 2 3 4 ", "2 1 3 ", "3 1 2 4 ", "4 1 3 ", "5 ", ""]


def test_parhip(square: Csr, tmp_path: Path) -> None:
    """Guards against offsets in entries where the format has bytes."""
    graph_files.write_parhip(tmp_path / "binary", square, np.arange(10, 20))
    data = (tmp_path / "binary").read_bytes()
    header = np.frombuffer(data, np.uint64, 9)
    assert header[:3].tolist() == [2 | 8 | 16 | 32, 5, 10]
    assert header[3:].tolist() == [72, 84, 92, 104, 112, 112]
    assert np.frombuffer(data, np.uint32, 10, 72).tolist() == square.indices.tolist()
    assert np.frombuffer(data, np.int32, 10, 112).tolist() == list(range(10, 20))
    assert len(data) == 152
    graph_files.write_parhip(tmp_path / "plain", square, None)
    assert np.fromfile(tmp_path / "plain", np.uint64, 1)[0] == 1 | 2 | 8 | 16 | 32
    assert (tmp_path / "plain").stat().st_size == 112


def test_ranges_of_rows_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against rows lost or doubled where one range ends and the next begins."""
    clean = csr.undirected_simple(csr_of(random_edges(np.random.default_rng(0), 200, 600, hub=True), 200))
    graph_files.write_metis(tmp_path / "whole", clean, None)
    graph_files.write_hmetis(tmp_path / "nets", clean)
    graph_files.write_parhip(tmp_path / "binary", clean, None)
    monkeypatch.setattr(graph_files, "EDGES_AT_A_TIME", 13)
    for name, write in (("whole", graph_files.write_metis), ("binary", graph_files.write_parhip)):
        write(tmp_path / "pieces", clean, None)
        assert (tmp_path / "pieces").read_bytes() == (tmp_path / name).read_bytes()
    graph_files.write_hmetis(tmp_path / "pieces", clean)
    assert (tmp_path / "pieces").read_bytes() == (tmp_path / "nets").read_bytes()


def test_kernels_stay_within_bounds(bounds_checked: BoundsChecked) -> None:
    """Guards against numbers longer than their buffer."""
    bounds_checked(
        "import tempfile\nfrom pathlib import Path\nimport numpy as np\n"
        "from graphprep.core.csr import undirected_simple\n"
        "from graphprep.partition.methods import graph_files\n"
        "from tests.graphs import csr_of, random_edges\n"
        "clean = undirected_simple(csr_of(random_edges(np.random.default_rng(0), 300, 900), 300))\n"
        "with tempfile.TemporaryDirectory() as name:\n"
        "    graph_files.write_metis(Path(name) / 'a', clean, np.full(clean.num_edges, 2**62))\n"
        "    graph_files.write_hmetis(Path(name) / 'b', clean)\n"
    )
