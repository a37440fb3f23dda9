"""Epochs on a terminal, in place, and in a log, line by line."""

from __future__ import annotations

import io
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache, random_graph
from trainer.__main__ import main
from trainer.reporting import epoch_view
from trainer.reporting.epoch_line import EpochLine, LinkTraffic, RankUsage
from trainer.reporting.epoch_view import Expectation, LogLines
from trainer.reporting.formats import format_seconds
from trainer.reporting.live_view import LiveView, log_above

log = logging.getLogger("trainer")


class Screen(io.StringIO):
    """A terminal that knows what the view uses: line ends, cursor up, and erasing what is below."""

    def isatty(self) -> bool:
        return True

    def __init__(self) -> None:
        super().__init__()
        self.lines, self.row, self.column = [""], 0, 0

    def write(self, text: str) -> int:
        for piece in re.findall(r"\x1b\[\d*[A-Z]|\r|\n|[^\x1b\r\n]+|\x1b", text):
            if piece == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif piece == "\r":
                self.column = 0
            elif piece == "\x1b[J":
                self.lines[self.row :] = [self.lines[self.row][: self.column]]
            elif piece.startswith("\x1b"):
                assert piece.endswith("A"), piece
                self.row -= int(piece[2:-1])
                assert self.row >= 0
            else:
                before = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = before[: self.column] + piece + before[self.column + len(piece) :]
                self.column += len(piece)
        return len(text)


def line(epoch: int, val: float | None = 0.5) -> EpochLine:
    ranks = [
        RankUsage(
            rank=rank,
            seconds=2.0,
            compute_seconds=1.0,
            exchange_seconds=0.5 + rank,
            waiting_seconds=0.25,
            exchange_seconds_by_link_type={"network": 0.5, "nvlink": float(rank)},
            memory_bytes=1_000_000 * (rank + 1),
        )
        for rank in (0, 1)
    ]
    links = [LinkTraffic(layer=layer, direction="forward", link_type="network", bytes_sent=400) for layer in (1, 2)]
    return EpochLine(
        epoch=epoch,
        loss=1.25,
        val=val,
        seconds=2.0,
        bytes_sent=1600,
        row_bytes_sent=800,
        weight_bytes_sent=500,
        other_bytes_sent=300,
        bytes_skipped=100,
        ranks=ranks,
        links=links,
    )


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("trainer.reporting.live_view._SECONDS_BETWEEN", 0.0)
    return Screen()


def test_figures_are_rewritten_in_place(screen: Screen) -> None:
    """Guards against a view that scrolls, that has numbers of two epochs as those of one, or another's rank."""
    view = LiveView(screen)
    view.expect(Expectation(epochs=10, epochs_before=2, may_stop_early=True))
    for epoch, val in ((4, 0.5), (6, 0.75), (8, 0.7)):
        view.epoch(line(epoch, val), "accuracy")
        assert screen.row == screen.column == 0
        assert len(screen.lines) == 6
    assert screen.lines == [
        "",
        "epoch       8 of at most 10, loss 1.2500, val accuracy 70.00 %, the best 75.00 % in epoch 6",
        "an epoch    1.00 s: computing 500.0 ms, exchange 500.0 ms (network 250.0 ms, nvlink 250.0 ms), "
        "waiting 125.0 ms",
        "sent        800 B an epoch: rows 400 B (network 400 B), weights 250 B, other 150 B; rows skipped 50 B",
        "memory      2.0 MB on rank 1, the most; 0: 1.0 MB, 1: 2.0 MB",
        "time left   at most 2.00 s",
    ]
    view.finish()
    assert screen.lines[0].startswith("epoch       8 of")
    assert screen.lines[-2:] == ["memory      2.0 MB on rank 1, the most; 0: 1.0 MB, 1: 2.0 MB", ""]
    assert screen.row == len(screen.lines) - 1


