"""The pages of docs/ that show Python say what happens: their examples are run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from graphprep.partition.request import PartitionRequest
from pipelines.export import export_cache
from pipelines.ingest import fetch_dataset
from pipelines.partition import plan_partition, run_partition

DOCS = Path(__file__).parents[2] / "docs"
PAGES_WITH_EXAMPLES = {"python.md": 20, "export.md": 5}
"""pages whose lines that begin with >>> are run, and more than how many of them there are"""


@pytest.mark.parametrize(
    ("page", "least"),
    [pytest.param("python.md", PAGES_WITH_EXAMPLES["python.md"], marks=pytest.mark.slow)]
    + [(page, least) for page, least in PAGES_WITH_EXAMPLES.items() if page != "python.md"],
)
def test_the_examples_are_true(page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a page that shows names, shapes or errors of another release."""
    fetch_dataset("digits", mirror=None)
    request = PartitionRequest(method="random", effort="none")
    run_partition(plan_partition("digits", parts=None, topology="2x2", request=request, out=None))
    monkeypatch.chdir(tmp_path)
    export_cache("digits/2x2", Path("OUT"), format_name="npz")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=options)
    assert found.attempted > least
    assert found.failed == 0
