"""The command line: results on standard output, words on standard error, one sentence and a status for every error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.cache.read import PartitionCache
from graphprep.system import home, progress

CLI = [sys.executable, "-m", "cli"]


Done = subprocess.CompletedProcess[str]


def run_as_process(*words: str | Path) -> Done:
    """A graphprep command in a process of its own, which takes seconds to import everything."""
    return subprocess.run(
        [*CLI, *map(str, words)], capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL
    )


def run(*words: str | Path) -> Done:
    """A graphprep command in this process, unless it starts ranks: their supervisor takes the process's signals."""
    if words[0] == "train":
        return run_as_process(*words)
    progress.configure(quiet=False)
    with CliRunner().isolation() as (output, errors, _):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, words)), prog_name="graphprep")
        sys.stdout.flush()
        sys.stderr.flush()
    return Done(words, int(ended.value.code or 0), output.getvalue().decode(), errors.getvalue().decode())


def refused(status: int, *words: str | Path, runner: Callable[..., Done] = run) -> str:
    """The sentence with which a command refuses."""
    done = runner(*words)
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("graphprep: error: ")]
    assert len(lines) == 1, done.stderr
    assert done.stderr.splitlines()[-1] == lines[0]
    return lines[0].removeprefix("graphprep: error: ")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with digits fetched and partitioned for two ranks; tests copy it."""
    folder = tmp_path_factory.mktemp("prepared")
    environment = {**os.environ, "GRAPHPREP_HOME": str(folder)}
    for words in (["fetch", "digits"], ["partition", "digits", "--parts", "2", "--method", "metis"]):
        subprocess.run([*CLI, *words], env=environment, check=True, capture_output=True)
    return folder


@pytest.fixture
def digits(prepared: Path, graphprep_home: Path) -> Path:
    """GRAPHPREP_HOME with digits and its cache digits/flat-2; returns the cache's folder."""
    shutil.copytree(prepared, graphprep_home, dirs_exist_ok=True)
    return home.cache_path("digits", "flat-2")


def test_help_imports_nothing_heavy() -> None:
    """Guards against a --help that takes seconds because it imports what only a command needs."""
    script = "import sys, cli; print([m for m in ('numpy', 'torch', 'zarr', 'numba', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_trainer_prints_its_own_help() -> None:
    """Guards against `graphprep train --help` that hides the options that matter."""
    done = run("train", "--help")
    assert done.returncode == 0
    assert "--exchange" in done.stdout or "--hidden" in done.stdout


@pytest.mark.slow
def test_fetch_partition_inspect_verify(digits: Path) -> None:
    """Guards against a first hour that ends in an error: each command, run again, finds everything in place."""
    done = run("fetch", "digits", "--json")
    assert json.loads(done.stdout)["reused"] is True
    done = run("partition", "digits", "--parts", "2", "--method", "metis", "--json")
    document = json.loads(done.stdout)
    assert document["reused"] is True
    assert document["cache"] == str(digits)
    document = json.loads(run("inspect", "digits", "--json").stdout)
    assert document["nodes"]["node"]["count"] == 1797
    assert document["edges"]["node__to__node"]["count"] == 19858
    document = json.loads(run("inspect", "digits/flat-2", "--json").stdout)
    for name in ("graphprep_format", "dataset", "topology", "options", "quality", "traffic_rows", "cross_edges"):
        assert name in document
    for name in ("bottleneck_seconds", "sum_seconds", "cut_edges", "halo_rows", "links", "link_types", "ranks"):
        assert name in document["quality"]
    assert np.sum(document["traffic_rows"]) == document["quality"]["halo_rows"]
    assert json.loads(run("verify", "digits", "--json").stdout)["whole"] is True
    assert json.loads(run("verify", "digits/flat-2", "--json").stdout)["whole"] is True
    rows = json.loads(run("list", "--json").stdout)
    assert [row["fetched"] for row in rows if row["name"] == "digits"] == [True]


@pytest.mark.slow
def test_tables_show_the_figures_of_the_json(digits: Path) -> None:
    """Guards against a table that computes its own numbers."""
    document = json.loads(run("inspect", "digits/flat-2", "--json").stdout)
    text = run("inspect", "digits/flat-2").stdout
    for rank in document["quality"]["ranks"]:
        assert f"{rank['nodes']:,}" in text
        assert f"{rank['edges']:,}" in text
    assert f"{document['quality']['cut_edges']:,} of" in text
    text = run("inspect", "digits").stdout
    assert "1,797" in text
    assert "19,858" in text


