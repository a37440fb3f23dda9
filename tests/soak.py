"""How often the long fault and fuzz tests repeat: all of it under `make soak`, a tenth elsewhere."""

from __future__ import annotations

import os


def soak_count(full: int) -> int:
    """`full` repetitions where GRAPHPREP_SOAK=1, a tenth of them otherwise."""
    return full if os.environ.get("GRAPHPREP_SOAK") == "1" else max(1, full // 10)
