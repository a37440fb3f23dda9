"""The history file: a line an epoch, whole at any time, and continued by a run that resumes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.handmade_cache import make_cache, random_graph
from trainer.__main__ import main
from trainer.base.errors import TrainingError
from trainer.reporting.epoch_line import EpochLine, RankUsage
from trainer.reporting.history import HISTORY, History


def line(epoch: int) -> EpochLine:
    counts = dict.fromkeys(
        ("bytes_sent", "row_bytes_sent", "weight_bytes_sent", "other_bytes_sent", "bytes_skipped"), 0
    )
    return EpochLine(epoch=epoch, loss=1.5, val=None, seconds=0.1, **counts)


def epochs_in(folder: Path) -> list[int]:
    return [json.loads(text)["epoch"] for text in (folder / HISTORY).read_text().splitlines()]


def test_a_resumed_run_continues_the_history(tmp_path: Path) -> None:
    """Guards against epochs that are there twice, and against half a line of a run that was killed."""
    first = History(str(tmp_path), resumed_after=None)
    for epoch in (1, 2, 3):
        first.epoch(line(epoch), "accuracy")
    with (tmp_path / HISTORY).open("a") as file:
        file.write('{"epoch": 4, "lo')
    again = History(str(tmp_path), resumed_after=2)
    again.epoch(line(3), "accuracy")
    assert epochs_in(tmp_path) == [1, 2, 3]
    History(str(tmp_path), resumed_after=None)
    assert epochs_in(tmp_path) == []


def test_a_full_disk_ends_the_history_and_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against hours of training that are lost for a log."""
    monkeypatch.setattr(logging.getLogger("trainer"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("trainer"), "handlers", [])
    folder = tmp_path / "run"
    folder.mkdir()
    history = History(str(folder), resumed_after=None)
    (folder / HISTORY).unlink()
    folder.rmdir()
    history.epoch(line(1), "accuracy")
    history.epoch(line(2), "accuracy")
    [record] = caplog.records
    assert "the history ends at epoch 1" in record.getMessage()
    with pytest.raises(TrainingError, match="give another --output"):
        History(str(folder), resumed_after=None)


def test_numbers_of_a_line(tmp_path: Path) -> None:
    """Guards against a metric under another's name, and a mean over ranks that were not measured."""
    values = {"compute_seconds": 1.0, "exchange_seconds": 2.0, "waiting_seconds": 3.0}
    ranks = [
        RankUsage(
            rank=rank, seconds=6.0, exchange_seconds_by_link_type={"nvlink": 2.0 * rank}, memory_bytes=7, **values
        )
        for rank in (0, 1)
    ]
    found = EpochLine(**{name: getattr(line(1), name) for name in EpochLine.__slots__} | {"ranks": ranks, "val": 0.5})
    numbers = found.numbers("f1_macro")
    assert numbers["val_f1_macro"] == 0.5
    assert {name: numbers[name] for name in values} == values
    assert numbers["memory_bytes_max"] == 7
    assert found.exchange_seconds_by_link_type == {"nvlink": 1.0}
    assert line(1).numbers("accuracy")["compute_seconds"] is None
    document = json.loads(json.dumps(found.to_json("f1_macro"), allow_nan=False))
    assert document["ranks"][1]["exchange_seconds_by_link_type"] == {"nvlink": 2.0}


def test_a_run_keeps_its_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a history that differs from --json, and one that a resumed run begins again."""
    cache = make_cache(tmp_path / "cache", random_graph(seed=3), np.zeros(60, int), 1)
    arguments = [
        str(cache),
        "-q",
        "--json",
        "--output",
        str(tmp_path / "run"),
        "--checkpoint",
        str(tmp_path / "weights"),
    ]
    assert main([*arguments, "--epochs", "2"]) == 0
    printed = [json.loads(text) for text in capsys.readouterr().out.splitlines()][:-1]
    assert [json.loads(text) for text in (tmp_path / "run" / HISTORY).read_text().splitlines()] == printed
    assert main([*arguments, "--epochs", "4", "--resume"]) == 0
    assert epochs_in(tmp_path / "run") == [1, 2, 3, 4]
