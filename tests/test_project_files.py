"""Pages for contributors name files that are there, and the documentation's index has all pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from graphprep import __version__

ROOT = Path(__file__).parents[1]
DECISIONS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/decisions").glob("*.md"))
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", *DECISIONS)
TOPS = ("graphprep", "pipelines", "trainer", "tests", "docs", "examples", "benchmarks", "notebooks")


def named_files(page: str) -> Iterator[str]:
    """Paths between backticks that begin at the repository's root, without those that have a placeholder."""
    for text in re.findall(r"`([^`\s]+)`", (ROOT / page).read_text(encoding="utf-8")):
        if text.startswith(tuple(f"{top}/" for top in TOPS)) and "NAME" not in text:
            yield text


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    """Guards against instructions that lead to files that were moved."""
    missing = [name for name in named_files(page) if not (ROOT / name).exists()]
    assert not missing, f"{page} names {', '.join(missing)}"


def test_contributing_names_many_files() -> None:
    """The test above would pass on a page of which it understood nothing."""
    assert len(set(named_files("CONTRIBUTING.md"))) > 25


def test_every_page_is_in_the_index_of_the_site() -> None:
    """Guards against pages that nobody finds."""

    def pages(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for inner in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
            yield from pages(inner)

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    docs = ROOT / "docs"
    assert sorted(pages(nav)) == sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))


def test_the_citation_is_of_this_version() -> None:
    """Guards against a citation that was forgotten at a release."""
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == __version__
