"""The folder of a run that is begun again."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphprep.errors import TrainingError
from graphprep.interop.training_run import TrainingRun
from trainer.config.options import Options
from trainer.reporting.outputs import prepare_outputs, write_result


def test_a_run_that_is_cut_short_has_no_result_of_the_one_before(tmp_path: Path) -> None:
    """Guards against the result of one run beside the options of another, which were killed before it had one."""
    first, second = (Options(cache="c", output=str(tmp_path / "run"), hidden=hidden) for hidden in (8, 16))
    prepare_outputs(first)
    write_result(first, {"epochs": 1})
    assert TrainingRun(tmp_path / "run").options["hidden"] == 8
    prepare_outputs(second)
    with pytest.raises(TrainingError, match=r"is no finished run: result\.json is missing"):
        TrainingRun(tmp_path / "run")
    write_result(second, {"epochs": 2})
    assert TrainingRun(tmp_path / "run").options["hidden"] == 16
