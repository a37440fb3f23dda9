"""A finished training run, read from its folder: options, history, metrics, predictions and weights.

    FOLDER/config.toml         all options, from which the trainer starts the same run again
    FOLDER/result.json         the result, as in the last line of the trainer's --json
    FOLDER/history.jsonl       a line for each validated epoch
    FOLDER/report.html         the page of `graphprep report`
    FOLDER/predictions.npy     float32 [N, C]: scores of all nodes by the best weights, in the dataset's order; of links
                               the embeddings
    FOLDER/pairs.csv           of links: the test pairs with their scores
    FOLDER/checkpoint/         weights and the state of the optimiser, unless another folder was named

The trainer writes these files, and nothing of it is imported here.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphprep.cache.read import PartitionCache, open_cache
from graphprep.core.original_ids import OriginalIds
from graphprep.errors import TrainingError
from graphprep.interop.prediction_table import class_names, columns_of, write_table
from graphprep.system.files.regular_file import regular_file
from graphprep.system.packages import required

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

CONFIG, RESULT, HISTORY, PREDICTIONS, PAIRS, CHECKPOINTS, PAGE = (
    "config.toml",
    "result.json",
    "history.jsonl",
    "predictions.npy",
    "pairs.csv",
    "checkpoint",
    "report.html",
)
LOCK = ".lock"
"""which the trainer leaves in the folders that it writes to, and holds while it does"""
CHECKPOINT = re.compile(r"epoch-(\d{8,})-([0-9a-f]{16})\.pt")
WRAPPER = "model."
"""begins the names of weights in checkpoints: the model is a part of the trainer's network"""
AGAIN = "train again"
LISTS = ("ranks", "links")
"""the tables in a line of the history"""


