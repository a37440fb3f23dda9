"""The matrix of `nvidia-smi topo -m`, in the shapes in which it comes."""

from __future__ import annotations

import re

import pytest

from graphprep.errors import TopologyError
from graphprep.topology.detect.smi_matrix import BRIDGES, SWITCH, SYSTEM, Joined, parse
from tests.topology.detect.saved_files import NAMES, text_of
from tests.topology.forms import replaced

TWO = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\tPIX\t0-15\t0\nGPU1\tNV4\t X \tSYS\t16-31\t1\n"
TWO += "NIC0\tPIX\tSYS\t X \t\t\n"


def test_cells_nics_and_numa_nodes() -> None:
    """Guards against columns that are shifted, and a NIC that is taken for a GPU."""
    matrix = parse(TWO, origin="x")
    assert matrix.gpus == ("GPU0", "GPU1")
    assert matrix.nics == ("NIC0",)
    assert matrix.cells[0, 1] == matrix.cells[1, 0] == Joined(nvlinks=4)
    assert matrix.cells[0, 2] == Joined(closeness=SWITCH)
    assert matrix.cells[1, 2] == matrix.cells[2, 1] == Joined(closeness=SYSTEM)
    assert matrix.affinity == ("NUMA Affinity 0", "NUMA Affinity 1")


@pytest.mark.parametrize("name", NAMES)
def test_tabs_spaces_and_escape_codes_say_the_same(name: str) -> None:
    """Guards against a parser that only reads what a terminal shows, or only what a pipe gets."""
    text = text_of(name)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert parse(plain, origin="x") == parse(text, origin="x")
    underlined = re.sub(r"^(\s*)(GPU0\s.*Affinity.*)$", "\\1\x1b[4m\\2\x1b[0m", plain, count=1, flags=re.MULTILINE)
    assert underlined != plain
    assert parse(underlined, origin="x") == parse(text, origin="x")
    windows = text.replace("\n", "\r\n")
    assert parse(windows, origin="x") == parse(text, origin="x")
    spaced = parse(plain.expandtabs(), origin="x")
    assert (spaced.gpus, spaced.nics, spaced.cells) == (
        parse(text, origin="x").gpus,
        parse(text, origin="x").nics,
        parse(text, origin="x").cells,
    )


def test_nics_have_the_names_of_the_legend() -> None:
    """Guards against NIC numbers that nobody can look up."""
    assert parse(text_of("dgx-a100"), origin="x").nics == tuple(f"mlx5_{number}" for number in range(12))
    assert parse(text_of("dgx-1"), origin="x").nics == ("mlx5_0", "mlx5_2", "mlx5_1", "mlx5_3")


def test_empty_affinity_cells_stay_in_their_columns() -> None:
    """Guards against the number of one column that is read as another's where cells are empty."""
    assert parse(text_of("single"), origin="x").affinity == (None,)
    header = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    matrix = parse(header + "GPU0\t X \tSYS\t\t1\t\tN/A\nGPU1\tSYS\t X \t0-3\t\t\tN/A\n", origin="x")
    assert matrix.affinity == ("NUMA Affinity 1", "CPU Affinity 0-3")


def test_what_stands_around_the_matrix_is_passed_by() -> None:
    """Guards against warnings, MIG rows and prompts that are read as rows."""
    matrix = parse(text_of("odd-rows"), origin="x")
    assert matrix.gpus == ("GPU0", "GPU1", "GPU2")
    assert matrix.cells[0, 2] == Joined(nvlinks=4)


def test_old_words() -> None:
    """Guards against drivers that say SOC and PSB for SYS and PIX."""
    old = TWO.replace("SYS", "SOC").replace("PIX", "PSB")
    assert parse(old, origin="x") == parse(TWO, origin="x")


def test_another_order_of_gpus() -> None:
    """Guards against cells that stay behind when GPUs are put in the order of the PCI bus."""
    matrix = parse(TWO, origin="x").ordered([1, 0])
    assert matrix.gpus == ("GPU1", "GPU0")
    assert matrix.cells[1, 2] == Joined(closeness=SWITCH)
    assert matrix.affinity == ("NUMA Affinity 1", "NUMA Affinity 0")
    assert BRIDGES > SWITCH


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.txt holds no matrix of `nvidia-smi topo -m`"),
        ("GPU 0: NVIDIA A100 (UUID: GPU-1)\n", "s.txt holds no matrix"),
        (
            replaced(TWO, "GPU1\tNV4\t X \tSYS\t16-31\t1\n", ""),
            "s.txt, line 1: the matrix has a column GPU1 and no row",
        ),
        (replaced(TWO, "GPU0\t X \tNV4\tPIX\t0-15\t0", "GPU0\t X "), "s.txt, line 2: the row of GPU0 has 1 of 3 cells"),
        (replaced(TWO, "NV4\tPIX", "NV4\tNEAR"), "s.txt, line 2: 'NEAR' is none of NV#, PIX"),
        (replaced(TWO, "NV4\tPIX", "GNS\tPIX"), "s.txt, line 2: 'GNS' is none of NV#, PIX"),
        (
            replaced(TWO, "NV4\tPIX", "NV2\tPIX"),
            "s.txt, line 2: GPU0 is joined to GPU1 by NV2, and GPU1 to GPU0 by NV4 (line 3)",
        ),
        (
            replaced(TWO, "GPU1\tNV4\t X ", "GPU1\tNV4\tPHB"),
            "s.txt, line 3: GPU1 and itself are joined by 'PHB', not 'X'",
        ),
        (TWO + "GPU0\t X \tNV4\tPIX\n", "s.txt, line 5: GPU0 has a row already, on line 2"),
    ],
    ids=["empty", "list", "no row", "short row", "word", "p2p matrix", "contradiction", "diagonal", "row twice"],
)
def test_what_a_matrix_lacks_is_named_with_its_line(text: str, message: str) -> None:
    """Guards against a machine that is made up where the output was cut or edited."""
    with pytest.raises(TopologyError) as caught:
        parse(text, origin="s.txt")
    assert str(caught.value).startswith(message)
