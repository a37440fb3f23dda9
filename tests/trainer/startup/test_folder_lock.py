"""Two runs and one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.base.errors import TrainingError
from trainer.config.options import Options
from trainer.startup.folder_lock import folders_locked


@pytest.mark.parametrize("flag", ["checkpoint", "output", "trace"])
def test_a_second_run_is_refused_until_the_first_is_gone(tmp_path: Path, flag: str) -> None:
    """Two trainings in one folder removed each other's checkpoints and said nothing."""
    options = Options(cache="", **{flag: str(tmp_path / "run")})
    with (
        folders_locked(options),
        pytest.raises(TrainingError, match=r"^another run \(process \d+ on .*\) writes to --\w+ .*; wait for its end"),
        folders_locked(options),
    ):
        pass
    with folders_locked(options):
        pass


def test_one_run_may_use_one_folder_for_two_purposes(tmp_path: Path) -> None:
    """A run that locks a folder twice refuses itself."""
    with folders_locked(Options(cache="", checkpoint=str(tmp_path), output=str(tmp_path))):
        pass
