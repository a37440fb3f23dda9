"""The programs that a run's options give its epochs to."""

from __future__ import annotations

from dataclasses import asdict

from trainer.config.options import Options
from trainer.reporting.report import Report
from trainer.reporting.tensorboard import Curves
from trainer.reporting.trackers import MlflowTracker, WandbTracker


def add_trackers(report: Report, options: Options) -> None:
    """Give every line of the report to TensorBoard, W&B and MLflow, where the options name them.

    Raises:
        OptionError: one of them is not installed.
        TrainingError: its folder cannot be written to.
    """
    if options.tensorboard is not None:
        report.add_listener(Curves(options.tensorboard))
    if options.wandb is not None:
        report.add_listener(WandbTracker(options.wandb, asdict(options)))
    if options.mlflow is not None:
        report.add_listener(MlflowTracker(options.mlflow, asdict(options)))
