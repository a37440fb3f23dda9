"""Traces."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from trainer.__main__ import main
from trainer.base.errors import TrainingError
from trainer.reporting.trace import prepare_traces, write_trace


def test_spans_become_complete_events_in_microseconds(tmp_path: Path) -> None:
    """The viewers take times for microseconds, and drop events without a duration in silence."""
    folder = tmp_path / "new" / "traces"
    prepare_traces(str(folder))
    write_trace(str(folder), 3, [("waiting", 10.5, 10.75)], start=10.0)
    document = json.loads((folder / "rank-3.json").read_text())
    [event] = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert event == {"name": "waiting", "ph": "X", "pid": 3, "tid": 0, "ts": 500_000.0, "dur": 250_000.0}


def test_a_folder_that_cannot_be_is_refused_before_training(tmp_path: Path) -> None:
    """A run of hours must not end with a traceback where its trace should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match="trace folder"):
        prepare_traces(str(tmp_path / "file"))
    with pytest.raises(TrainingError, match="cannot be written"):
        write_trace(str(tmp_path / "none"), 0, [], start=0.0)


def test_a_run_leaves_its_trace(tmp_path: Path, caches: dict[tuple[str, int], Path]) -> None:
    """An option that is parsed and dropped; spans that overlap, so that seconds are counted twice."""
    arguments = [str(caches["undirected", 1]), "--epochs", "3", "-q", "--trace", str(tmp_path / "t")]
    assert main(arguments) == 0
    events = json.loads((tmp_path / "t" / "rank-0.json").read_text())["traceEvents"]
    spans = sorted((event["ts"], event["dur"]) for event in events if event["ph"] == "X")
    assert {"local product", "dense product"} <= {event["name"] for event in events}
    assert all(begin + length <= later + 1e-3 for (begin, length), (later, _) in pairwise(spans))
    assert spans[0][0] >= 0
