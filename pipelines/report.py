"""The page of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphprep.interop.training_run import PAGE, TrainingRun
from graphprep.report.pages import run_page
from graphprep.report.summary.run_summary import run_summary
from graphprep.system.files.output_path import checked_file
from pipelines.look import write_page


def report_run(run: Path | TrainingRun, output: Path | None = None) -> tuple[dict[str, Any], Path]:
    """Write the page of a run.

    Args:
        run: the folder that `train --output` made, or the run.
        output: the page; None for report.html in the folder.

    Returns:
        The figures of the page, as `--json` prints them, and its path.

    Raises:
        TrainingError: there is no finished run.
        UsageError: the page cannot be written there.
    """
    opened = run if isinstance(run, TrainingRun) else TrainingRun(run)
    target = checked_file(opened.folder / PAGE if output is None else output, called="--output")
    summary = run_summary(opened)
    write_page(run_page(summary), target)
    return summary, target
