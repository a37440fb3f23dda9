"""Ask the trainer how much memory a run would need: the figures that it checks and prints before it trains.

The trainer is a program of its own and is started as a process; nothing of it is imported here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from graphprep.errors import CacheError, TrainingError, UsageError
from graphprep.plan.training import TrainingPlan
from graphprep.system.child_process import child_settings, python_command

SECONDS = 60.0
RankSizes = Mapping[str, int | None]
"""Counts of one rank by the names of the fields of the trainer's Sizes; `entries` is None where features are dense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRequest:
    """What the trainer chooses the exchange of each layer by."""

    rows: list[list[list[int]]]
    """Sent from rank to rank in each stage of a boundary exchange, of which there is one without relays."""
    topology: Mapping[str, Any]
    """In long form."""
    device: Literal["cpu", "cuda"]
    available: list[int | None]
    """Bytes of each rank's device; None where they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMemory:
    """The trainer's answer."""

    by_entries: bool
    """Whether it holds features by the entries that are not 0."""
    bytes_by_purpose: list[dict[str, int]]
    """Of each rank."""
    sentence: str
    """About the rank that needs the most, as in the run's log."""
    layers: list[dict[str, Any]]
    """The layers that may be tensor-parallel, each with its `layer`, `exchange` and `width`; none unless the exchange
    allows it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Options that the trainer refuses."""

    sentence: str

    @property
    def error(self) -> UsageError:
        return UsageError(self.sentence)


def expected_memory(
    runs: Sequence[tuple[TrainingPlan, TrafficRequest | None]],
    sizes: Sequence[RankSizes],
    cache: Path | None,
    *,
    words: Sequence[str] = (),
) -> list[ExpectedMemory | Refusal]:
    """What each rank would need with each of some options.

    Args:
        runs: the trainer's options, each with what decides the exchange of each layer; None where all exchange halo
            rows.
        sizes: of all ranks.
        cache: a cache's folder, whose sums of features the trainer may use; None for a store.
        words: further options of the trainer, the same for all.

    Returns:
        for each of `runs` the trainer's answer, or why it refuses these options.

    Raises:
        UsageError: the trainer refuses the request.
        CacheError: the trainer refuses the cache.
        TrainingError: the trainer cannot be started, or does not answer.
    """
    request = {
        "runs": [
            {"arguments": [*words, *training.arguments], "traffic": None if traffic is None else asdict(traffic)}
            for training, traffic in runs
        ],
        "cache": None if cache is None else str(cache.absolute()),
        "sizes": list(sizes),
    }
    return [
        Refusal(found["refused"])
        if "refused" in found
        else ExpectedMemory(
            by_entries=found["by_entries"],
            bytes_by_purpose=found["bytes"],
            sentence=found["sentence"],
            layers=found["layers"],
        )
        for found in ask_trainer("trainer.startup.expected_memory", request, seconds=SECONDS)
    ]


def ask_trainer(
    module: str, request: Mapping[str, Any], *, seconds: float, variables: Mapping[str, str] | None = None
) -> Any:
    """The JSON answer of one of the trainer's modules to a JSON request.

    Args:
        module: that answers on standard output.
        request: for its standard input.
        seconds: to wait for it.
        variables: of its environment.

    Raises:
        UsageError, CacheError, TrainingError: the trainer refuses the request, cannot be started, or does not answer.
    """
    advice = "run `graphprep doctor`"
    try:
        done = subprocess.run(
            python_command("-m", module),
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=seconds,
            **child_settings(variables or {}),
        )
    except OSError as error:
        raise TrainingError(f"the trainer cannot be started to plan memory ({error.strerror}); {advice}") from error
    except subprocess.TimeoutExpired as error:
        raise TrainingError(f"the trainer did not say in {seconds:.0f} s how much memory it needs; {advice}") from error
    if done.returncode:
        sentence = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        if done.returncode in (UsageError.exit_status, CacheError.exit_status):
            raise (UsageError if done.returncode == UsageError.exit_status else CacheError)(sentence)
        raise TrainingError(f"the trainer cannot be started to plan memory: {sentence}; {advice}")
    return json.loads(done.stdout)
