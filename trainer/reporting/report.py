"""What a run prints: log lines on standard error, JSON lines or a short result on standard output."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Any, TextIO

from trainer.base.printable import printable
from trainer.reporting.epoch_line import EpochLine, EpochListener
from trainer.reporting.epoch_view import EpochView, Expectation, LogLines
from trainer.reporting.formats import format_bytes, format_metric


class Report:
    """Prints the lines of a run, on one rank."""

    def __init__(
        self, *, speaks: bool, as_json: bool, output: TextIO | None = None, view: EpochView | None = None
    ) -> None:
        """Print nothing yet.

        Args:
            speaks: whether this rank prints at all.
            as_json: JSON lines on standard output.
            output: in place of standard output.
            view: shows the epochs; lines of the log without one.
        """
        self._speaks, self._as_json, self._metric = speaks, as_json, "accuracy"
        self._output = sys.stdout if output is None else output
        self._view = LogLines() if view is None else view
        self._listeners: list[EpochListener] = []
        self._has_ended = False

    def add_listener(self, listener: EpochListener) -> None:
        """From now on also give every line to `listener`."""
        self._listeners.append(listener)

    def set_metric(self, metric: str) -> None:
        """Set the metric of `val` and `test`: a name as in JSON."""
        self._metric = metric

    def expect(self, expectation: Expectation) -> None:
        """Say how long the run may go on."""
        self._view.expect(expectation)

    def epoch(self, line: EpochLine) -> None:
        """Print one validated epoch."""
        if not self._speaks:
            return
        self._view.epoch(line, self._metric)
        for listener in self._listeners:
            listener.epoch(line, self._metric)
        if self._as_json:
            self._print(json.dumps(line.to_json(self._metric), allow_nan=False))

    def finish(self) -> None:
        """Show epochs that are not shown yet, and tell the listeners that there is no more; also after an error."""
        self._end(None)

    def result(self, result: Mapping[str, Any]) -> None:
        """Print the result."""
        if not self._speaks:
            return
        self._end(result)
        if self._as_json:
            self._print(json.dumps(result, allow_nan=False))
            return
        self._print(
            f"test {self._metric.replace('_', ' ')} {format_metric(result[f'test_{self._metric}'], self._metric)}, "
            f"validation {format_metric(result[f'val_{self._metric}'], self._metric)} "
            f"(best epoch {result['best_epoch']} of {result['epochs']})\n"
            f"{result['seconds']:.2f} s after {result['setup_seconds']:.2f} s of preparation on {result['ranks']} "
            f"rank(s), {result['device']}\n"
            f"sent {format_bytes(result['bytes_sent'])}: rows {format_bytes(result['row_bytes_sent'])}, weights "
            f"{format_bytes(result['weight_bytes_sent'])}, other {format_bytes(result['other_bytes_sent'])}; "
            f"rows skipped {format_bytes(result['bytes_skipped'])}"
        )
        if "bytes_exact_boundary" in result:
            self._print(
                "in fp32 and without kept copies the rows that peers need are "
                f"{format_bytes(result['bytes_exact_boundary'])}, "
                f"whole blocks {format_bytes(result['bytes_whole_block_broadcast'])}"
            )
        others = {name: value for name, value in result.items() if name.startswith("test_")}
        del others[f"test_{self._metric}"]
        if others:
            values = (f"{name.removeprefix('test_')} {format_metric(value, name)}" for name, value in others.items())
            self._print(f"  other metrics of the test: {', '.join(values)}")
        for row in result["sent_for"]:
            if row["kind"] != "rows":
                self._print(f"  {row['purpose']:24}  sent {format_bytes(row['bytes_sent']):>10}")
        for row in result["exchanges"]:
            self._print(
                f"  layer {row['layer']} {row['direction']:8}  width {row['width']:5}  "
                f"sent {format_bytes(row['bytes_sent']):>10}  skipped {format_bytes(row['bytes_skipped']):>10}"
            )
        for row in result["link_types"]:
            self._print(
                f"  rows over {row['link_type']:15}  sent {format_bytes(row['bytes_sent']):>10}  "
                f"skipped {format_bytes(row['bytes_skipped']):>10}"
            )
        for rank, seconds in enumerate(result["seconds_by_rank"]):
            if seconds:
                activities = ", ".join(f"{name} {number:.2f} s" for name, number in sorted(seconds.items()))
                self._print(f"  rank {rank}: {activities}")

    def _end(self, result: Mapping[str, Any] | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._view.finish()
        for listener in self._listeners:
            listener.end(result)

    def _print(self, text: str) -> None:
        if not self._as_json and self._output.isatty():
            width = shutil.get_terminal_size().columns
            text = "\n".join(wrap_line(line, width) for line in text.splitlines())
        # DEL is the one control character that JSON leaves as it is
        text = text.replace("\x7f", "\\u007f") if self._as_json else printable(text)
        print(text, file=self._output, flush=True)


def wrap_line(text: str, width: int) -> str:
    """`text` in lines of at most `width` columns, broken between words; a number stays with its unit."""
    if len(text) <= width:
        return text
    firm = re.sub(r"(\d) (%|[kMGT]?B|s)(?!\w)", "\\1\u00a0\\2", text)
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = textwrap.wrap(firm, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\u00a0", " ")
