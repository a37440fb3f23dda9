"""What commands print fits the terminal and is whole: 60, 80 and 120 columns, and a pipe, for every command."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.report import terminal
from graphprep.report.cited import Cited
from graphprep.report.table import Column, Table
from graphprep.system import doctor, home
from graphprep.topology import Topology, resolve
from pipelines.planning import plan as plan_pipeline
from tests.graphs import labelled_graph
from tests.pipelines.planning.test_plan import known_rates
from tests.stores import make_cache, make_store

pytestmark = pytest.mark.slow

WIDTHS = (60, 80, 120)
NAME = "a-graph-with-quite-a-long-name"


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, two caches, predictions and a pipeline, all with long names."""
    made = tmp_path_factory.mktemp("screens")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(made / "home"))
        store = make_store(labelled_graph(np.random.default_rng(1), 1234, 9_000, undirected=True), name=NAME)
        for topology in (resolve("2x2"), Topology.flat(4)):
            make_cache(store, topology, home.cache_path(NAME, topology.name))
    np.save(made / "p.npy", np.zeros((1234, 3), np.float32))
    (made / "run.yaml").write_text(
        f"datasets: {{{NAME}: {{store: {store.location}}}}}\ntopologies: [2x4, dgx-1-v100]\nverify: true\n"
    )
    return made


