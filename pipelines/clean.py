"""Say what lies in GRAPHPREP_HOME, and remove what runs that were cut short left behind, and what else is asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from graphprep.errors import UsageError
from graphprep.system import home, progress
from graphprep.system.files.atomic import REPLACED_PREFIX, is_locked, locked_if_free
from graphprep.system.home_contents import Item, Kind, contents

Fate = Literal["kept", "removed", "to remove", "in use"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedItem:
    """One item, and what became of it."""

    item: Item
    fate: Fate

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "kind": self.item.kind,
            "name": self.item.name,
            "path": str(self.item.path),
            "bytes": self.item.bytes,
            "fate": self.fate,
        }


def clean(
    *,
    raw: Sequence[str] = (),
    stores: Sequence[str] = (),
    caches: Sequence[str] = (),
    leftovers: bool = True,
    dry: bool = False,
) -> list[CleanedItem]:
    """Remove leftovers and what is named; nothing outside of GRAPHPREP_HOME, and nothing that is in use.

    What is in use is seen from the locks of those who write, and on Linux from the files that a process of the same
    user has open or mapped, as the trainer has.

    Args:
        raw, stores: names of datasets.
        caches: names of datasets, for all their caches, or NAME/LABEL.
        leftovers: whether to remove what runs that were cut short left behind.
        dry: only say what would be removed.

    Raises:
        UsageError: there is nothing of a name that was given. Nothing has been removed then.
    """
    items = contents()
    requested = {
        *_named(items, "raw", raw, "--raw"),
        *_named(items, "store", stores, "--stores"),
        *_named(items, "cache", caches, "--caches"),
        *(item for item in items if leftovers and item.kind == "leftover"),
    }
    # Leftovers come first, and those in a folder that goes as a whole are gone already when it does.
    order = sorted(items, key=lambda item: (item.kind != "leftover", item.path))
    used = _in_use() if requested else set()
    fates: dict[Item, Fate] = {item: _fate(item, used, dry) if item in requested else "kept" for item in order}
    return [CleanedItem(item=item, fate=fates[item]) for item in items]


def _named(items: Sequence[Item], kind: Kind, names: Sequence[str], option: str) -> Iterator[Item]:
    """The items that are meant.

    Raises:
        UsageError: a name means none.
    """
    of_kind = [item for item in items if item.kind == kind]
    for name in names:
        matches = [item for item in of_kind if name in (item.name, item.name.partition("/")[0])]
        if not matches:
            known = ", ".join(item.name for item in of_kind) or "nothing"
            raise UsageError(f"{option} {name} names nothing in {home.home()}; there is {known}")
        yield from matches


def _fate(item: Item, used: Collection[str], dry: bool) -> Fate:
    """Remove an item, if nobody uses it."""
    place = os.path.realpath(item.path)
    if any(path == place or path.startswith(place + os.sep) for path in used):
        return "in use"
    if dry:
        return "in use" if any(map(is_locked, item.locks)) else "to remove"
    with ExitStack() as stack:
        for path in item.locks:
            if path.parent.is_dir() and not stack.enter_context(locked_if_free(path)):
                return "in use"
        _remove(item.path)
    return "removed"


def _remove(path: Path) -> None:
    """Remove a file or folder; a folder loses its name first, so that no half of it passes for whole."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    aside = path
    if not path.name.startswith("."):
        aside = path.with_name(REPLACED_PREFIX + path.name)
        if aside.exists():
            shutil.rmtree(aside)
        os.rename(path, aside)
    shutil.rmtree(aside)


def _in_use() -> set[str]:
    """The files that other processes have open or mapped, as far as the kernel tells this one."""
    paths: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            mapped = (process / "maps").read_text(errors="replace").splitlines()
            paths.update(os.readlink(entry.path) for entry in os.scandir(process / "fd"))
        except OSError:  # another user's, or gone
            continue
        paths.update(line[line.index("/") :] for line in mapped if "/" in line)
    return paths


def say_total(cleaned: Sequence[CleanedItem]) -> None:
    """Tell people what has been freed."""
    freed = sum(each.item.bytes for each in cleaned if each.fate in ("removed", "to remove"))
    dry = any(each.fate == "to remove" for each in cleaned)
    progress.say(f"{progress.format_bytes(freed)} {'would be' if dry else 'were'} freed")
