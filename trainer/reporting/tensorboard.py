"""Curves for TensorBoard, where its package is installed; nothing else of the trainer needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.base.errors import OptionError, TrainingError
from trainer.reporting.epoch_line import EpochLine


class Curves:
    """Writes one point a validated epoch for each number of its line."""

    def __init__(self, folder: str) -> None:
        """Open the folder.

        Raises:
            OptionError: TensorBoard is not installed.
            TrainingError: the folder cannot be written to.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise OptionError(
                "--tensorboard needs the package tensorboard, which is not installed here; "
                "install it with pip install tensorboard, or leave the option out"
            ) from error
        try:
            self._writer: Any = SummaryWriter(folder)
        except OSError as error:
            raise TrainingError(
                f"--tensorboard {folder} cannot be written to ({error.strerror}); give another"
            ) from error

    def epoch(self, line: EpochLine, metric: str) -> None:
        """Draw one line; `metric` names its `val`."""
        for name, value in line.numbers(metric).items():
            if name != "epoch" and value is not None:
                self._writer.add_scalar(name, value, line.epoch)
        self._writer.flush()

    def end(self, result: Mapping[str, Any] | None) -> None:  # noqa: ARG002 - points are all that is drawn
        """Close the files."""
        self._writer.close()