@pytest.mark.slow
def test_the_page_is_self_contained(digits: Path, tmp_path: Path) -> None:
    """Guards against a page that needs a network, and against numbers that differ from the JSON."""
    page = tmp_path / "report.html"
    done = run("inspect", "digits/flat-2", "--html", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "http" not in text
    assert "<script src" not in text
    quality = json.loads(run("inspect", "digits/flat-2", "--json").stdout)["quality"]
    assert f"{quality['cut_edges']:,}" in text
    for link in quality["links"]:
        assert f"{link['rows']:,}" in text
    assert "leave out --node" in refused(2, "inspect", "digits/flat-2", "--html", page, "--node", "1")
    assert "no file in a folder" in refused(2, "inspect", "digits", "--html", page.parent / "nowhere" / "x.html")
    assert "is about a partition cache" in refused(2, "inspect", "digits", "--row-bytes", "64")


@pytest.mark.slow
def test_dry_run_writes_nothing(digits: Path) -> None:
    """Guards against a dry run that leaves a folder behind."""
    before = sorted(digits.parent.iterdir())
    done = run("partition", "digits", "--parts", "5", "--dry-run", "--json")
    expected = json.loads(done.stdout)
    assert expected["parts"] == 5
    assert expected["memory_bytes"] > 0
    assert sorted(digits.parent.iterdir()) == before


@pytest.mark.slow
def test_an_assignment_made_elsewhere(digits: Path, tmp_path: Path) -> None:
    """Guards against parts that are moved though nobody asked, and against a key that does not know the file."""
    parts = np.arange(1797) % 2
    path, out = tmp_path / "digits.graph.part.2", tmp_path / "cache"
    path.write_text("".join(f"{part}\n" for part in parts))
    words = ["partition", "digits", "--parts", "2", "--assignment", path, "--out", out]
    document = json.loads(run(*words, "--json").stdout)
    assert document["method"] == "assignment"
    assert document["reused"] is False
    assert np.array_equal(PartitionCache(out).assignment("node"), parts)
    assert json.loads(run(*words, "--json").stdout)["reused"] is True
    path.write_text("".join(f"{part}\n" for part in 1 - parts))
    assert "another assignment" in refused(6, *words)
    assert "another assignment" in refused(6, "partition", "digits", "--parts", "2", "--out", out)
    assert "--assignment or --method ldg" in refused(2, *words, "--method", "ldg")
    refined = json.loads(run(*words, "--replace", "--effort", "fast", "--json").stdout)
    assert refined["method"] == "assignment, refined"
    assert refined["quality"]["cut_edges"] < document["quality"]["cut_edges"]
    path.write_text("0\n1\n")
    assert "2 part numbers for 1,797 nodes" in refused(5, *words)


@pytest.mark.slow
def test_export_says_where_and_refuses_in_one_sentence(digits: Path, tmp_path: Path) -> None:
    """Guards against an export that only Python can ask for, and against statuses of other faults."""
    out = tmp_path / "out"
    done = run("export", "digits/flat-2", "--format", "npz", out, "--json")
    document = json.loads(done.stdout)
    assert document["folder"] == str(out)
    assert document["files"] == len(list(out.iterdir())) == 4
    assert "2 parts" in done.stderr
    assert run("export", "digits/flat-2", "--format", "npz", out).stdout.startswith("up to date: ")
    assert "'csv' is unknown" in refused(2, "export", "digits/flat-2", "--format", "csv", out)
    assert "--replace" in refused(2, "export", "digits/flat-2", "--format", "dgl", out)
    assert "graphprep partition" in refused(6, "export", "digits/flat-9", "--format", "npz", tmp_path / "other")


def test_topology_show_can_be_read_back(tmp_path: Path) -> None:
    """Guards against a long form that is not a topology."""
    shown = run("topology", "show", "2x4")
    path = tmp_path / "mine.yaml"
    path.write_text(shown.stdout)
    assert run("topology", "show", path).stdout == shown.stdout
    assert "2x4" in run("topology", "list").stdout
    assert "nvlink" in run("topology", "show", path, "--table").stdout


@pytest.mark.slow
def test_a_cache_of_other_options_is_not_taken_or_overwritten(digits: Path) -> None:
    """Guards against training on a partition that was not asked for, and against losing one that was."""
    before = (digits / "manifest.json").read_bytes()
    sentence = refused(6, "partition", "digits", "--parts", "2", "--method", "ldg", "--seed", "4")
    assert "method metis there, ldg now" in sentence
    assert "seed 0 there, 4 now" in sentence
    assert "--replace" in sentence
    assert (digits / "manifest.json").read_bytes() == before
    done = run("partition", "digits", "--parts", "2", "--method", "ldg", "--seed", "4", "--replace")
    assert done.returncode == 0, done.stderr
    assert (digits / "manifest.json").read_bytes() != before
    assert [path.name for path in digits.parent.iterdir() if path.is_dir()] == ["flat-2"]


@pytest.mark.slow
def test_a_folder_that_is_no_cache_is_never_removed(digits: Path, tmp_path: Path) -> None:
    """Guards against --replace --out that deletes somebody's files."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    for extra in ([], ["--replace"]):
        sentence = refused(6, "partition", "digits", "--parts", "2", "--out", precious, *extra)
        assert "is not a partition cache" in sentence or "is no partition cache" in sentence
    assert (precious / "thesis.tex").read_text() == "years of work"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "words", "expected"),
    [
        (3, ["fetch", "digitss"], "did you mean digits"),
        (3, ["partition", "cora", "--parts", "2"], "graphprep fetch cora"),
        (6, ["inspect", "nowhere/flat-2"], "graphprep partition nowhere"),
        (3, ["inspect", "./no-such-folder"], "no-such-folder"),
        (2, ["partition", "digits"], "--parts K or --topology"),
        (2, ["partition", "digits", "--parts", "2", "--topology", "2x2"], "--parts K or --topology"),
        (2, ["partition", "digits", "--parts", "0"], "--parts 0"),
        (2, ["partition", "digits", "--parts", "2", "--method", "metsi"], "--method 'metsi' is unknown"),
        (2, ["partition", "digits", "--parts", "2", "--imbalance", "0.5"], "--imbalance 0.5"),
        (4, ["partition", "digits", "--topology", "2x5"], "2x"),
        (4, ["topology", "show", "no-such.yaml"], "no-such.yaml"),
        (6, ["train", "digits/flat-9"], "graphprep partition"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(digits: Path, status: int, words: list[str], expected: str) -> None:
    """Guards against tracebacks and against messages that do not say what to do."""
    assert expected in refused(status, *words)


@pytest.mark.slow
def test_statuses_of_processes() -> None:
    """Guards against a sentence without its status, or with a traceback, where the interpreter itself ends."""
    assert "did you mean digits" in refused(3, "fetch", "digitss", runner=run_as_process)
    assert "No such option" in refused(2, "fetch", "--no-such-option", runner=run_as_process)
    done = run_as_process("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")


def test_more_parts_than_nodes(tmp_path: Path) -> None:
    """Guards against ranks without a node, which METIS would make without a word."""
    (tmp_path / "e.txt").write_text("0 1\n1 2\n")
    assert run("import", tmp_path / "e.txt", "--name", "tiny").returncode == 0
    assert "4 parts for 3 nodes" in refused(5, "partition", "tiny", "--parts", "4")


@pytest.mark.slow
def test_a_topology_with_a_link_to_nowhere(tmp_path: Path, digits: Path) -> None:
    """Guards against a topology file whose fault is found only when a route is missing."""
    path = tmp_path / "broken.yaml"
    path.write_text(
        "name: broken\n"
        "ranks:\n"
        "  - {name: a, machine: m0}\n"
        "  - {name: b, machine: m0}\n"
        "switches: [s]\n"
        "links:\n"
        "  - {ends: [a, s], type: pcie, gbytes_per_s: 10, latency_us: 1}\n"
        "  - {ends: [b, t], type: pcie, gbytes_per_s: 10, latency_us: 1}\n"
    )
    sentence = refused(4, "partition", "digits", "--topology", path)
    assert "line 8" in sentence
    assert "'t'" in sentence


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("0 1\n1 zwei\n", [], "line 2"),
        ("0 1\n1 7\n", ["--num-nodes", "3"], "7"),
    ],
)
def test_broken_edge_lists(tmp_path: Path, text: str, options: list[str], expected: str) -> None:
    """Guards against an edge list that is half read, and against errors that do not say where."""
    path = tmp_path / "e.txt"
    path.write_text(text)
    sentence = refused(3, "import", path, "--name", "mine", *options)
    assert expected in sentence
    assert not home.store_path("mine").exists()


@pytest.mark.slow
def test_a_damaged_cache_is_refused_by_everybody(digits: Path) -> None:
    """Guards against a damaged file that inspect, train or a second partition run does not notice."""
    payload = digits / "parts/1/nodes/node/x/c/0/0"
    payload.write_bytes(payload.read_bytes()[:-8])
    name = "parts/1/nodes/node/x/c/0/0"
    assert name in refused(6, "verify", "digits/flat-2")
    assert name in refused(6, "inspect", "digits/flat-2")
    assert name in refused(6, "partition", "digits", "--parts", "2", "--method", "metis")
    done = run("train", "digits/flat-2", "--epochs", "1", "-q")
    assert done.returncode == 6
    assert name in done.stderr
    assert "Traceback" not in done.stderr
    assert run("partition", "digits", "--parts", "2", "--method", "metis", "--replace").returncode == 0
    assert run("verify", "digits/flat-2").returncode == 0


@pytest.mark.slow
def test_a_cache_of_another_format_is_refused(digits: Path) -> None:
    """Guards against a reader, here or in the trainer, that guesses at another format."""
    root = digits / "zarr.json"
    document = json.loads(root.read_text())
    document["attributes"]["graphprep_format"] = 7
    root.write_text(json.dumps(document))
    assert "format 7" in refused(6, "inspect", "digits/flat-2")
    done = run("train", "digits/flat-2", "--epochs", "1", "-q")
    assert done.returncode == 6
    assert "format 7" in done.stderr


def test_debug_shows_the_traceback() -> None:
    """Guards against a bug that cannot be reported."""
    done = run_as_process("fetch", "digitss", "--debug")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


@pytest.mark.slow
def test_quiet_says_nothing_but_the_result(digits: Path) -> None:
    """Guards against progress that cannot be turned off."""
    done = run_as_process("partition", "digits", "--parts", "3", "--method", "random", "-q", "--imbalance", "2")
    assert done.stderr == "" or all(line.startswith("warning:") for line in done.stderr.splitlines())
    assert done.stdout.splitlines()[-1].startswith("wrote: ")
