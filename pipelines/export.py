"""A finished cache becomes a folder of another tool's files, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from graphprep.cache.read import PartitionCache
from graphprep.errors import UsageError
from graphprep.interop.export.format import ExportFormat, ExportSizes
from graphprep.interop.export.formats import export_format
from graphprep.interop.export.marker import marker_of, missing_files, read_marker, says, write_marker
from graphprep.system import home, progress
from graphprep.system.files.atomic import PARTIAL_PREFIX, publish_folder, sweep
from graphprep.system.files.output_path import checked_target
from graphprep.system.files.retry_replaced import read_again_if_replaced
from pipelines.estimate import Estimate
from pipelines.look import likely_folder
from pipelines.step import ABSENT, Existing, State, run_step


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOutcome:
    """Where the export lies, and whether it was there already."""

    folder: Path
    format: str
    reused: bool
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ExportStep:
    """A cache is written in another tool's format."""

    folder: Path
    """of the cache, which need not be there yet"""
    format: ExportFormat
    out: Path
    """the folder to make"""

    @cached_property
    def cache(self) -> PartitionCache:
        """The cache, all of whose files are there in full length.

        Raises:
            CacheError: it is not there, or not whole.
        """
        cache = PartitionCache(self.folder)
        cache.check_sizes()
        return cache

    @cached_property
    def target(self) -> Path:
        if home.is_url(str(self.out).replace(":/", "://", 1)):
            raise UsageError(f"OUT {self.out} is a URL; give a folder on a local disk, and copy it from there")
        return checked_target(self.out, called="OUT")

    @property
    def work(self) -> Path:
        """Where the export lies until it is whole."""
        return self.target.with_name(PARTIAL_PREFIX + self.target.name)

    @property
    def locks(self) -> Sequence[tuple[Path, str]]:
        return ((self.target, f"the export {self.target}"),)

    @property
    def estimate(self) -> Estimate | None:
        """Disk alone; None before the cache is there."""
        if not self.folder.exists():
            return None
        sizes = ExportSizes.of(self.cache, bfloat16_bytes=self.format.bfloat16_bytes)
        return Estimate(memory_bytes=0, disk_bytes=self.format.expected_bytes(sizes), seconds=0.0)

    def find(self) -> Existing[Path]:
        target = self.target
        if not target.exists() or not any(target.iterdir()):
            return Existing(State.MISSING, reason=ABSENT)
        if read_marker(target) is None:
            refusal = f"OUT {target} holds files that are no export; it is left as it is: give another folder"
            return Existing(State.FOREIGN, refusal=UsageError(refusal))
        return Existing(State.OTHER, result=target)

    def compare(self, result: Path) -> Existing[Path]:
        marker = read_marker(result) or {}
        if not says(marker, marker_of(self.cache, self.format.name)):
            refusal = (
                f"OUT {result} holds {marker.get('dataset')} as {marker.get('format')}, exported from another cache or "
                "in another format; give --replace to replace it, or another folder"
            )
        elif missing := missing_files(result, marker):
            refusal = (
                f"OUT {result}: {missing[0]} is missing or has another size than it was written with; give --replace "
                "to export again"
            )
        else:
            return Existing(State.SAME, result=result)
        return Existing(State.OTHER, reason="it is replaced", refusal=UsageError(refusal))

    def sweep(self) -> None:
        sweep(self.target, self.work)

    def run(self, earlier: Path | None) -> Path:  # noqa: ARG002
        cache, needs = self.cache, self.estimate
        assert needs is not None
        progress.say(
            f"exporting {cache.folder} ({cache.num_parts} parts) as {self.format.name}: expect about "
            f"{progress.format_bytes(needs.disk_bytes)} of disk at {self.target}"
        )
        if cache.has_relays:
            progress.say("the relays of the cache are not exported: other tools get every row from its owner")
        cache.require_unchanged()
        if self.work.exists():
            shutil.rmtree(self.work)
        self.work.mkdir(parents=True)
        with progress.task("writing parts", total=cache.num_parts, unit="parts") as task:
            self.format.write(cache, self.work, task.advance)
        write_marker(self.work, marker_of(cache, self.format.name))
        with progress.task("flushing to disk"):
            publish_folder(self.work, self.target)
        return self.target


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
    chosen = export_format(format_name)

    def exported() -> tuple[Path, bool]:
        step = ExportStep(folder=home.require_cache(cache), format=chosen, out=out)
        _ = step.cache  # refused before a folder is made for the lock
        return run_step(step, replace=replace)

    folder, reused = read_again_if_replaced(lambda: likely_folder(cache), exported)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return ExportOutcome(folder=folder, format=format_name, reused=reused, files=len(sizes), bytes=sum(sizes))
