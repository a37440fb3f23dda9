"""A run's result on a terminal: no line is wider than it, and no number is broken."""

from __future__ import annotations

import io

import pytest

from trainer.reporting.report import Report, wrap_line


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


RESULT = {
    "test_accuracy": 0.8154,
    "val_accuracy": 0.7981,
    "best_epoch": 143,
    "epochs": 200,
    "seconds": 12.345,
    "setup_seconds": 3.21,
    "ranks": 4,
    "device": "cpu",
    "bytes_sent": 123_456_789,
    "row_bytes_sent": 100_000_000,
    "weight_bytes_sent": 23_000_000,
    "other_bytes_sent": 456_789,
    "sent_for": [],
    "bytes_skipped": 987_654_321,
    "bytes_exact_boundary": 1_111_111_110,
    "bytes_whole_block_broadcast": 44_444_444_444,
    "exchanges": [
        {"layer": 2, "direction": "backward", "width": 128, "bytes_sent": 123_456, "bytes_skipped": 7_654_321}
    ],
    "link_types": [{"link_type": "network", "bytes_sent": 123_456, "bytes_skipped": 7_654_321}],
    "seconds_by_rank": [
        {
            "exchange": 1.25,
            "computing": 10.5,
            "waiting for peers": 0.75,
            "weights": 0.5,
            "validation": 1.5,
            "saving checkpoints": 0.25,
        }
    ]
    * 4,
}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_result_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Guards against lines that the terminal breaks in the middle of a number."""
    monkeypatch.setenv("COLUMNS", str(width))
    piped, shown = io.StringIO(), Terminal()
    for file in (piped, shown):
        Report(speaks=True, as_json=False, output=file).result(RESULT)
    assert max(map(len, shown.getvalue().splitlines())) <= width
    assert shown.getvalue().split() == piped.getvalue().split()
    for whole in ("81.54 %", "123.5 MB", "1.1 GB", "44.4 GB", "10.50 s"):
        assert whole in shown.getvalue()
    assert any(len(line) > 120 for line in piped.getvalue().splitlines())


def test_other_metrics_are_shown() -> None:
    """Guards against figures of a link prediction that only --json has."""
    shown = io.StringIO()
    Report(speaks=True, as_json=False, output=shown).result(RESULT | {"test_mrr": 0.25, "test_hits@10": None})
    assert "other metrics of the test: mrr 25.00 %, hits@10 -\n" in shown.getvalue()
    plain = io.StringIO()
    Report(speaks=True, as_json=False, output=plain).result(RESULT)
    assert "other metrics" not in plain.getvalue()


def test_json_is_never_wrap_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a JSON line that becomes several on a terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    shown = Terminal()
    Report(speaks=True, as_json=True, output=shown).result(RESULT)
    assert len(shown.getvalue().splitlines()) == 1


def test_short_lines_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against columns that lose their spaces where nothing has to be broken."""
    assert wrap_line("  layer 1 forward   width   128", 40) == "  layer 1 forward   width   128"
