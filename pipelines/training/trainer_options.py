"""What the words of a trainer's command line mean, asked of the trainer, for programs that choose the rest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphprep.errors import CacheError, GraphprepError, TrainingError, UsageError
from graphprep.system.child_process import child_settings, python_command


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerOptions:
    """The options of a command line and of its --config."""

    given: Mapping[str, Any]
    """those that decide what is learnt and were given, by name"""
    values: Mapping[str, Any]
    """all that decide what is learnt, with defaults"""
    output: str | None
    checkpoint: str | None


def given_options(cache: Path, words: Sequence[str]) -> TrainerOptions:
    """Parse the options of a run on a cache.

    Raises:
        UsageError, CacheError: the trainer refuses them.
        TrainingError: the trainer cannot be started.
    """
    done = subprocess.run(
        python_command("-m", "trainer.config.given_options", str(cache), *words),
        capture_output=True,
        text=True,
        **child_settings(),
    )
    if done.returncode:
        sentence = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        kinds: dict[int, type[GraphprepError]] = {
            UsageError.exit_status: UsageError,
            CacheError.exit_status: CacheError,
        }
        raise kinds.get(done.returncode, TrainingError)(sentence)
    return TrainerOptions(**json.loads(done.stdout))
