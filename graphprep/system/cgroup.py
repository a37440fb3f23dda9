"""What the control groups of this process leave of memory: the limit of a batch system's job or of a container.

A process that takes more than its group may is killed without a word, however much the machine has free. Groups are
nested, and each of them may have a limit. In both versions of the kernel's interface what a group uses counts pages of
files, which the kernel takes back when they are needed; those that have not been looked at lately are left out.

This file is in graphprep and in the trainer, neither of which knows the other.
"""

from __future__ import annotations

import os
from pathlib import Path

VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def left(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take; None where no group has a limit.

    Args:
        root: of the file system.
    """
    found: list[int | None] = []
    for line in _lines(root / "proc/self/cgroup"):
        _, *where = line.split(":", 2)
        if len(where) != 2:
            continue
        controllers, path = where
        if controllers and "memory" not in controllers.split(","):
            continue
        names = VERSION_1 if controllers else VERSION_2
        top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        group = top / path.lstrip("/")
        # In a container a path may be the host's, of which only the top is here.
        places = [place for place in (group, *group.parents) if place.is_relative_to(top)]
        found += [_left(place, *names) for place in places]
    return min((room for room in found if room is not None), default=None)


def _left(group: Path, limit_name: str, used_name: str, idle_name: str) -> int | None:
    """What one group leaves; None where it has no limit, or is not here."""
    [limit], [used] = (_lines(group / name)[:1] or [""] for name in (limit_name, used_name))
    if not (limit.isdecimal() and used.isdecimal()):
        return None
    facts = dict(line.partition(" ")[::2] for line in _lines(group / "memory.stat"))
    idle = facts.get(idle_name, "")
    # The files are read one after the other, and idle pages may be more by then than all were before.
    taken = max(0, int(used) - (int(idle) if idle.isdecimal() else 0))
    return max(0, int(limit) - taken)


def _lines(path: Path) -> list[str]:
    """Of a file whose names of groups are bytes; none where it cannot be read, or its name cannot be a path."""
    try:
        return os.fsdecode(path.read_bytes()).split("\n")
    except (OSError, ValueError):
        return []
