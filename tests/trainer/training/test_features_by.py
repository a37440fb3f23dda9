"""`--features-by`: refused where it cannot be, chosen by bytes and memory, the same on all ranks and said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from tests.trainer.training.test_sample_from import Ranks
from trainer.base.errors import OptionError
from trainer.config.features_by import first_width
from trainer.config.option_conflicts import check_together
from trainer.config.options import Options
from trainer.training import features_by
from trainer.training.features_by import FeaturesBy

N, F, G = 100, 64, 8
ARRAYS = {
    "counts": torch.tensor([[2], [10], [50]]),
    "rows/node/requested_place": torch.arange(30),
    "rows/node/kept_place": torch.arange(0),
    "layer/1/own_indices": torch.zeros(30),
    "layer/1/halo_indices": torch.zeros(20),
}
ROWS = 2 * 30 * (4 * F + 8)
COLUMNS = 2 * (2 * 4 * G * 10 + 4 * (50 + 20) + 8 * 50) + N * (8 + 4 * F // 2)


def chosen(monkeypatch: pytest.MonkeyPatch, *, free: float = 1e9, miss: float = 1.0, **options: Any) -> tuple[str, str]:
    """The choice of two alike ranks in a run of one step, and what is said."""
    lines: list[str] = []
    monkeypatch.setattr(features_by.log, "info", lambda text, *values: lines.append(text % values))
    monkeypatch.setattr(features_by, "available_bytes", lambda: free)
    samplers = SimpleNamespace(peek=lambda: SimpleNamespace(arrays=ARRAYS), miss_share=lambda: miss)
    given = Options(cache="c", batch_size=8, **{"hidden": G, "features_by": "auto", **options})
    check_together(given)
    part, cache = (
        SimpleNamespace(x_nF=torch.zeros(N // 2, F), typed=None),
        SimpleNamespace(num_nodes=N, node_type="node"),
    )
    ranks: Any = Ranks({})
    choice = FeaturesBy(given, cast(Any, cache), cast(Any, part), ranks, num_outputs=3, num_steps=1)
    found = choice._choose(cast(Any, samplers))
    return found, "\n".join(lines)


def test_auto_counts_what_both_ways_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against bytes of one rank, columns that come for nothing, and a choice that nobody hears of."""
    found, line = chosen(monkeypatch)
    assert found == "columns" if COLUMNS < ROWS else "rows"
    assert f"a step sends {ROWS / 1e6:.3g} MB of rows, or {COLUMNS / 1e6:.3g} MB by columns" in line
    kept, line = chosen(monkeypatch, miss=0.1, remote_row_cache="0.5")
    assert kept == "rows"
    assert f"sends {0.1 * ROWS / 1e6:.3g} MB of rows" in line


def test_auto_leaves_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against columns of all ranks of a machine that are counted as of one."""
    of_both = 2 * N * F // 2 * 4
    monkeypatch.setattr(features_by, "sent_for_tables", lambda *_: 0)
    assert chosen(monkeypatch, free=2 * of_both)[0] == "columns"
    found, line = chosen(monkeypatch, free=2 * of_both - 2)
    assert found == "rows"
    assert "take more than half of the free memory" in line


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model": "gat"}, "attention reads whole rows"),
        ({"model": "rgcn"}, "its first layer reads rows by relation"),
        ({"control_variates": True}, "exact sums"),
        ({"residual": True, "hidden": F}, "--residual where features are as wide as layer 1"),
        ({"model": "f.py:Mine"}, "the width is not known"),
    ],
)
def test_what_auto_leaves_by_rows(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], reason: str) -> None:
    """Guards against a run that fails by its own choice, and one that falls back without a word."""
    found, line = chosen(monkeypatch, **options)
    assert found == "rows"
    assert reason in line


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model": "gatv2"}, "attention reads whole rows"),
        ({"model": "sage", "edge_features": "weights"}, "--edge-features"),
        ({"model": "hgt"}, "attention reads whole rows"),
        ({"model": "rgcn"}, "its first layer reads rows by relation"),
        ({"control_variates": True}, "--control-variates"),
        ({"remote_row_cache": "0.1"}, "no rows of other ranks are fetched"),
    ],
)
def test_what_columns_cannot_be_with(options: dict[str, Any], reason: str) -> None:
    """Guards against steps by other sums than the model's, and options that do nothing."""
    with pytest.raises(OptionError, match=f"--features-by columns cannot be with .*{reason}"):
        check_together(Options(cache="c", batch_size=8, features_by="columns", **options))
    check_together(Options(cache="c", batch_size=8, features_by="auto", **options))
    with pytest.raises(OptionError, match="--features-by does nothing without --batch-size"):
        check_together(Options(cache="c", features_by="columns"))


def test_the_width_of_layer_1() -> None:
    """Guards against hidden rows that are counted where the scores themselves are summed."""
    assert first_width(Options(cache="c", hidden=9), 3) == 9
    assert first_width(Options(cache="c", hidden=9, layers=1), 3) == 3
    assert first_width(Options(cache="c", hidden=9, layers=1, model="gin"), 3) == 9
    assert first_width(Options(cache="c", hidden=9, layers=1, jumping="cat"), 3) == 9
