"""Registry entries for tests."""

from __future__ import annotations

from typing import Any

from graphprep.datasets.entry import DatasetEntry


def entry(source: str, name: str = "mini", **values: Any) -> DatasetEntry:
    """An entry of `source` with what a test does not care about filled in."""
    return DatasetEntry.model_validate(
        {
            "name": name,
            "title": "A graph",
            "source": source,
            "licence": "MIT",
            "citation": "none",
            "homepage": "https://example.org",
            "expected": {"nodes": 1, "edges": 0, "features": 0, "classes": 0, "train": 0, "val": 0, "test": 0},
            **values,
        }
    )
