"""The stages of a pipeline, one after another: what is up to date is skipped, what was cut short goes on.

A stage that fails takes along only the stages that need it. The others are run, and the report says of each stage what
came of it, so that one bad topology in a matrix of forty does not cost a night. Nothing is kept of a run itself: what
is done is seen from the results alone, so a run that is killed is simply run again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from graphprep.errors import GraphprepError, operating_system_sentence
from graphprep.system import memory, progress
from graphprep.system.executor import Executor, Threads
from pipelines.estimate import Expectation
from pipelines.run.config import read_pipeline
from pipelines.run.stages import Stage, stages_of

State = Literal["up to date", "to run", "done", "failed", "left out"]
NO_MEMORY = "memory ran out; give --memory, or use a machine with more of it"


@dataclass(slots=True, kw_only=True)
class Step:
    """What came of one stage, or would come of it."""

    stage: str
    state: State
    why: str
    """why it was run, what went wrong, or what it was left out for; empty if it is up to date"""
    output: str
    """path or URL of its result"""
    expected: Expectation | None = None
    seconds: float | None = None
    """that it took"""
    exit_status: int = 0
    """of what went wrong"""


@dataclass(slots=True, kw_only=True)
class RunReport:
    """What came of all stages, in their order."""

    pipeline: Path
    dry: bool
    steps: list[Step] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0, or that of the first failure."""
        return next((step.exit_status for step in self.steps if step.state == "failed"), 0)

    def failure(self) -> str | None:
        """One sentence on what failed and what was left out; None if nothing did."""
        failed = [step for step in self.steps if step.state == "failed"]
        if not failed:
            return None
        left_out = sum(step.state == "left out" for step in self.steps)
        names = ", ".join(step.stage for step in failed)
        verb = "would fail" if self.dry else "failed"
        rest = f", and {left_out} that need them {'would be' if self.dry else 'were'} left out" if left_out else ""
        first = failed[0].why.rstrip(".")
        return f"{len(failed)} of {len(self.steps)} stages {verb} ({names}){rest}; the first says: {first}"

    @property
    def expected(self) -> Expectation | None:
        """What all stages take that are to be run and of which it is known; None if there are none."""
        known = [step.expected for step in self.steps if step.expected is not None]
        if not known:
            return None
        return Expectation(
            memory_bytes=max(each.memory_bytes for each in known),
            disk_bytes=sum(each.disk_bytes for each in known),
            seconds=sum(each.seconds for each in known),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "pipeline": str(self.pipeline),
            "dry_run": self.dry,
            "failed": sum(step.state == "failed" for step in self.steps),
            "expected": None if self.expected is None else asdict(self.expected),
            "stages": [_without_status(step) for step in self.steps],
        }


def _without_status(step: Step) -> dict[str, Any]:
    return {name: value for name, value in asdict(step).items() if name != "exit_status"}


def run_pipeline(
    path: Path,
    *,
    dry: bool = False,
    replace: bool = False,
    memory_limit: int | None = None,
    executor: Executor | None = None,
) -> RunReport:
    """Run a pipeline, or find out what there is to do.

    Args:
        path: of its file.
        dry: do nothing; the report says what would be done, and what that takes.
        replace: whether results that were made from something else may be replaced.
        memory_limit: bytes that the process may hold, instead of what the file says.
        executor: of the work over ranges of rows and parts; None for threads.

    Raises:
        PipelineError: the file is wrong. What goes wrong in a stage is in the report instead.
    """
    pipeline = read_pipeline(path)
    limit = pipeline.memory_limit if memory_limit is None else memory_limit
    if limit is not None:
        memory.budget(limit)
    if executor is None or not executor.is_elsewhere:
        executor = Threads(memory_limit=limit)  # the file may say another limit than whoever calls
    stages = list(stages_of(pipeline, replace=replace, memory_limit=limit, executor=executor))
    report = RunReport(pipeline=path, dry=dry)
    for number, stage in enumerate(stages, 1):
        step = _foreseen(stage, report.steps) if dry else _run(stage, report.steps, f"[{number} of {len(stages)}]")
        report.steps.append(step)
        memory.give_back()
    return report


def _foreseen(stage: Stage, before: Sequence[Step]) -> Step:
    """What would come of a stage."""
    step = _blocked(stage, before)
    if step is not None:
        return step
    waits = any(step.state == "to run" for step in before if step.stage in stage.needs)
    try:
        reason = "what it needs is made first" if waits and not stage.foresees else stage.reason()
        expected = None if reason is None else stage.expected
    except (GraphprepError, OSError, MemoryError) as error:
        return _failed(stage, error)
    state: State = "up to date" if reason is None else "to run"
    return Step(stage=stage.name, state=state, why=reason or "", output=stage.output, expected=expected)


def _run(stage: Stage, before: Sequence[Step], number: str) -> Step:
    """Do what there is to do."""
    step = _blocked(stage, before)
    if step is not None:
        progress.warn(f"{number} {stage.name} is left out: {step.why}")
        return step
    started = time.monotonic()
    try:
        reason = stage.reason()
        if reason is None:
            progress.say(f"{number} {stage.name}: up to date")
            return Step(stage=stage.name, state="up to date", why="", output=stage.output)
        progress.say(f"{number} {stage.name}: {reason}")
        stage.run()
    except (GraphprepError, OSError, MemoryError) as error:
        step = _failed(stage, error)
        progress.warn(f"{number} {stage.name} failed: {step.why}")
        return step
    seconds = round(time.monotonic() - started, 3)
    return Step(stage=stage.name, state="done", why=reason, output=stage.output, seconds=seconds)


def _blocked(stage: Stage, before: Sequence[Step]) -> Step | None:
    """A stage that cannot be run since one that it needs has failed."""
    for step in before:
        if step.stage in stage.needs and step.state in ("failed", "left out"):
            why = f"{step.stage} {'failed' if step.state == 'failed' else 'was left out'}"
            return Step(stage=stage.name, state="left out", why=why, output=stage.output)
    return None


def _failed(stage: Stage, error: Exception) -> Step:
    if isinstance(error, GraphprepError):
        why, status = str(error), error.exit_status
    elif isinstance(error, OSError):
        why, status = operating_system_sentence(error), 1
    else:
        why, status = NO_MEMORY, 1
    return Step(stage=stage.name, state="failed", why=why, output=stage.output, exit_status=status)
