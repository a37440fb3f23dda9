"""Whole runs: what is run and why, what is skipped, and what a failing stage takes along."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from markupsafe import Markup

from graphprep.cache.read import PartitionCache
from graphprep.report import pages
from graphprep.store import sort
from graphprep.store.store import GraphStore
from graphprep.system import home
from graphprep.system.executor import Threads
from pipelines.run.run import RunReport, run_pipeline
from tests.elsewhere import Elsewhere
from tests.end_to_end.test_cli import refused, run

DOCS = Path(__file__).parents[3] / "docs"
SMALL = """\
datasets:
  blocks: {generate: {sbm: {nodes: 300, edges: 900, features: 4, classes: 4, branching: 2}}}
topologies: [2, 3]
partition: {method: random, effort: none}
verify: true
reports: pages
exports: {npz: arrays}
"""
WITHOUT_PAGES = SMALL.replace("reports: pages\n", "")


@pytest.fixture(autouse=True)
def words_in_place_of_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots take most of the time of a page; tests/report looks at them."""
    monkeypatch.setitem(pages.environment().globals, "drawn", lambda name, alt, *_, **__: Markup(f"{name}: {alt}"))


def states(report: RunReport) -> dict[str, str]:
    """What came of each stage."""
    return {step.stage: step.state for step in report.stages}


def run_once(path: Path, text: str) -> Path:
    """A pipeline that has been run."""
    path.write_text(text)
    report = run_pipeline(path)
    assert set(states(report).values()) == {"done"}, report.failure()
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """One of every kind of stage."""
    return run_once(tmp_path / "p.yaml", SMALL)


@pytest.fixture
def smaller(tmp_path: Path) -> Path:
    """One without pages, which take most of the time."""
    return run_once(tmp_path / "p.yaml", WITHOUT_PAGES)


@pytest.mark.slow
def test_the_documented_example(tmp_path: Path) -> None:
    """Guards against a page that shows a pipeline which does not run, or whose caches have other names."""
    text = (DOCS / "pipeline.yaml").read_text()
    shown = [line for line in text.splitlines() if not line.startswith("#")]
    shown = [line.partition(" #")[0].rstrip() for line in shown]
    assert "\n".join(f"    {line}" for line in shown) in (DOCS / "pipelines.md").read_text()
    path = Path(shutil.copy(DOCS / "pipeline.yaml", tmp_path))
    done = run("run", path, "--json", "-q")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {stage["state"] for stage in document["stages"]} == {"done"}
    for name in ("digits/2x2-seed-0", "blocks/flat-3-seed-1"):
        cache = PartitionCache(home.require_cache(name))
        assert cache.attributes["options"]["features"] == "float16"
        assert cache.attributes["options"]["seed"] == int(name[-1])
        assert (tmp_path / "pages" / f"{name}.html").is_file()
        assert (tmp_path / "arrays" / name / "graphprep.json").is_file()
    again = run("run", path)
    assert again.returncode == 0
    rows = [line for line in again.stdout.splitlines()[3:] if line]
    assert len(rows) == len(document["stages"])
    assert all(" up to date " in row for row in rows)


def test_stores_are_made_by_the_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a cluster that only works once the store is there."""
    monkeypatch.setattr(sort, "BYTES_PER_EDGE", 1 << 60)
    (tmp_path / "e.txt").write_text("0 1\n1 2\n")
    path = tmp_path / "p.yaml"
    path.write_text(
        "datasets: {karate: , mine: {import: {edges: [e.txt]}}, blocks: {generate: {grid: {sides: [8, 4]}}}}"
    )
    executor = Elsewhere()
    for step in run_pipeline(path, executor=executor).stages:
        assert step.state == "done"
        GraphStore(step.output).check()
    read = {"_scan_section": 1, "write_section": 3}  # the file's section twice, and one along each axis of the grid
    assert Counter(executor.done) == {**read, "_sorted": 3, "_written": 6}


def test_threads_keep_to_the_memory_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against threads that know only the limit of the command line."""
    seen: list[object] = []
    monkeypatch.setattr("pipelines.run.run.stages_of", lambda *_, executor, **__: seen.append(executor) or ())
    path = tmp_path / "p.yaml"
    path.write_text(SMALL + "memory: 3GB\n")
    run_pipeline(path, executor=Threads(memory_limit=None))
    run_pipeline(path, executor=Threads(memory_limit=4 * 10**9), memory_limit=4 * 10**9)
    assert [executor.memory_limit for executor in seen] == [3 * 10**9, 4 * 10**9]  # type: ignore[attr-defined]