def test_an_error_metric_is_best_where_it_is_least(screen: Screen) -> None:
    """Guards against the worst epoch as the best, and against a metric that is not defined."""
    view = LiveView(screen)
    view.expect(Expectation(epochs=4))
    for epoch, val in ((1, 0.5), (2, 0.25), (3, None)):
        view.epoch(line(epoch, val), "mse")
    assert screen.lines[1] == "epoch       3 of 4, loss 1.2500, val mse -, the best 0.25 in epoch 2"


def test_nothing_that_others_print_is_lost(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an error of another rank, or a warning of this one, that the figures overwrite."""
    handler = logging.StreamHandler(screen)
    monkeypatch.setattr(log, "handlers", [handler])
    view = LiveView(screen)
    view.expect(Expectation(epochs=9))
    with log_above(view):
        view.epoch(line(1), "accuracy")
        log.warning("a warning of this rank")
        view.epoch(line(2), "accuracy")
        screen.write("rank 3: an error of another process\n")
        view.epoch(line(3), "accuracy")
        log.warning("one more")
        view.finish()
    assert handler.stream is screen
    assert [text[:12] for text in screen.lines] == [
        "a warning of",
        "rank 3: an e",
        "one more",
        *("epoch       ", "an epoch    ", "sent        ", "memory      "),
        "",
    ]


def test_no_line_is_wider_than_the_terminal(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against lines that take two rows, so that the cursor does not come back to the first."""
    monkeypatch.setenv("COLUMNS", "40")
    view = LiveView(screen)
    view.epoch(line(1), "accuracy")
    assert max(map(len, screen.lines)) == 39


def test_a_run_on_a_terminal_and_in_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against control characters in a log, and against figures for those who asked for quiet or JSON."""
    cache = str(make_cache(tmp_path / "cache", random_graph(seed=3), np.zeros(60, int), 1))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    shown = {}
    for words in ("", "-q", "--json", "--debug"):
        screen = Screen()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", screen)
            assert main([cache, "--epochs", "3", *words.split()]) == 0
        shown[words] = screen.lines
    capsys.readouterr()
    assert [text for text in shown[""] if text.startswith("epoch       3 of at most 3, loss")]
    assert not [text for text in shown[""] if text.startswith("time left")]
    assert not any(text.startswith("rank 0:     3") for text in shown[""])
    assert shown["-q"] == [""]
    for words in ("--json", "--debug"):
        assert not any(text.startswith("epoch") for text in shown[words])
        assert any(text.startswith("rank 0:     3") for text in shown[words])
    assert main([cache, "--epochs", "3"]) == 0
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\r" not in said
    assert [text[:13] for text in said.splitlines()][-2:] == ["rank 0:     1", "rank 0:     3"]


def test_a_log_has_a_line_at_intervals(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Guards against a log of thousands of lines, and against seconds and bytes of the epochs that have no line."""
    now = [100.0]
    monkeypatch.setattr(epoch_view, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(log, "propagate", True)
    monkeypatch.setattr(log, "handlers", [])
    lines = LogLines()
    with caplog.at_level(logging.INFO, logger="trainer"):
        for epoch in range(1, 8):
            lines.epoch(line(epoch), "accuracy")
            now[0] += 0.4
        lines.finish()
        lines.finish()
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0].split()[:4] == ["epoch", "loss", "val", "accuracy"]
    assert [int(text.split()[0]) for text in texts[1:]] == [1, 4, 7]
    assert texts[2].split()[2:] == ["50.00", "%", "6.000", "2.4", "kB", "1.5", "kB", "300", "B"]


def test_seconds_of_all_sizes() -> None:
    """Guards against 60 s beside whole minutes."""
    texts = [format_seconds(value) for value in (0.0123, 1.5, 59.99, 59.999, 61.0, 3599.7, 7384.0)]
    assert texts == ["12.3 ms", "1.50 s", "59.99 s", "60.00 s", "1 min 01 s", "1 h 00 min", "2 h 03 min"]
