"""A finished cache becomes a folder of another tool's files, whole or not at all."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.interop.export.format import ExportFormat, ExportSizes
from graphprep.interop.export.formats import export_format
from graphprep.interop.export.marker import marker_of, missing_files, read_marker, says, write_marker
from graphprep.system import home, progress
from graphprep.system.atomic import PARTIAL_PREFIX, locked, publish_folder, sweep
from graphprep.system.output_path import checked_target
from graphprep.system.retry_replaced import read_again_if_replaced
from pipelines.look import likely_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOutcome:
    """Where the export lies, and whether it was there already."""

    folder: Path
    format: str
    reused: bool
    files: int
    bytes: int


def export_cache(cache: str, out: Path, *, format_name: str, replace: bool = False) -> ExportOutcome:
    """Write a cache in another tool's format, or find that it is there; a cache that is replaced is read again.

    Args:
        cache: a path or NAME/LABEL.
        out: the folder to make.
        format_name: a name in `graphprep.interop.export.formats.FORMATS`.
        replace: export even if it is there, also over an export of another cache or in another format.

    Raises:
        UsageError: an unknown format, or a place where something else lies.
        CacheError: there is no such cache, or a file of it is missing or has changed.
    """
    return read_again_if_replaced(
        lambda: likely_folder(cache), lambda: _exported(cache, out, format_name=format_name, replace=replace)
    )


def _exported(cache: str, out: Path, *, format_name: str, replace: bool) -> ExportOutcome:
    found_format = export_format(format_name)
    found = PartitionCache(home.require_cache(cache))
    found.check_sizes()
    target = export_target(out)
    marker = marker_of(found, format_name)
    with locked(target, f"the export {target}"):
        work = target.with_name(PARTIAL_PREFIX + target.name)
        if not must_write(target, marker, replace):
            sweep(target, work)
            progress.say(f"{target} is up to date")
            return _outcome(target, format_name, reused=True)
        _announce(found, found_format, target)
        found.require_unchanged()
        if work.exists():
            shutil.rmtree(work)
        work.mkdir(parents=True)
        with progress.task("writing parts", total=found.num_parts, unit="parts") as task:
            found_format.write(found, work, task.advance)
        write_marker(work, marker)
        with progress.task("flushing to disk"):
            publish_folder(work, target)
    return _outcome(target, format_name, reused=False)


def expected_bytes(cache: PartitionCache, chosen: ExportFormat) -> int:
    """Disk that an export takes."""
    return chosen.expected_bytes(ExportSizes.of(cache, bfloat16_bytes=chosen.bfloat16_bytes))


def _announce(cache: PartitionCache, chosen: ExportFormat, target: Path) -> None:
    """Say what the export will need before it starts."""
    expected = expected_bytes(cache, chosen)
    progress.say(
        f"exporting {cache.folder} ({cache.num_parts} parts) as {chosen.name}: expect about "
        f"{progress.format_bytes(expected)} of disk at {target}"
    )


def export_target(out: Path) -> Path:
    """Where an export goes.

    Raises:
        UsageError: nothing may be written there.
    """
    if home.is_url(str(out).replace(":/", "://", 1)):
        raise UsageError(f"OUT {out} is a URL; give a folder on a local disk, and copy it from there")
    return checked_target(out, called="OUT")


def must_write(target: Path, marker: dict[str, Any], replace: bool) -> bool:
    """Whether the export has to be made.

    Raises:
        UsageError: something else lies there, and only the user may say that it may go.
    """
    if not target.exists() or not any(target.iterdir()):
        return True
    there = read_marker(target)
    if there is None:
        raise UsageError(f"OUT {target} holds files that are no export; it is left as it is: give another folder")
    if replace:
        return True
    if says(there, marker):
        if missing := missing_files(target, there):
            raise UsageError(
                f"OUT {target}: {missing[0]} is missing or has another size than it was written with; give --replace "
                "to export again"
            )
        return False
    raise UsageError(
        f"OUT {target} holds {there.get('dataset')} as {there.get('format')}, exported from another cache or in "
        "another format; give --replace to replace it, or another folder"
    )


def _outcome(folder: Path, name: str, *, reused: bool) -> ExportOutcome:
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return ExportOutcome(folder=folder, format=name, reused=reused, files=len(sizes), bytes=sum(sizes))
