"""One piece of work whose result is kept: request -> determinants -> state -> run -> result.

Fetch, import, generate, partition and export are steps, as are the pages and verifications of `graphprep run`. The
determinants of a step are all that its result depends on. The result carries their key, so that what lies at the target
tells by itself what is to be done:

    missing     nothing lies there                                       run
    partial     nothing, but unfinished work of an earlier run           run, which goes on with it
    same        a result of the same determinants                        use it; --replace runs
    outdated    a result of this step, of older input or damaged         run
    fallback    a result of another method than was asked for            run if that may succeed now, else use it
    other       a result of other determinants, or a damaged one         refuse; --replace runs
    foreign     something that is no such result                         refuse, with --replace too
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from graphprep.errors import GraphprepError
from graphprep.system import progress
from graphprep.system.files.atomic import locked
from pipelines.estimate import Estimate

Result = TypeVar("Result")
ABSENT = "it is not there"
REPLACED = "--replace makes it again"


class State(Enum):
    """What lies at the target of a step; see above."""

    MISSING = "missing"
    PARTIAL = "partial"
    SAME = "same"
    OUTDATED = "outdated"
    FALLBACK = "fallback"
    OTHER = "other"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Existing(Generic[Result]):
    """What lies at the target of a step."""

    state: State
    _: KW_ONLY
    result: Result | None = None
    """None where there is none, or where it cannot be read"""
    reason: str | None = None
    """why the step is run; None if it need not be"""
    refusal: GraphprepError | None = None
    """raised for `OTHER` without --replace, and for `FOREIGN`"""
    notes: tuple[str, ...] = ()
    """sentences for people who get this result, or for whom it is made again"""
    warnings: tuple[str, ...] = ()
    """the same, for people who said -q too"""

    def reason_to_run(self, *, replace: bool) -> str | None:
        """Why the step is run; None if the result is used.

        Raises:
            GraphprepError: something else lies there, and `replace` does not say that it may go, or nobody may.
        """
        if self.refusal is not None and (self.state is State.FOREIGN or not replace):
            raise self.refusal
        return REPLACED if replace and self.state in (State.SAME, State.FALLBACK) else self.reason

    def say_notes(self) -> None:
        """Say what people have to know of the result."""
        for sentence in self.notes:
            progress.say(sentence)
        for sentence in self.warnings:
            progress.warn(sentence)


class Step(Protocol[Result]):
    """One piece of work whose result is kept."""

    @property
    def target(self) -> Path | str:
        """Path or URL of the result.

        Raises:
            UsageError: nothing may be written there.
        """

    @property
    def estimate(self) -> Estimate | None:
        """What the work takes; None where that is not known before it starts."""

    @property
    def locks(self) -> Sequence[tuple[Path, str]]:
        """The paths that one process at a time works on, and what people call them."""

    def find(self) -> Existing[Result]:
        """What lies at the target, whatever it was made from: a result is `OTHER` until it has been compared.

        Raises:
            GraphprepError: this cannot be found out.
        """

    def compare(self, result: Result) -> Existing[Result]:
        """Whether a result was made from the determinants of this step."""

    def sweep(self) -> None:
        """Remove what an earlier run left beside the result."""

    def run(self, earlier: Result | None) -> Result:
        """Do the work, or go on with what an earlier run has begun.

        Args:
            earlier: a result of a fallback, which may be kept and given back.
        """


def existing_result(step: Step[Result]) -> Existing[Result]:
    """What lies at the target of a step, compared with what is asked for."""
    existing = step.find()
    return existing if existing.result is None else step.compare(existing.result)


def run_step(step: Step[Result], *, replace: bool = False) -> tuple[Result, bool]:
    """Do the work of a step, or find that its result is there.

    Args:
        replace: do it whatever lies at the target, unless that is something foreign.

    Returns:
        The result, and whether it was there already.

    Raises:
        GraphprepError: something else lies at the target, or the work cannot be done.
    """
    with ExitStack() as stack:
        for path, what in step.locks:
            stack.enter_context(locked(path, what))
        if replace:
            step.find().reason_to_run(replace=True)
            return step.run(None), False
        existing = existing_result(step)
        reason = existing.reason_to_run(replace=False)
        if existing.state is State.SAME:
            progress.say(f"{step.target} is up to date")
        existing.say_notes()
        if reason is None:
            assert existing.result is not None
            step.sweep()
            return existing.result, True
        result = step.run(existing.result)
        return result, result is existing.result


def key_of(determinants: Mapping[str, Any]) -> str:
    """64 hex digits over the determinants of a result."""
    return hashlib.sha256(json.dumps(determinants, sort_keys=True).encode()).hexdigest()
