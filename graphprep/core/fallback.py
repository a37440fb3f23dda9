"""The note that a cache keeps where another partitioning method took the place of those that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """That none of the methods which were asked for gave parts, and another one did."""

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
        return f"{' and '.join(self.wanted)} did not come through ({self.reason}); {self.used} took their place"

    def to_json(self) -> dict[str, Any]:
        """As a cache's root attributes have it."""
        return asdict(self) | {"wanted": list(self.wanted)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any] | None) -> Fallback | None:
        """What `to_json` gave; None for None."""
        if found is None:
            return None
        return cls(**{**found, "wanted": tuple(found["wanted"])})
