"""Checkpoints: the whole state of training after an epoch, in files that are whole or not there.

A checkpoint is `DIR/epoch-EPOCH-DIGEST.pt`: what torch.save writes of tensors, numbers, words, lists and dictionaries,
and nothing that needs code to load (weights_only). DIGEST is the first 16 hex digits of the file's SHA-256. It is
written under another name, flushed and renamed; the two newest are kept. A file that is not what its name says is
never loaded: it is named in a warning, and the one before is used.

Weights and the state of the optimiser are the same on every rank, so one rank writes, and a checkpoint suits any number
of ranks. Learnt rows of nodes belong to one rank each; they are gathered first and written in the dataset's order. Kept
copies of peers' rows are not saved: in the first epoch after a resumption every rank sends everything.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from trainer.base.atomic import PARTIAL_PREFIX, write_whole
from trainer.base.errors import OptionError, TrainingError, found_by_every_rank
from trainer.base.regular_file import regular_file
from trainer.config.options import OPTIONS, Options
from trainer.data.cache import Cache
from trainer.data.events import EventCache
from trainer.data.graph_identity import graph_identity
from trainer.dist.communicator import Communicator

log = logging.getLogger("trainer")

FORMAT = 1
_NAME = re.compile(r"epoch-(\d{8,})-([0-9a-f]{16})\.pt")
_KEPT = 2

CheckpointContent = dict[str, Any]


class Checkpoints:
    """When and where one run's checkpoints are written. Every rank has one; only the one that speaks writes."""

    def __init__(self, options: Options, cache: Cache | EventCache, communicator: Communicator) -> None:
        """Make the folder.

        Args:
            options: with a `checkpoint` folder.
            cache: whose graph is trained on.
            communicator: the ranks of the run.

        Raises:
            TrainingError: the folder cannot be made or written to.
        """
        assert options.checkpoint is not None
        self._folder, self._writes = Path(options.checkpoint), communicator.is_main
        self._every, self._seconds = options.checkpoint_every, options.checkpoint_minutes * 60
        self._about = {
            "graphprep_checkpoint": FORMAT,
            "graph": graph_identity(cache),
            "options": options.of_the_result(),
            "ranks": communicator.world,
        }
        self._saved_at, self.newest_epoch = time.monotonic(), 0
        if self._writes:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                if not os.access(self._folder, os.W_OK):
                    raise PermissionError(13, "Permission denied")
            except OSError as error:
                raise TrainingError(
                    f"checkpoints cannot be written to {self._folder} ({error.strerror}); give another --checkpoint"
                ) from error

    def is_due(self, epoch: int) -> bool:
        """Whether one is due after `epoch`; False on ranks that do not write: they get it in the epoch's all-reduce."""
        if not self._writes or epoch == self.newest_epoch:
            return False
        by_epochs = bool(self._every) and epoch % self._every == 0
        return by_epochs or (bool(self._seconds) and time.monotonic() - self._saved_at >= self._seconds)

    def save(self, state: Mapping[str, Any], *, must: bool = False) -> None:
        """Write a checkpoint of `state`, which has an `epoch`, and remove all but the newest two.

        Args:
            state: what Fit.state_dict returns.
            must: whether a failure to write is an error; else it is a warning, and training goes on.

        Raises:
            TrainingError: it could not be written, and had to be.
        """
        self.newest_epoch = state["epoch"]
        if not self._writes:
            return
        buffer = io.BytesIO()
        torch.save({**self._about, **state}, buffer)
        content = buffer.getbuffer()
        name = f"epoch-{state['epoch']:08d}-{hashlib.sha256(content).hexdigest()[:16]}.pt"
        try:
            for left in self._folder.glob(f"{PARTIAL_PREFIX}epoch-*"):
                left.unlink(missing_ok=True)
            write_whole(self._folder / name, content)
            for old in _checkpoint_files(self._folder)[_KEPT:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            sentence = f"the checkpoint of epoch {state['epoch']} cannot be written to {self._folder}: {error.strerror}"
            if must:
                raise TrainingError(f"{sentence}; the newest one there is an earlier one") from error
            log.warning("%s; training goes on", sentence)
        else:
            log.debug("wrote the checkpoint %s", name)
        self._saved_at = time.monotonic()


def checkpoint_to_resume(
    options: Options, cache: Cache | EventCache, communicator: Communicator
) -> CheckpointContent | None:
    """The checkpoint that this run resumes, the same on every rank, or None; every rank has to call it.

    `--resume` uses the newest, if there is one. So does a rank that torchrun has started again. Without either the
    folder must have none, so that two runs do not mix. Ranks may see different folders (machines without a common
    disk): the newest that any of them has is sent to all.

    Raises:
        OptionError: there are checkpoints, and --resume is not given; or the options differ.
        TrainingError: the newest is of another graph.
    """
    assert options.checkpoint is not None
    folder = Path(options.checkpoint)
    states = communicator.all_gather_object({"restarts": communicator.restarts, "any": bool(_checkpoint_files(folder))})
    if not any(rank["any"] for rank in states):
        if options.resume and communicator.is_main:
            log.info("there is no checkpoint in %s yet, so training starts at epoch 1", folder)
        return None
    if not options.resume and not any(rank["restarts"] for rank in states):
        with found_by_every_rank():
            raise OptionError(f"{folder} has checkpoints of a run; give --resume to continue, or another --checkpoint")
    path, content = _newest_whole(folder)
    epochs = [
        rank["epoch"] for rank in communicator.all_gather_object({"epoch": 0 if path is None else _epoch_of(path)})
    ]
    newest = max(epochs)
    if not newest:
        with found_by_every_rank():
            raise TrainingError(f"no checkpoint in {folder} is whole; give another --checkpoint to start again")
    loaded = _load(communicator.broadcast_bytes(content, source=epochs.index(newest)))
    with found_by_every_rank():
        _check(loaded, options, cache, folder)
    if communicator.is_main:
        log.info("resuming after epoch %d, from a checkpoint that %d rank(s) wrote", loaded["epoch"], loaded["ranks"])
    return loaded


def _extended_identities(cache: Cache) -> Iterator[dict[str, Any]]:
    """`graph_identity` of the graphs that a cache's graph extends by new nodes and edges, the last one first."""
    source = cache.source
    while isinstance(origin := source.get("extends"), Mapping):
        nodes, edges, source = origin["node_types"], origin["edge_types"], origin["source"]
        of_origin = replace(
            cache,
            dataset=str(origin["dataset"]),
            node_types=[replace(kind, num_nodes=int(nodes[kind.name])) for kind in cache.node_types],
            relations=[replace(relation, num_edges=int(edges[relation.key])) for relation in cache.relations],
            source=source,
        )
        yield graph_identity(of_origin)


def _check(content: CheckpointContent, options: Options, cache: Cache | EventCache, folder: Path) -> None:
    ours = graph_identity(cache)
    earlier = _extended_identities(cache) if isinstance(cache, Cache) else iter(())
    if (extended := next((one for one in earlier if one == content["graph"]), None)) is not None:
        log.info(
            "the checkpoints are of %s, which %s extends by new nodes and edges", extended["dataset"], cache.dataset
        )
        if learnt := content.get("embeddings"):
            raise TrainingError(
                f"the checkpoints in {folder} have learnt rows for each node ({', '.join(learnt)}), and the new nodes "
                f"of {cache.folder} have none; train anew on it, with another --checkpoint"
            )
        ours = extended
    for name, theirs in content["graph"].items():
        if theirs != ours.get(name):
            what = "its source or the treatment of its features" if name == "source" else f"{name}: {theirs}"
            raise TrainingError(
                f"the checkpoints in {folder} are of another graph than {cache.folder} ({what} differs); "
                "give that graph's cache, or another --checkpoint"
            )
    defaults = Options(cache="").of_the_result()
    for name, now in options.of_the_result().items():
        then = content["options"].get(name, defaults[name])
        if then != now and not OPTIONS[name].may_change:
            raise OptionError(
                f"the checkpoints in {folder} were made with {OPTIONS[name].flag} {then}, not {now}; "
                "give the same, or another --checkpoint"
            )


def _checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints that are there, the newest first; of one epoch, the one written last."""
    try:
        files = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
        return sorted(files, key=lambda path: (_epoch_of(path), path.stat().st_mtime_ns), reverse=True)
    except OSError:
        return []


def _epoch_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def _newest_whole(folder: Path) -> tuple[Path | None, bytes]:
    for path in _checkpoint_files(folder):
        try:
            content = regular_file(path).read_bytes()
        except OSError as error:
            log.warning("the checkpoint %s cannot be read (%s); trying the one before", path, error.strerror)
            continue
        if hashlib.sha256(content).hexdigest()[:16] == path.stem.rpartition("-")[2]:
            return path, content
        log.warning("the checkpoint %s is damaged (its SHA-256 is another); trying the one before", path)
    return None, b""


def _load(content: bytes) -> CheckpointContent:
    """The content of a file whose digest is right; TrainingError if it is no checkpoint all the same."""
    try:
        loaded: CheckpointContent = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        version = loaded["graphprep_checkpoint"]
    except Exception as error:
        with found_by_every_rank():
            raise TrainingError(
                f"the checkpoint cannot be read ({_first_sentence(error)}); give another --checkpoint"
            ) from error
    if version != FORMAT:
        with found_by_every_rank():
            raise TrainingError(
                f"the checkpoint has format {version!r} and this trainer reads format {FORMAT}; "
                "continue with the release that wrote it, or give another --checkpoint"
            )
    return loaded


def _first_sentence(error: Exception) -> str:
    """The first sentence of torch's message."""
    return str(error).strip().partition("\n")[0].partition(". ")[0]
