"""Which rank of how many this process is, read from the variables that torchrun sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainer.base.errors import TrainingError


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInfo:
    """One process's place in the run."""

    rank: int = 0
    """0 .. world - 1 over all machines; rank p trains part p."""
    world: int = 1
    """Ranks in the run."""
    local_rank: int = 0
    """0 .. local_world - 1 on this machine."""
    local_world: int = 1
    """Ranks on this machine."""
    restarts: int = 0
    """How often torchrun has started the ranks again."""
    is_supervised: bool = False
    """True under torchrun, whose supervisor ends the other ranks when one fails."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> RankInfo:
        """The rank that RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE name; without RANK the only one.

        Raises:
            TrainingError: RANK is there and another variable is not, or one is no number.
        """
        if "RANK" not in environment:
            return cls()

        def number(name: str) -> int:
            try:
                return int(environment[name])
            except KeyError:
                problem = f"RANK is set but {name} is not"
            except ValueError:
                problem = f"{name} is {environment[name]!r}, not a number"
            raise TrainingError(f"{problem}; start the ranks with torchrun")

        return cls(
            rank=number("RANK"),
            world=number("WORLD_SIZE"),
            local_rank=number("LOCAL_RANK"),
            local_world=number("LOCAL_WORLD_SIZE"),
            restarts=number("TORCHELASTIC_RESTART_COUNT") if "TORCHELASTIC_RESTART_COUNT" in environment else 0,
            is_supervised="TORCHELASTIC_RUN_ID" in environment,
        )