class Columns(Mapping[str, NDArray[Any]]):
    """A table as arrays of equal length, by the name of the column."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        rows = len(next(iter(self._columns.values()), ()))
        return f"{type(self).__name__}({rows:,} rows: {', '.join(self._columns)})"

    def to_pandas(self) -> DataFrame:
        """The table for pandas, which has to be installed.

        Raises:
            UsageError: it is not.
        """
        frame: DataFrame = required("pandas", "tables").DataFrame(self._columns)
        return frame


def run_options(folder: Path) -> dict[str, Any]:
    """The trainer's options of a run, which may still be training.

    Raises:
        TrainingError: there are none.
    """
    return tomllib.loads(_text(folder, CONFIG))


def history_lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of the trainer's --json of all validated epochs of a run so far; none where there is no history.

    Raises:
        TrainingError: one of them is damaged, or they cannot be read.
    """
    path = folder / HISTORY
    try:
        return [json.loads(line) for line in regular_file(path).read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise TrainingError(f"{path} is damaged ({error}); {AGAIN}") from error


class TrainingRun:
    """A finished run. Arrays are read when they are asked for."""

    def __init__(self, folder: Path | str) -> None:
        """Open the run in `folder`.

        Raises:
            TrainingError: it is no finished run.
        """
        self.folder = Path(folder)
        self.result: dict[str, Any] = json.loads(_text(self.folder, RESULT))
        """all that the trainer says of the run: seconds, bytes by purpose, layer and link ..."""
        self.options = run_options(self.folder)
        """the trainer's options"""

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items() if value is not None)
        result = self.result
        return (
            f"TrainingRun({result['model']} on {result['dataset']}, {result['ranks']} ranks, {result['epochs']} "
            f"epochs: {values}; {self.folder})"
        )

    @property
    def metrics(self) -> dict[str, float | None]:
        """The metric by the best weights: `val_accuracy` and `test_accuracy`, or those of another metric; of links all
        metrics, that of the run first. None where one is not defined."""
        metric = self.result["metric"]
        first = {name: self.result[name] for name in (f"val_{metric}", f"test_{metric}")}
        return first | {name: value for name, value in self.result.items() if name.startswith(("val_", "test_"))}

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of the trainer's --json of all validated epochs; none where an earlier release kept no history.

        Raises:
            TrainingError: one of them is damaged.
        """
        return history_lines(self.folder)

    @property
    def history(self) -> Columns:
        """A row for each validated epoch: epoch, loss, the validation metric (NaN where it is not defined), and since
        the row before the seconds, by kind as means over the ranks, and the bytes; the most memory of a rank."""
        return _columns([{name: value for name, value in line.items() if name not in LISTS} for line in self.lines])

    @property
    def timeline(self) -> Columns:
        """A row for each validated epoch and rank: its seconds by kind since the row before (NaN on GPUs, where they
        are not measured), also of the exchanges by type of link, and its memory; no row in runs of earlier releases."""
        rows = [{"epoch": line["epoch"]} | rank for line in self.lines for rank in line.get("ranks", ())]
        flat = []
        for row in rows:
            by_type = row.pop("exchange_seconds_by_link_type")
            flat.append(row | {f"exchange_seconds_{kind}": seconds for kind, seconds in by_type.items()})
        return _columns(flat)

    @property
    def traffic(self) -> Columns:
        """A row for each validated epoch, layer, direction and type of link: the bytes of rows that all ranks sent
        since the row before; no rows in runs of earlier releases."""
        return _columns([{"epoch": line["epoch"]} | link for line in self.lines for link in line.get("links", ())])

    @property
    def cache(self) -> PartitionCache:
        """The cache that was trained on.

        Raises:
            CacheError: it is not there any more.
        """
        return open_cache(Path(self.options["cache"]))

    @property
    def node_type(self) -> str:
        """The node type whose labels were learnt; of links the only one."""
        target = self.options.get("target")
        return str(target) if target is not None else labelled_type(self.cache)

    def predictions(self) -> NDArray[np.float32]:
        """float32 [N, C]: the scores of all nodes of the type by the best weights, in the dataset's order, mapped."""
        try:
            scores: NDArray[np.float32] = np.load(self.folder / PREDICTIONS, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise TrainingError(f"{self.folder / PREDICTIONS} is missing or damaged ({error}); {AGAIN}") from error
        return scores

    def ids(self) -> NDArray[Any]:
        """[N]: the id of each row of `predictions` in the dataset's source, numbers or words; row numbers where it has
        no others."""
        ids = self._original_ids
        return np.arange(len(self.predictions())) if ids is None else ids.array()

    @property
    def class_names(self) -> Sequence[str] | None:
        """The names of the classes by their numbers; None where the dataset has none but the numbers."""
        return class_names(self.cache.attributes, self.node_type)

    @cached_property
    def _original_ids(self) -> OriginalIds | None:
        return self.cache.original_ids(self.node_type)

    def prediction_table(self) -> Columns:
        """`id`, `prediction` (the class, where there are classes) and `score_0` .., a row a node; classes by name where
        they have names."""
        return Columns(columns_of(self.predictions(), self._original_ids, self.result["task"], self.class_names))

    def write_predictions(self, target: Path | str) -> None:
        """Write that table as .csv or .parquet.

        Raises:
            UsageError: `target` has another ending, or its folder does not exist.
        """
        write_table(Path(target), self.predictions(), self._original_ids, self.result["task"], self.class_names)

    def pair_table(self) -> Columns:
        """Of a run that learnt links: a row for each test edge and for as many random pairs, with the columns `source`
        and `destination` (ids of the nodes in the dataset's source), `is_edge` and `score`.

        Raises:
            TrainingError: the run has no such table.
        """
        from pyarrow import ArrowInvalid, csv

        path = self.folder / PAIRS
        try:
            table = csv.read_csv(regular_file(path))
            columns = {name: np.asarray(table[name]) for name in ("source", "destination", "is_edge", "score")}
        except (OSError, ArrowInvalid, KeyError) as error:
            raise TrainingError(
                f"{path} is missing or damaged ({error}); train with task='links' by graphprep.train"
            ) from error
        ids = self._original_ids
        if ids is not None:
            of_node = ids.array()
            columns |= {name: of_node[columns[name]] for name in ("source", "destination")}
        return Columns(columns | {"is_edge": columns["is_edge"].astype(bool)})

    def state_dict(self) -> dict[str, Tensor]:
        """The best weights on the CPU, by their names in the model; learnt rows of nodes are in the dataset's order.

        Raises:
            TrainingError: there is no checkpoint that is whole.
        """
        import torch

        newest = self.newest_checkpoint()
        content = regular_file(newest).read_bytes()
        if hashlib.sha256(content).hexdigest()[:16] != newest.stem.rpartition("-")[2]:
            raise TrainingError(f"the checkpoint {newest} is damaged; {AGAIN}")
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        weights = {**state["best"]["weights"], **{name: rows["best"] for name, rows in state["embeddings"].items()}}
        return {name.removeprefix(WRAPPER): value for name, value in weights.items()}

    def newest_checkpoint(self) -> Path:
        """The file of the last checkpoint.

        Raises:
            TrainingError: there is none.
        """
        folder = Path(self.options.get("checkpoint") or self.folder / CHECKPOINTS)
        files = [path for path in folder.glob("epoch-*.pt") if CHECKPOINT.fullmatch(path.name)]
        if not files:
            raise TrainingError(f"there is no checkpoint in {folder}; train with --checkpoint, or by graphprep.train")
        return max(files, key=lambda path: (epoch_of(path), path.stat().st_mtime_ns))


def _text(folder: Path, name: str) -> str:
    try:
        return regular_file(folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise TrainingError(f"{folder} is no finished run: {name} is missing; {AGAIN}") from error


def _columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """A table of rows; None, and what a row has not, is NaN."""
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row.get(name) for row in rows] for name in names}
    columns = {name: [np.nan if one is None else one for one in column] for name, column in values.items()}
    return Columns({name: np.array(values) for name, values in columns.items()})


def epoch_of(checkpoint: Path) -> int:
    """The epoch after which a checkpoint was written."""
    return int(checkpoint.name.split("-")[1])


def labelled_type(cache: PartitionCache) -> str:
    """The node type that has labels; the first where several have, or none has."""
    labelled = (kind for kind in cache.node_types if "y" in cache.node_arrays(0, kind))
    return next(labelled, next(iter(cache.node_types)))