def test_a_dry_run_does_nothing_and_says_what_is_needed(tmp_path: Path) -> None:
    """Guards against a dry run that writes, and against one without figures."""
    path = tmp_path / "p.yaml"
    path.write_text(SMALL)
    report = run_pipeline(path, dry=True)
    assert set(states(report).values()) == {"to run"}
    assert not list(tmp_path.glob("pages*"))
    assert not home.home().exists() or not list(home.home().iterdir())
    by_stage = {step.stage: step for step in report.stages}
    cache = by_stage["partition blocks/flat-2"].expected
    assert cache is not None
    assert min(cache.memory_bytes, cache.disk_bytes, cache.seconds) > 0
    assert by_stage["generate blocks"].expected is not None
    assert report.expected is not None
    assert report.expected.disk_bytes > cache.disk_bytes


@pytest.mark.slow
def test_a_dry_run_foresees_what_a_run_does(small: Path) -> None:
    """Guards against a dry run that announces other stages than those that are then run."""
    assert set(states(run_pipeline(small, dry=True)).values()) == {"up to date"}
    shutil.rmtree(home.cache_path("blocks", "flat-3"))
    foreseen = run_pipeline(small, dry=True)
    to_run = {stage for stage, state in states(foreseen).items() if state == "to run"}
    made_from_it = {f"{word} blocks/flat-3" for word in ("partition", "verify", "report")}
    assert to_run == made_from_it | {"export blocks/flat-3 as npz"}
    done = states(run_pipeline(small))
    # The export finds that the cache made again is the one that it has; so does the page, if that took as long.
    perhaps = {"report blocks/flat-3"}
    found = {stage for stage, state in done.items() if state == "done"}
    assert found - perhaps == to_run - perhaps - {"export blocks/flat-3 as npz"}


@pytest.mark.slow
def test_a_store_that_was_removed_is_made_again_and_its_caches_kept(smaller: Path) -> None:
    """Guards against a key of the store that is known only once it is there."""
    shutil.rmtree(home.store_path("blocks"))
    found = states(run_pipeline(smaller))
    assert [stage for stage, state in found.items() if state != "up to date"] == ["generate blocks"]


@pytest.mark.slow
def test_other_input_is_said_and_replaced_only_if_told(smaller: Path) -> None:
    """Guards against results of older input that pass for new ones, and against silent replacement."""
    smaller.write_text(WITHOUT_PAGES.replace("edges: 900", "edges: 901"))
    report = run_pipeline(smaller)
    assert report.stages[0].state == "failed"
    assert "was made from other files or options; give --replace" in report.stages[0].why
    assert {step.state for step in report.stages[1:]} == {"left out"}
    assert report.exit_status == 3
    foreseen = states(run_pipeline(smaller, dry=True, replace=True))
    replaced = run_pipeline(smaller, replace=True)
    assert states(replaced) == {stage: state.replace("to run", "done") for stage, state in foreseen.items()}
    assert set(states(replaced).values()) == {"done"}, replaced.failure()
    assert GraphStore(home.store_path("blocks")).attributes["source"]["options"]["edges"] == 901
    assert set(states(run_pipeline(smaller, dry=True)).values()) == {"up to date"}
    assert set(states(run_pipeline(smaller, dry=True, replace=True)).values()) == {"to run"}
    before = home.cache_path("blocks", "flat-2").stat().st_ino
    assert set(states(run_pipeline(smaller, replace=True)).values()) == {"done"}
    assert home.cache_path("blocks", "flat-2").stat().st_ino != before


@pytest.mark.slow
def test_other_options_name_what_differs(small: Path) -> None:
    """Guards against a refusal that leaves the user to guess; the other caches are not concerned."""
    small.write_text(SMALL.replace("effort: none", "effort: none, seed: 5"))
    report = run_pipeline(small)
    failed = [step for step in report.stages if step.state == "failed"]
    assert [step.stage for step in failed] == ["partition blocks/flat-2", "partition blocks/flat-3"]
    assert "seed 0 there, 5 now" in failed[0].why
    assert states(report)["report blocks"] == "up to date"


@pytest.mark.slow
def test_a_page_that_was_edited_is_made_again(small: Path) -> None:
    """Guards against taking a page's existence for its content."""
    page = small.parent / "pages/blocks/flat-2.html"
    before = page.read_text()
    page.write_text("mine")
    found = states(run_pipeline(small))
    assert [stage for stage, state in found.items() if state == "done"] == ["report blocks/flat-2"]
    assert len(page.read_text()) == len(before)


