"""A model of the user's own, and the page that shows how to write one."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.rank_group import Run, among_ranks, train_once
from trainer.base.errors import OptionError, TrainerError, TrainingError

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/training.md"
NAME = "directed, weighted, uneven"
HEAD = "import torch\nclass Mine(torch.nn.Module):\n"
INIT = "    def __init__(self, plan):\n        super().__init__()\n        self.w = plan.weight(1, 1)\n"
TWICE = """
    sums = "sum"
    def __init__(self, plan):
        super().__init__()
        self.weight = plan.weight(plan.num_features, plan.num_classes)
    def forward(self, graph):
        rows = graph.rows(graph.features.own(self.weight).float())
        return rows.aggregate() + rows.maximum()
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the page, as a file."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 20
    file = tmp_path_factory.mktemp("own") / "two_means.py"
    file.write_text(code)
    return file


def test_the_page_s_model_trains_alike_on_any_number_of_ranks(shown: Path, caches: dict[Any, Path]) -> None:
    """A page whose example does not run, or weights that each rank draws for itself."""

    def task(ranks: int) -> Any:
        return partial(train_once, cache=str(caches[NAME, ranks]), model=f"{shown}:TwoMeans", dropout=0.3)

    [one], [several] = among_ranks(1, [task(1)]), among_ranks(3, [task(3)])
    assert several.losses == pytest.approx(one.losses, rel=1e-4)
    assert one.losses[-1] < one.losses[0]
    assert one.result["parameters"] == 6 * 8 * 2 + 8 * 3


def test_sums_of_an_own_model_go_by_columns_and_maxima_by_rows(caches: dict[Any, Path], tmp_path: Path) -> None:
    """A maximum that is taken over the columns of a rank, or a sum that is left to boundary without a word."""
    file = tmp_path / "mine.py"
    file.write_text(HEAD + TWICE.replace("rows.maximum()", "graph.rows(rows.own()).maximum()"))
    tasks = [
        partial(train_once, cache=str(caches[NAME, 3]), model=f"{file}:Mine", epochs=5, exchange=exchange)
        for exchange in ("boundary", "tensor", "auto")
    ]
    boundary, tensor, auto = among_ranks(3, tasks)
    assert tensor.losses == pytest.approx(boundary.losses, rel=1e-4)
    assert auto.losses == boundary.losses
    sent = [
        {row["layer"]: row["bytes_sent"] for row in run.result["exchanges"] if row["direction"] == "backward"}
        for run in (boundary, tensor)
    ]
    assert sent[0][2] != sent[1][2]
    assert sent[0][3] == sent[1][3]


def trained(caches: dict[Any, Path], model: str) -> Run:
    [run] = among_ranks(1, [partial(train_once, cache=str(caches[NAME, 1]), model=model, epochs=2)])
    return run


@pytest.mark.parametrize(
    ("text", "name", "kind", "said"),
    [
        (None, "Mine", OptionError, "cannot read"),
        ("x = 1\n", "Mine", OptionError, "defines no Mine"),
        ("Mine = 3\n", "Mine", OptionError, "no class of torch.nn.Module"),
        ("import nowhere\n", "Mine", OptionError, "ModuleNotFoundError in line 1"),
        ("def f(:\n", "Mine", OptionError, "SyntaxError"),
        (HEAD + "    sums = 'median'\n", "Mine", OptionError, "gcn, mean, sum or None"),
        (HEAD + "    def __init__(self, plan):\n        raise ValueError('no')\n", "Mine", TrainingError, "line 4 of"),
        (HEAD + INIT, "Mine", TrainingError, "NotImplementedError"),
        (
            HEAD + INIT + "    def forward(self, graph): return 3\n",
            "Mine",
            TrainingError,
            "gave a int where a float tensor [60, 3] belongs",
        ),
        (HEAD + "    def __init__(self, plan): super().__init__()\n", "Mine", TrainingError, "no parameters"),
        (HEAD + TWICE, "Mine", TrainingError, "asks twice"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    caches: dict[Any, Path], tmp_path: Path, text: str | None, name: str, kind: type[TrainerError], said: str
) -> None:
    """A traceback through the trainer hides that the mistake is in the user's own file."""
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(kind, match=re.escape(said)) as caught:
        trained(caches, f"{file}:{name}")
    assert "\n" not in str(caught.value)
    assert (
        caught.value.shared or "cannot read" in str(caught.value) or "gave a" in str(caught.value) or "NotImpl" in said
    )


def test_a_model_without_parameters_or_sums_is_told(caches: dict[Any, Path], tmp_path: Path) -> None:
    """A sum without `sums` must not pass for some default's."""
    file = tmp_path / "mine.py"
    file.write_text(HEAD + TWICE.replace('sums = "sum"', "").replace(" + rows.maximum()", ""))
    with pytest.raises(TrainingError, match="sums"):
        trained(caches, f"{file}:Mine")
