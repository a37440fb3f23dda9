"""What the control groups of this process leave of memory: the limit of a batch system's job or of a container.

A process that takes more than its group may is killed without a word, however much the machine has free. Groups are
nested, and each of them may have a limit. In both versions of the kernel's interface what a group uses counts pages of
files, which the kernel takes back when they are needed; those that have not been looked at lately are left out.

This file is in graphprep and in the trainer, neither of which knows the other.
"""

from __future__ import annotations

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
        _, controllers, path = line.split(":", 2)
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
    if not (limit.isdigit() and used.isdigit()):
        return None
    idle = [int(line.split()[1]) for line in _lines(group / "memory.stat") if line.startswith(f"{idle_name} ")]
    return max(0, int(limit) - int(used) + sum(idle))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
