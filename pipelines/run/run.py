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
from pipelines.estimate import Estimate
from pipelines.run.config import read_pipeline
from pipelines.run.stages import Stage, stages_of

State = Literal["up to date", "to run", "done", "failed", "left out"]
NO_MEMORY = "memory ran out; give --memory, or use a machine with more of it"


@dataclass(slots=True, kw_only=True)
class StageReport:
    """What came of one stage, or would come of it."""

    stage: str
    state: State
    why: str
    """why it was run, what went wrong, or what it was left out for; empty if it is up to date"""
    output: str
    """path or URL of its result"""
    expected: Estimate | None = None
    seconds: float | None = None
    """that it took"""
    exit_status: int = 0
    """of what went wrong"""

    @classmethod
    def of(cls, stage: Stage, state: State, why: str = "", **facts: Any) -> StageReport:
        """The report of a stage, with `facts` by the names of the fields."""
        return cls(stage=stage.name, state=state, why=why, output=str(stage.step.target), **facts)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {name: value for name, value in asdict(self).items() if name != "exit_status"}


@dataclass(slots=True, kw_only=True)
class RunReport:
    """What came of all stages, in their order."""

    pipeline: Path
    dry: bool
    stages: list[StageReport] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0, or that of the first failure."""
        return next((stage.exit_status for stage in self.stages if stage.state == "failed"), 0)

    def failure(self) -> str | None:
        """One sentence on what failed and what was left out; None if nothing did."""
        failed = [stage for stage in self.stages if stage.state == "failed"]
        if not failed:
            return None
        left_out = sum(stage.state == "left out" for stage in self.stages)
        names = ", ".join(stage.stage for stage in failed)
        verb = "would fail" if self.dry else "failed"
        rest = f", and {left_out} that need them {'would be' if self.dry else 'were'} left out" if left_out else ""
        first = failed[0].why.rstrip(".")
        return f"{len(failed)} of {len(self.stages)} stages {verb} ({names}){rest}; the first says: {first}"

    @property
    def expected(self) -> Estimate | None:
        """What all stages take that are to be run and of which it is known; None if there are none."""
        known = [stage.expected for stage in self.stages if stage.expected is not None]
        if not known:
            return None
        return Estimate(
            memory_bytes=max(each.memory_bytes for each in known),
            disk_bytes=sum(each.disk_bytes for each in known),
            seconds=sum(each.seconds for each in known),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "pipeline": str(self.pipeline),
            "dry_run": self.dry,
            "failed": sum(stage.state == "failed" for stage in self.stages),
            "expected": None if self.expected is None else asdict(self.expected),
            "stages": [stage.to_json() for stage in self.stages],
        }


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
    stages = list(stages_of(pipeline, replace_other=replace, memory_limit=limit, executor=executor))
    report = RunReport(pipeline=path, dry=dry)
    for number, stage in enumerate(stages, 1):
        where = f"[{number} of {len(stages)}]"
        report.stages.append(_dry_run(stage, report.stages) if dry else _run(stage, report.stages, where))
        memory.give_back()
    return report


def _dry_run(stage: Stage, before: Sequence[StageReport]) -> StageReport:
    """What would come of a stage."""
    blocked = _blocked(stage, before)
    if blocked is not None:
        return blocked
    waits = any(earlier.state == "to run" for earlier in before if earlier.stage in stage.needs)
    try:
        reason = "what it needs is made first" if waits and not stage.foresees else stage.reason()
        if reason is None:
            return StageReport.of(stage, "up to date")
        return StageReport.of(stage, "to run", reason, expected=stage.step.estimate)
    except (GraphprepError, OSError, MemoryError) as error:
        return _failed(stage, error)


def _run(stage: Stage, before: Sequence[StageReport], number: str) -> StageReport:
    """Do what there is to do."""
    blocked = _blocked(stage, before)
    if blocked is not None:
        progress.warn(f"{number} {stage.name} is left out: {blocked.why}")
        return blocked
    started = time.monotonic()
    try:
        reason = stage.reason()
        if reason is None:
            progress.say(f"{number} {stage.name}: up to date")
            return StageReport.of(stage, "up to date")
        progress.say(f"{number} {stage.name}: {reason}")
        stage.run()
    except (GraphprepError, OSError, MemoryError) as error:
        failed = _failed(stage, error)
        progress.warn(f"{number} {stage.name} failed: {failed.why}")
        return failed
    return StageReport.of(stage, "done", reason, seconds=round(time.monotonic() - started, 3))


def _blocked(stage: Stage, before: Sequence[StageReport]) -> StageReport | None:
    """The report of a stage that cannot be run since one that it needs has failed."""
    for earlier in before:
        if earlier.stage in stage.needs and earlier.state in ("failed", "left out"):
            why = f"{earlier.stage} {'failed' if earlier.state == 'failed' else 'was left out'}"
            return StageReport.of(stage, "left out", why)
    return None


def _failed(stage: Stage, error: Exception) -> StageReport:
    if isinstance(error, GraphprepError):
        why, status = str(error), error.exit_status
    elif isinstance(error, OSError):
        why, status = operating_system_sentence(error), 1
    else:
        why, status = NO_MEMORY, 1
    return StageReport.of(stage, "failed", why, exit_status=status)
