"""The variables that torchrun sets."""

from __future__ import annotations

import pytest

from trainer.base.errors import TrainingError
from trainer.dist.rank_info import RankInfo


def test_without_torchrun_there_is_one_rank() -> None:
    """`python -m trainer` on a cache of one part must not ask for variables."""
    assert RankInfo.from_environment({"WORLD_SIZE": "4"}) == RankInfo(rank=0, world=1, local_rank=0, local_world=1)


def test_all_variables_are_read() -> None:
    """A global rank taken for a local one picks a GPU that the machine does not have."""
    found = RankInfo.from_environment(
        {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "x"}
    )
    assert found == RankInfo(rank=5, world=8, local_rank=1, local_world=4, is_supervised=True)


@pytest.mark.parametrize("wrong", [{"RANK": "0"}, {"RANK": "x", "WORLD_SIZE": "1"}])
def test_half_an_environment_is_refused(wrong: dict[str, str]) -> None:
    """A variable that is missing and assumed makes ranks that think they are alone."""
    with pytest.raises(TrainingError, match="torchrun"):
        RankInfo.from_environment(wrong)
