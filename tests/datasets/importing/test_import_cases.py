"""The small inputs beside the real data sets, each read as its manifest says, by the manifest's own checker."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

CASES = (
    *("tsv-names-with-spaces", "tab-names-with-commas", "tuple-names", "hashtag-words", "hash-ids-in-csv"),
    *("percent-words", "triples", "quoted-words-space", "semicolon-quoted-comma", "quoted-line-feed"),
    *("id-column-numbers-as-words", "id-column-dates-as-words", "unnamed-index-column", "r-write-csv"),
    *("header-shorter-than-rows", "time-column-first", "weight-column-first-parquet", "third-column-unsaid"),
    *("features-all-quoted", "features-bom-one-column", "features-integer-names", "labels-integer-name"),
    *("train-integer-name", "edges-integer-names", "features-index-column", "parquet-pandas-index"),
    *("parquet-list-features", "labels-multi-csv", "labels-quoted", "mask-true-false-csv", "konect-bipartite"),
    "konect-weights-only",
)


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    """check.py of the cases, whose commands run in this process."""
    data = os.environ.get("GRAPHPREP_TEST_DATA")
    place = Path(data).parent / "cases" / "imports" / "check.py" if data else None
    if place is None or not place.exists():
        pytest.skip("the cases of imports are not beside GRAPHPREP_TEST_DATA")
    spec = importlib.util.spec_from_file_location("import_cases_check", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_here(words: list[str], **options: Any) -> SimpleNamespace:
    """In place of subprocess.run: the command line in this process, for `timeout ... graphprep WORDS`."""
    from cli import main

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(options["cwd"])
        patch.setenv("GRAPHPREP_HOME", options["env"]["GRAPHPREP_HOME"])
        result = CliRunner().invoke(main, words[5:])
    return SimpleNamespace(returncode=result.exit_code, stderr=result.stderr, stdout=result.stdout)


@pytest.mark.parametrize("name", CASES)
def test_case(checker: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against what other tools' users have met: rows, names or columns that are taken for something else."""
    monkeypatch.setattr(checker, "subprocess", SimpleNamespace(run=run_here, DEVNULL=None))
    cases = json.loads((checker.HERE / "manifest.json").read_text())
    case = next(case for case in cases if case["name"] == name)
    passed, why = checker.run(case)
    assert passed, why
