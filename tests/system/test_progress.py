"""Progress on a log and in silence; the terminal's bar is rich's."""

from __future__ import annotations

import io

import pytest

from graphprep.system import progress


@pytest.fixture(autouse=True)
def loud() -> None:
    progress.configure(quiet=False)


def test_a_log_gets_plain_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against preparation that runs for minutes and says nothing, and against escape codes in a log."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.task("writing", total=2_000_000, unit="B") as task:
        task.advance(500_000)
        task.advance(1_500_000)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "writing: 500.0 kB of 2.0 MB (25 %)"
    assert lines[-1].startswith("writing: done in ")
    assert "\x1b" not in captured.err


def test_work_of_unknown_length_still_says_that_it_lives(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a METIS run of an hour that looks like a hang."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.task("METIS k-way") as task:
        task.advance(0)
    assert "METIS k-way: still running, " in capsys.readouterr().err


def test_quiet_is_silent_but_for_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against -q that hides what must be seen, or shows what need not be."""
    progress.configure(quiet=True)
    with progress.task("writing", total=1) as task:
        task.advance()
    progress.say("hello")
    progress.warn("look out")
    assert capsys.readouterr().err == "warning: look out\n"


def test_a_failed_task_does_not_say_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a log in which what failed is called done."""

    def fail() -> None:
        with progress.task("writing"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "done" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (999, "999 B"), (1234567, "1.2 MB"), (5e9, "5.0 GB"), (7e12, "7.0 TB")]
)
def test_bytes_for_people(amount: float, text: str) -> None:
    """Guards against a factor of a thousand."""
    assert progress.format_bytes(amount) == text


def test_bars_side_by_side_share_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a second bar that cannot start while one is shown, and a display that is never ended."""
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", screen)
    with progress.task("outer", total=2, unit="parts") as outer:
        with progress.task("inner", total=2_000_000, unit="B") as inner:
            inner.advance(2_000_000)
        outer.advance(2)
    assert progress._display._shown is None
    with progress.task("later"):
        pass
    text = screen.getvalue()
    assert "2 of 2 parts (100 %)" in text
    assert "2.0 MB of 2.0 MB (100 %)" in text
    assert "later" in text
