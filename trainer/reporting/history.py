"""The history of a run, a JSON line for each validated epoch: FOLDER/history.jsonl."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.base.atomic import write_whole
from trainer.base.errors import TrainingError
from trainer.reporting.epoch_line import EpochLine

HISTORY = "history.jsonl"

log = logging.getLogger("trainer")


class History:
    """Appends one line a validated epoch, each complete as soon as it is there."""

    def __init__(self, folder: str, *, resumed_after: int | None) -> None:
        """Begin a history, or continue the one that is there.

        Args:
            folder: of the run; it exists.
            resumed_after: the epoch of the checkpoint that the run continues from; lines of later epochs are dropped.
                None drops all.

        Raises:
            TrainingError: it cannot be written.
        """
        self._path, self._is_written = Path(folder, HISTORY), True
        try:
            kept = "" if resumed_after is None else "".join(_lines_until(resumed_after, self._path))
            write_whole(self._path, kept.encode())
        except OSError as error:
            raise TrainingError(
                f"the history {self._path} cannot be written ({error.strerror}); give another --output"
            ) from error

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Append one line. A full disk costs a warning and the lines from there on, not the run."""
        if not self._is_written:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line.to_json(metric), allow_nan=False) + "\n")
        except OSError as error:
            self._is_written = False
            log.warning(
                "the history ends at epoch %d: %s cannot be written (%s)", line.epoch, self._path, error.strerror
            )

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Nothing: every line is there already."""


def _lines_until(epoch: int, path: Path) -> list[str]:
    """The whole lines of a history up to an epoch; none where there is no file."""
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:  # of a run that was ended while it wrote
            continue
        if isinstance(row, dict) and isinstance(row.get("epoch"), int) and row["epoch"] <= epoch:
            kept.append(f"{line}\n")
    return kept
