"""The fallback that a cache records: another partitioning method was used than the requested ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """None of the requested methods gave parts, and another one was used."""

    wanted: tuple[str, ...]
    used: str
    reason: str
    """why not those, in words"""
    memory_bytes: int | None = None
    """that at least one of them needs, where memory was too small for all of them"""

    @classmethod
    def of_coarsest_level(cls, reasons: Sequence[str]) -> Fallback | None:
        """What the multilevel method says where it had to do without METIS; None if it says nothing."""
        if not reasons:
            return None
        return cls(wanted=("multilevel",), used="multilevel with LDG on the coarsest level", reason=reasons[0])

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{' and '.join(self.wanted)} failed ({self.reason}); {self.used} was used instead"

    def to_json(self) -> dict[str, Any]:
        """As a cache's root attributes have it."""
        return asdict(self) | {"wanted": list(self.wanted)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any] | None) -> Fallback | None:
        """What `to_json` gave; None for None."""
        if found is None:
            return None
        return cls(**{**found, "wanted": tuple(found["wanted"])})
