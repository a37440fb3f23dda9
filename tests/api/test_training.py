"""Training from Python: one rank or several, predictions by id, errors, and an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphprep as gp
from graphprep.cache.read import PartitionCache
from graphprep.errors import CacheError, TrainingError, UsageError
from tests.conftest import heed_interrupts
from tests.forks import fork_trainers

pytestmark = pytest.mark.slow
WAIT = 120.0
"""seconds after which a test gives up"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def graphprep_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One home folder for all tests of the module, with their caches."""
    monkeypatch.setenv("GRAPHPREP_HOME", str(home))
    return home


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks in place of new interpreters, which are proved by other tests of this module."""
    fork_trainers(monkeypatch)


@pytest.fixture(scope="module")
def made(home: Path) -> dict[int, Path]:
    """Caches of one and two parts of a graph whose nodes have names, and classes that features tell."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (60,), generator=generator)
    x = torch.nn.functional.one_hot(y, 3) + 0.1 * torch.randn(60, 3, generator=generator)
    names = [f"person-{number:02d}" for number in range(60)][::-1]
    edges = torch.randint(0, 60, (2, 240), generator=generator)
    index = ([names[row] for row in edges[0]], [names[row] for row in edges[1]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPREP_HOME", str(home))
        store = gp.from_arrays(index, ids=names, x=x, y=y, undirected=True, name="people")
        return {parts: gp.partition(store, parts=parts, method="random", effort="none").folder for parts in (1, 2)}


@pytest.fixture
def caches(made: dict[int, Path]) -> dict[int, PartitionCache]:
    return {parts: PartitionCache(folder) for parts, folder in made.items()}


def test_one_and_two_ranks_predict_the_same(
    caches: dict[int, PartitionCache], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Guards against predictions in the order of parts, of other ids, or that depend on the number of ranks."""
    runs = {parts: gp.train(cache, model="sage", epochs=12, lr=0.05, dropout=0.0) for parts, cache in caches.items()}
    assert "no output was given" in capfd.readouterr().err
    one, two = runs[1], runs[2]
    assert one.result["ranks"] == 1
    assert two.result["ranks"] == 2
    np.testing.assert_allclose(one.predictions(), two.predictions(), atol=1e-4)
    assert one.predictions().dtype == np.float32
    assert two.ids().tolist() == [f"person-{number:02d}" for number in range(60)][::-1]
    y = gp.open_store("people").node_table("node").y
    assert y is not None
    table = two.prediction_table()
    assert list(table) == ["id", "prediction", "score_0", "score_1", "score_2"]
    assert float((table["prediction"] == y).mean()) > 0.9
    assert set(two.metrics) == {"val_accuracy", "test_accuracy"}
    assert list(two.history) == list(two.history.to_pandas().columns)
    assert two.history["epoch"].tolist() == list(range(1, 13))
    np.testing.assert_allclose(one.history["loss"], two.history["loss"], atol=1e-4)
    assert two.history["loss"][-1] < two.history["loss"][0]
    assert two.metrics.keys() == {"val_accuracy", "test_accuracy"}
    assert repr(two).startswith("TrainingRun(sage on people, 2 ranks, 12 epochs: val_accuracy ")
    two.write_predictions(tmp_path / "predictions.csv")
    assert (tmp_path / "predictions.csv").read_text().splitlines()[1].startswith('"person-59",')
    for name, weight in one.state_dict().items():
        torch.testing.assert_close(weight, two.state_dict()[name], atol=1e-4, rtol=1e-4)
    assert one.state_dict()["layers.0.own_FG"].shape == (3, 64)


@pytest.mark.usefixtures("forked")
def test_a_run_that_is_kept(caches: dict[int, PartitionCache], tmp_path: Path) -> None:
    """Guards against a run that is overwritten unasked, and one that cannot be read or started again."""
    folder = tmp_path / "runs" / "first"
    run = gp.train("people/flat-1", epochs=2, output=folder, seed=5, class_weights=[1, 2, 1.5], progress=False)
    assert run.folder == folder
    assert {path.name for path in folder.iterdir()} == {
        "config.toml",
        "result.json",
        "history.jsonl",
        "predictions.npy",
        "checkpoint",
    }
    assert ".partial" not in (folder / "config.toml").read_text()
    again = gp.open_run(folder)
    assert again.options["class_weights"] == "1,2,1.5"
    assert again.options["checkpoint"] == str(folder / "checkpoint")
    assert again.result == json.loads((folder / "result.json").read_text())
    assert again.cache.key == caches[1].key
    assert again.node_type == "node"
    with pytest.raises(UsageError, match="holds a run; give replace=True to replace it"):
        gp.train(caches[1], epochs=1, output=folder)
    with pytest.raises(UsageError, match="argument lr: expected a number"):
        gp.train(caches[1], lr=-1.0, output=folder, replace=True)
    assert gp.open_run(folder).options["seed"] == 5
    assert gp.train(caches[1], epochs=1, output=folder, replace=True, seed=6).options["seed"] == 6
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"holds letter\.txt, which is no part of a run"):
        gp.train(caches[1], epochs=1, output=tmp_path / "mine", replace=True)
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"holds letter\.txt, which is no part of a run"):
        gp.train(caches[1], epochs=1, output=folder, replace=True)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["first"]


@pytest.mark.usefixtures("forked")
def test_places_inside_the_run(caches: dict[int, PartitionCache], tmp_path: Path) -> None:
    """Guards against checkpoints and embeddings that are lost as the run gets its name, and runs that go on."""
    folder = tmp_path / "run"
    run = gp.train(
        caches[1],
        epochs=2,
        output=folder,
        checkpoint=folder / "weights",
        save_embeddings=folder / "rows" / "all.npy",
        progress=False,
    )
    assert run.options["checkpoint"] == str(folder / "weights")
    assert np.load(folder / "rows" / "all.npy").shape == (60, 64)
    assert run.state_dict()["layers.0.weight_FG"].shape == (3, 64)
    with pytest.raises(UsageError, match="lies inside output, which is made anew"):
        gp.train(caches[1], output=tmp_path / "new", checkpoint=tmp_path / "new" / "weights", resume=True)
    more = gp.train(
        caches[2], epochs=5, output=tmp_path / "more", checkpoint=folder / "weights", resume=True, progress=False
    )
    assert more.result["resumed_after"] == 2
    assert more.history["epoch"].tolist() == [3, 4, 5]


@pytest.mark.usefixtures("forked")
def test_damaged_runs(caches: dict[int, PartitionCache], tmp_path: Path) -> None:
    """Guards against half a run that is taken for a whole one, and against damaged weights."""
    run = gp.train(caches[1], epochs=1, output=tmp_path / "run", progress=False)
    [checkpoint] = (tmp_path / "run" / "checkpoint").glob("*.pt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1] + b"x")
    with pytest.raises(TrainingError, match="is damaged"):
        run.state_dict()
    checkpoint.unlink()
    with pytest.raises(TrainingError, match="there is no checkpoint in"):
        run.state_dict()
    (tmp_path / "run" / "predictions.npy").write_bytes(b"no array")
    with pytest.raises(TrainingError, match=r"predictions.npy is missing or damaged"):
        run.predictions()
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(TrainingError, match=r"is no finished run: result.json is missing"):
        gp.open_run(tmp_path / "run")


@pytest.mark.usefixtures("forked")
def test_errors_are_the_trainers(caches: dict[int, PartitionCache], tmp_path: Path) -> None:
    """Guards against a traceback of subprocess, a process that exits, and folders of runs that failed."""
    with pytest.raises(CacheError, match="neither a folder nor NAME/LABEL"):
        gp.train("people/flat-9")
    with pytest.raises(UsageError, match=r"did you mean sage\?"):
        gp.train(caches[1], model="sagee", output=tmp_path / "run")
    with pytest.raises(UsageError, match="resume=True needs checkpoint"):
        gp.train(caches[1], resume=True, output=tmp_path / "run")
    own = tmp_path / "own.py"
    own.write_text("import torch\n\n\nclass Broken(torch.nn.Module):\n    def __init__(self, plan):\n        1 / 0\n")
    with pytest.raises(TrainingError, match="division by zero"):
        gp.train(caches[2], model=f"{own}:Broken", output=tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"own.py"}


def test_a_class_as_model(caches: dict[int, PartitionCache], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a class of the notebook itself that the ranks cannot import."""
    (tmp_path / "mean_model.py").write_text(
        textwrap.dedent(
            """
            import torch

            class Mean(torch.nn.Module):
                sums = "mean"

                def __init__(self, plan):
                    super().__init__()
                    self.weight = plan.weight(plan.num_features, plan.num_classes)
                    print("a line of the model's own")

                def forward(self, graph):
                    return graph.features.aggregate(self.weight).float()
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    from mean_model import Mean  # type: ignore[import-not-found]

    run = gp.train(caches[1], model=Mean, epochs=2)
    assert run.state_dict().keys() == {"weight"}
    local = type("Local", (torch.nn.Module,), {"__module__": "__main__", "__qualname__": "f.<locals>.Local"})
    with pytest.raises(UsageError, match="lies in no file of its own"):
        gp.train(caches[1], model=local)


@pytest.mark.usefixtures("forked")
def test_a_thread_may_train(caches: dict[int, PartitionCache]) -> None:
    """Guards against signal handlers, which only the main thread may set."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(gp.train(caches[1], epochs=1, progress=False).metrics))
    thread.start()
    thread.join(WAIT)
    assert found


def test_an_interruption_ends_the_ranks(caches: dict[int, PartitionCache], tmp_path: Path) -> None:
    """Guards against ranks that train on after a notebook's kernel was interrupted, and half a run."""
    script = tmp_path / "interrupted.py"
    script.write_text(
        "import graphprep as gp\n"
        "try:\n"
        f"    gp.train('people/flat-2', epochs=10_000_000, patience=0, output={str(tmp_path / 'run')!r})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "    input()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
        preexec_fn=heed_interrupts,
        start_new_session=True,
    ) as kernel:
        assert kernel.stdin is not None
        assert kernel.stdout is not None
        assert kernel.stderr is not None
        try:
            line = next((line for line in kernel.stderr if "epoch" in line and "loss" in line), None)
            assert line is not None
            ranks = _descendants(kernel.pid)
            assert len(ranks) == 3
            kernel.send_signal(signal.SIGINT)
            assert kernel.stdout.readline() == "interrupted\n"
            assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["interrupted.py"]
            kernel.communicate("\n", timeout=WAIT)
        finally:
            kernel.kill()


def _descendants(process: int) -> list[int]:
    """All processes below one."""
    children = [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return [*children, *(further for child in children for further in _descendants(child))]


@pytest.mark.usefixtures("forked")
def test_links_are_learnt_from_python(caches: dict[int, PartitionCache], tmp_path: Path) -> None:
    """Guards against a run of pairs that reads like one of nodes: metrics, the tables, inference on another cache."""
    options: dict[str, Any] = {"epochs": 4, "dropout": 0.0, "embedding": 3, "decoder": "distmult"}
    run = gp.train(caches[2], task="links", metric="ap", output=tmp_path / "run", **options)
    assert list(run.metrics)[:2] == ["val_ap", "test_ap"]
    assert {"test_roc_auc", "test_mrr", "test_hits@10", "val_mrr"} <= run.metrics.keys()
    assert {"val_ap", "val_roc_auc", "val_mrr"} <= set(run.history)
    assert list(run.prediction_table()) == ["id", "embedding_0", "embedding_1", "embedding_2"]
    pairs = run.pair_table()
    names = [f"person-{number:02d}" for number in range(60)][::-1]
    assert set(pairs["source"]) | set(pairs["destination"]) <= set(names)
    row_of = {name: row for row, name in enumerate(names)}
    weights = run.state_dict()["decoder.relation_F"].numpy()
    rows = run.predictions()
    ends = [rows[[row_of[name] for name in pairs[end]]] for end in ("source", "destination")]
    np.testing.assert_allclose((ends[0] * weights * ends[1]).sum(1), pairs["score"], rtol=1e-4, atol=1e-5)
    assert pairs["is_edge"].sum() * 2 == len(pairs["is_edge"])
    again = gp.infer(caches[1], run)
    np.testing.assert_allclose(again.predictions(), rows, atol=1e-4)
    assert again.metrics == pytest.approx(run.metrics, abs=1e-4)
    plain = gp.train(caches[1], epochs=1)
    with pytest.raises(TrainingError, match=r"train with task='links'"):
        plain.pair_table()
