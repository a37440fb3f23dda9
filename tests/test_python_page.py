"""docs/python.md says what happens: its examples are run."""

from __future__ import annotations

import doctest
from pathlib import Path

from graphprep.partition.request import PartitionRequest
from pipelines.ingest import fetch_dataset
from pipelines.partition import plan_partition, run_partition

PAGE = Path(__file__).parent.parent / "docs" / "python.md"


def test_the_examples_are_true() -> None:
    """Guards against a page that shows names, shapes or errors of another release."""
    fetch_dataset("digits", mirror=None)
    request = PartitionRequest(method="random", effort="none")
    run_partition(plan_partition("digits", parts=None, topology="2x2", request=request, out=None))
    found = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted > 20
    assert found.failed == 0
