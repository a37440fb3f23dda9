"""What a run prints: log lines on standard error, JSON lines or a short result on standard output."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TextIO

from trainer.base.printable import printable

log = logging.getLogger("trainer")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """One validated epoch. Seconds and bytes are those since the line before, the bytes of all ranks together."""

    epoch: int
    loss: float
    """Mean over the training nodes, in training mode."""
    val: float | None
    """The metric of the validation nodes; None where it is not defined, for instance without validation nodes."""
    others: Mapping[str, float | None] = field(default_factory=dict)
    """Further metrics of the validation, by their names in JSON."""
    seconds: float
    bytes_sent: int
    """All that left a rank: the sum of the three below."""
    row_bytes_sent: int
    """Rows and their gradients."""
    weight_bytes_sent: int
    """Weights and their gradients."""
    other_bytes_sent: int
    bytes_skipped: int
    """Of rows."""


class Curves(Protocol):
    """What draws curves of the lines."""

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Draw one line; `metric` names its `val`."""


class Report:
    """Prints the lines of a run, on one rank."""

    def __init__(self, *, speaks: bool, as_json: bool, output: TextIO | None = None) -> None:
        self._speaks, self._as_json, self._metric = speaks, as_json, "accuracy"
        self._output = sys.stdout if output is None else output
        self._lines = 0
        self._curves: Curves | None = None

    def add_curves(self, curves: Curves) -> None:
        """From now on also draw every line."""
        self._curves = curves

    def set_metric(self, metric: str) -> None:
        """Set the metric of `val` and `test`: a name as in JSON."""
        self._metric = metric

    def epoch(self, line: EpochLine) -> None:
        """Print one validated epoch."""
        if not self._speaks:
            return
        if self._lines == 0:
            log.info("epoch      loss  %12s   seconds   rows sent  weights sent    skipped", f"val {self._metric}")
        self._lines += 1
        log.info(
            "%5d  %8.4f  %12s  %8.3f  %10s  %12s %10s",
            line.epoch,
            line.loss,
            format_metric(line.val, self._metric),
            line.seconds,
            format_bytes(line.row_bytes_sent),
            format_bytes(line.weight_bytes_sent),
            format_bytes(line.bytes_skipped),
        )
        if self._curves is not None:
            self._curves.epoch(line, self._metric)
        if self._as_json:
            self._print(json.dumps(named(line, self._metric), allow_nan=False))

    def result(self, result: Mapping[str, Any]) -> None:
        """Print the result."""
        if not self._speaks:
            return
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
            f"rows skipped {format_bytes(result['bytes_skipped'])}\n"
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

    def _print(self, text: str) -> None:
        if not self._as_json and self._output.isatty():
            width = shutil.get_terminal_size().columns
            text = "\n".join(wrap_line(line, width) for line in text.splitlines())
        # DEL is the one control character that JSON leaves as it is
        text = text.replace("\x7f", "\\u007f") if self._as_json else printable(text)
        print(text, file=self._output, flush=True)


def named(line: EpochLine, metric: str) -> dict[str, Any]:
    """The line as JSON has it: `val` under its metric's name, in its place, and the further metrics after it."""
    fields: dict[str, Any] = {}
    for name, value in asdict(line).items():
        fields |= value if name == "others" else {f"val_{metric}" if name == "val" else name: value}
    return fields


def wrap_line(text: str, width: int) -> str:
    """`text` in lines of at most `width` columns, broken between words; a number stays with its unit."""
    if len(text) <= width:
        return text
    firm = re.sub(r"(\d) (%|[kMGT]?B|s)(?!\w)", "\\1\u00a0\\2", text)
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = textwrap.wrap(firm, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\u00a0", " ")


def format_metric(value: float | None, metric: str) -> str:
    """A metric's value as people read it: a share of 0.8154 is '81.54 %', an error stays a number."""
    if value is None:
        return "-"
    return f"{value:.5g}" if metric in ("mse", "mae") else f"{100 * value:.2f} %"


def format_bytes(number: float) -> str:
    """Bytes with a decimal prefix: 1_234_567 is '1.2 MB'."""
    for prefix in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000:
            return f"{number:.0f} B" if prefix == "B" else f"{number:.1f} {prefix}"
        number /= 1000
    return f"{number:.1f} TB"