@pytest.fixture
def prepared(graphprep_home: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in a fresh home and in the current folder."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("home"))
    shutil.copytree(folder / "home", graphprep_home, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan_pipeline, "measured_rates", known_rates)
    monkeypatch.setattr(plan_pipeline, "gpus_here", list)
    torch = {"cuda_built": None, "cuda_available": False, "nccl": False, "gloo": True, "gpus": [], "threads": 2}
    monkeypatch.setattr(doctor, "_ask_torch", lambda: torch)
    # Other programs change both between two calls, and the calls are compared.
    monkeypatch.setattr(doctor.memory, "available", lambda: 8 * 10**9)
    monkeypatch.setattr(doctor, "_free_disk", lambda _folder: 10**12)
    return tmp_path


def shown(monkeypatch: pytest.MonkeyPatch, words: list[str], width: int | None) -> str:
    """What a command prints on a terminal of `width` columns, or through a pipe."""
    monkeypatch.setattr(terminal, "width_of", lambda _file: width)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def numbers(text: str) -> set[str]:
    """Whole numbers of at least two digits, as they are printed."""
    return set(re.findall(r"(?<![\w.,])\d[\d,.]*\d(?![\w,])", text))


COMMANDS = {
    "list": ["list"],
    "inspect a store": ["inspect", NAME],
    "inspect a cache": ["inspect", f"{NAME}/2x2"],
    "inspect a cache elsewhere": ["inspect", f"{NAME}/2x2", "--topology", "2x2-10gbe", "--compare-metis"],
    "inspect a node": ["inspect", f"{NAME}/2x2", "--node", "1200"],
    "compare": ["compare", f"{NAME}/2x2", f"{NAME}/flat-4"],
    "plan": ["plan", f"{NAME}/flat-4"],
    "plan --best": ["plan", f"{NAME}/flat-4", "--best", "--price", "2.5"],
    "topology list": ["topology", "list"],
    "topology show": ["topology", "show", "dgx-1-v100", "--table"],
    "clean": ["clean", "--dry-run"],
    "verify": ["verify", f"{NAME}/2x2"],
    "evaluate": ["evaluate", f"{NAME}/2x2", "p.npy"],
    "run": ["run", "run.yaml", "--dry-run"],
    "partition": ["partition", NAME, "--parts", "2", "--method", "random", "--effort", "none"],
    "generate": ["generate", "grid", "--name", "grid", "--sides", "9x9"],
    "doctor": ["doctor"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_screen_is_whole(prepared: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Guards against names that vanish, numbers that are cut, and rows that run over the edge of the terminal."""
    piped = shown(monkeypatch, COMMANDS[name], None)
    assert "…" not in piped
    for width in WIDTHS:
        text = shown(monkeypatch, COMMANDS[name], width)
        assert "…" not in text
        # A path is not broken, so that it can be copied.
        too_wide = [
            line for line in text.splitlines() if len(line) > width and max(map(len, line.split())) < width - 15
        ]
        assert not too_wide, (width, too_wide)
        gone = re.search(r"left out for want of width: (.*?);", text)
        if gone is None and name not in ("partition", "generate"):
            cut = numbers(piped) - numbers(text)
            first_links = re.search(r"the first 16 of \d+ \(a pipe and --json have all\)", " ".join(text.split()))
            assert not cut or first_links, (width, cut)


def test_the_list_has_every_name_and_number(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against the registry's table without names below 200 columns, which is what it was in every pipe."""
    rows = json.loads(shown(monkeypatch, ["list", "--json"], None))
    for width in (*WIDTHS, None):
        text = shown(monkeypatch, ["list"], width)
        lines = {line.split(" ")[0]: line for line in text.splitlines()}
        kept = [what for what in ("nodes", "edges", "features", "classes") if what in lines["name"]]
        assert kept[:2] == ["nodes", "edges"]
        for row in rows:
            for what in kept:
                assert (f"{row[what]:,}" if row[what] is not None else "-") in lines[row["name"]].split()
            assert (row["title"] in lines[row["name"]]) or width is not None
        assert ("left out for want of width" in text) == (width in (60, 80))


CHOSEN: dict[str, Callable[[dict[str, Any]], list[int]]] = {
    "inspect a store": lambda found: (
        [node["count"] for node in found["nodes"].values()] + [edge["count"] for edge in found["edges"].values()]
    ),
    "inspect a cache": lambda found: (
        [row[what] for row in found["quality"]["ranks"] for what in ("nodes", "edges", "halo_rows", "training_nodes")]
        + [count for row in found["traffic_rows"] for count in row]
        + [row[what] for row in found["quality"]["link_types"] for what in ("rows", "edges")]
    ),
    "inspect a node": lambda found: [row["edges"] for row in found["neighbours"]],
    "compare": lambda found: [row[what] for row in found["caches"] for what in ("cut_edges", "halo_rows")],
    "plan": lambda found: [row[what] for row in found["ranks"] for what in ("rows", "edges", "halo")],
}


@pytest.mark.parametrize("name", CHOSEN)
def test_numbers_of_the_json_are_on_the_screen(prepared: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Guards against columns that are lost at 80, and against a number of which a part is shown."""
    wanted = CHOSEN[name](json.loads(shown(monkeypatch, [*COMMANDS[name], "--json"], None)))
    assert wanted
    for width in (*WIDTHS, None):
        words = set(re.findall(r"(?<![\w.,])\d[\d,.]*(?![\w])", shown(monkeypatch, COMMANDS[name], width)))
        assert {f"{number:,}" for number in wanted} <= {word.rstrip(",.") for word in words}, width


def test_a_pipe_gets_one_line_a_row(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against wrapped rows in a pipe, whatever COLUMNS says, and against links that are left out there."""
    monkeypatch.setenv("COLUMNS", "40")
    found = json.loads(shown(monkeypatch, ["inspect", f"{NAME}/2x2", "--json"], None))
    lines = shown(monkeypatch, ["inspect", f"{NAME}/2x2"], None).splitlines()
    for link in found["quality"]["links"]:
        [line] = [line for line in lines if line.split(" ")[0] == link["name"]]
        assert f"{link['rows']:,}" in line.split()


def drawn(
    columns: list[str], rows: list[list[str]], monkeypatch: pytest.MonkeyPatch, width: int, optional: str = ""
) -> str:
    """A table on a terminal of `width` columns."""
    named = [Column(name, str(place), is_optional=name == optional) for place, name in enumerate(columns)]
    monkeypatch.setenv("COLUMNS", str(width))
    file = Terminal()
    terminal.print_table(file, Table("title", named, Cited(rows)))
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


def test_what_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against another order than: words are broken, columns that may go go, tables, a line a cell."""
    words = ["name", "count", "what it is about"]
    rows = [["a-name", "1,234,567", "some words that may be broken anywhere between them"], ["b", "8", "-"]]
    assert len(drawn(words, rows, monkeypatch, 100).splitlines()) == 6
    broken = drawn(words, rows, monkeypatch, 45)
    assert "left out" not in broken
    assert len(broken.splitlines()) > 6
    assert max(map(len, broken.splitlines())) <= 45
    assert "left out for want of width: what it is about" in " ".join(
        drawn(words, rows, monkeypatch, 25, optional="what it is about").split()
    )
    below = drawn(words, rows, monkeypatch, 34)
    assert [line.split()[:2] for line in below.splitlines() if line.startswith("name")] == [
        ["name", "count"],
        ["name", "what"],
    ]
    assert "1,234,567" in below
    listed = drawn(words, rows, monkeypatch, 16)
    assert "a-name\n  count:\n    1,234,567\n" in listed or "a-name\n  count: 1,234,567" in listed


def test_a_terminal_that_tells_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a terminal of 0 columns, and against COLUMNS with another word than a number."""
    for columns in ("0", "", "wide"):
        monkeypatch.setenv("COLUMNS", columns)
        assert terminal.width_of(Terminal()) == terminal.DEFAULT_WIDTH
    monkeypatch.setenv("COLUMNS", "60")
    assert terminal.width_of(Terminal()) == 60
    assert terminal.width_of(io.StringIO()) is None


def test_a_number_stays_with_its_unit() -> None:
    """Guards against `1.2` at the end of one line and `MB` at the beginning of the next."""
    for width in range(12, 40):
        text = terminal.broken("the memory of it is 1.2 MB, 43.1 % of 12.345 ms and so on", width)
        for whole in ("1.2 MB", "43.1 %", "12.345 ms"):
            assert whole in text