@pytest.mark.slow
def test_a_page_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    """Guards against overwriting a file that no pipeline wrote."""
    path = tmp_path / "p.yaml"
    path.write_text(SMALL)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/blocks.html").write_text("mine")
    report = run_pipeline(path)
    assert states(report)["report blocks"] == "failed"
    assert (tmp_path / "pages/blocks.html").read_text() == "mine"


@pytest.mark.slow
def test_a_cache_that_was_touched_is_verified_again(smaller: Path) -> None:
    """Guards against a verification that is taken for one of other bytes: a flipped bit is found."""
    file = next(path for path in home.cache_path("blocks", "flat-2").rglob("*/c/0/0") if path.stat().st_size > 8)
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(bytes(content))
    report = run_pipeline(smaller)
    assert states(report)["verify blocks/flat-2"] == "failed"
    assert states(report)["verify blocks/flat-3"] == "up to date"
    assert report.exit_status == 6


@pytest.mark.slow
def test_a_failing_cell_leaves_the_others_alone(tmp_path: Path) -> None:
    """Guards against a matrix that ends at its first fault, and against one that ends with 0 all the same."""
    path = tmp_path / "p.yaml"
    path.write_text(SMALL.replace("[2, 3]", "[2, 301, 3]"))
    sentence = refused_with_output(path, 5)
    assert sentence.startswith(
        "1 of 14 stages failed (partition blocks/flat-301), and 3 that need them were left out; the first says:"
    )
    found = states(run_pipeline(path, dry=True))
    assert found["partition blocks/flat-301"] == "failed"
    assert found["export blocks/flat-301 as npz"] == "left out"
    assert found["export blocks/flat-3 as npz"] == "up to date"


def refused_with_output(path: Path, status: int) -> str:
    """The sentence at the end of a run that failed; standard output still holds the one document."""
    done = run("run", path, "--json", "-q")
    assert done.returncode == status, done.stderr
    document = json.loads(done.stdout)
    assert document["failed"] == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1].removeprefix("graphprep: error: ")


def test_a_wrong_file_is_one_sentence(tmp_path: Path) -> None:
    """Guards against a traceback or another status than that of configuration files."""
    path = tmp_path / "p.yaml"
    path.write_text(SMALL.replace("verify: true", "verify: perhaps"))
    assert f"{path}, line 5: verify must be a valid boolean" in refused(4, "run", path)


def test_imports_follow_their_files(tmp_path: Path) -> None:
    """Guards against an import that is skipped although its files have changed."""
    edges = tmp_path / "edges.csv"
    edges.write_text("0,1\n1,2\n2,0\n")
    path = tmp_path / "p.yaml"
    path.write_text("datasets: {mine: {import: {edges: [edges.csv]}}}\n")
    assert states(run_pipeline(path)) == {"import mine": "done"}
    assert states(run_pipeline(path)) == {"import mine": "up to date"}
    edges.write_text("0,1\n1,2\n2,1\n")
    assert run_pipeline(path).exit_status == 3
    assert states(run_pipeline(path, replace=True)) == {"import mine": "done"}


def test_a_store_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    """Guards against a dataset's name, or `out`, that costs a store or folder made from something else."""
    edges = tmp_path / "edges.csv"
    edges.write_text("0,1\n1,2\n")
    path = tmp_path / "p.yaml"
    path.write_text("datasets: {karate: {import: {edges: [edges.csv]}}}\n")
    assert states(run_pipeline(path)) == {"import karate": "done"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/precious").write_text("mine")
    path.write_text("datasets:\n  karate:\n  digits: {out: mine}\n")
    for dry in (True, False):
        report = run_pipeline(path, dry=dry, replace=False)
        assert states(report) == {"fetch karate": "failed", "fetch digits": "failed"}, report.to_json()
    assert (tmp_path / "mine/precious").read_text() == "mine"


@pytest.mark.slow
def test_a_store_that_is_there(smaller: Path, tmp_path: Path) -> None:
    """Guards against a pipeline that can only use stores that it has made."""
    path = tmp_path / "other.yaml"
    path.write_text(f"datasets: {{old: {{store: {home.store_path('blocks')}}}}}\ntopologies: [2]\n")
    assert states(run_pipeline(path)) == {"open old": "up to date", "partition old/flat-2": "done"}
    path.write_text("datasets: {old: {store: ./nowhere.zarr}}\ntopologies: [2]\n")
    assert states(run_pipeline(path)) == {"open old": "failed", "partition old/flat-2": "left out"}
