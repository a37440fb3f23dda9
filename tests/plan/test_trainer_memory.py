"""The memory of a plan is the trainer's own: the same bytes, and the same sentence that its log has."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from graphprep.cache.features import FeatureOptions
from graphprep.core.types import HOMOGENEOUS_NODE
from graphprep.errors import CacheError, TrainingError, UsageError
from graphprep.partition.request import PartitionRequest
from graphprep.plan.trainer_memory import ExpectedMemory, Refusal, expected_memory
from graphprep.plan.training import TrainingPlan
from graphprep.system.child_process import child_settings, python_command
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, run_partition
from pipelines.planning.plan import plan_training
from tests.graphs import labelled_graph, with_edge_arrays
from tests.stores import make_store
from trainer.config.options import Options
from trainer.data.cache import open_cache
from trainer.data.labels import Labels
from trainer.data.objective import Objective
from trainer.data.part import load_part
from trainer.dist.communicator import Communicator
from trainer.startup.handshake import Facts, agree, facts_of
from trainer.startup.memory import Sizes, estimate_bytes, in_one_form, with_cross_edges

PLAN = TrainingPlan(hidden=8)
RANK = {
    "rows": 100,
    "halo": 10,
    "largest_halo": 6,
    "sent": 12,
    "others": 300,
    "edges": 1000,
    "index_bytes": 4,
    "features": 20,
    "outputs": 3,
    "entries": None,
}


def facts_of_ranks(run: Options) -> list[Facts]:
    """What the ranks of a run tell each other before they train."""
    cache = open_cache(run.cache)
    objective, facts = Objective.of(cache, run), []
    for rank in range(cache.num_parts):
        place = {"world": cache.num_parts, "rank": rank, "speaks": rank == 0}
        ranks = cast(Communicator, SimpleNamespace(**place, device=torch.device("cpu"), through_host=True))
        part = load_part(cache, rank, split=0, edge_features=run.edge_features)
        labels = Labels.of(part, objective, ranks.device)
        facts.append(facts_of(run, cache, part, labels, ranks, objective=objective))
    return facts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "sums", "options", "by_entries"),
    [
        (1.0, "none", {"model": "sage", "layers": 3}, False),
        (1 / 40, "none", {"model": "sage", "layers": 3}, True),
        (1 / 40, "none", {"input_dropout": 0.0}, True),
        (1 / 40, "gcn", {"input_dropout": 0.0}, False),
        (1.0, "none", {"layers": 3, "exchange": "tensor"}, False),
        (1.0, "none", {"model": "sage", "edge_features": "edge_attr"}, False),
        (1 / 40, "none", {"model": "sage", "edge_features": "time", "exchange": "tensor"}, True),
    ],
)
def test_a_plan_has_the_bytes_that_the_trainer_checks(
    graphprep_home: Path, share: float, sums: str, options: dict[str, Any], by_entries: bool
) -> None:
    """Guards against a plan that fits and a run that is refused, or the other way round; `sums` are the cache's own."""
    random = np.random.default_rng(1)
    raw = labelled_graph(random, 300, 3000, undirected=True, num_features=80)
    raw = with_edge_arrays(random, raw) if "edge_features" in options else raw
    x = raw.nodes[HOMOGENEOUS_NODE].x
    assert isinstance(x, np.ndarray)
    x[random.random(x.shape) >= share] = 0
    request, features = PartitionRequest(method="random"), FeatureOptions(aggregate_features=sums)
    target = graphprep_home / "cache"
    run_partition(
        PartitionPlan(
            store=make_store(raw), topology=Topology.flat(3), request=request, target=target, features=features
        )
    )
    found = plan_training(str(target), TrainingPlan(hidden=8, **options), gpu="T4")

    run = Options(cache=str(target), **found["training"])
    facts = facts_of_ranks(run)
    agreement = agree(run, open_cache(run.cache), facts)
    assert agreement.by_entries == by_entries == (found["entries_a_row"] is not None)
    assert agreement.memory == found["memory"]
    _, sizes = in_one_form([Sizes.of(fact["sizes"]) for fact in facts])
    expected = [estimate_bytes(run, one) for one in (with_cross_edges(sizes) if run.exchange == "tensor" else sizes)]
    assert [row["memory_by_purpose"] for row in found["ranks"]] == expected
    assert [row["memory_bytes"] for row in found["ranks"]] == [sum(one.values()) for one in expected]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "sage", "edge_features": "times"}, "no array times; give --edge-features edge_attr or time or"),
        ({"edge_features": "time"}, "does nothing for --model gcn"),
    ],
)
def test_features_of_edges_that_no_run_has_cannot_be_planned(
    graphprep_home: Path, options: dict[str, Any], sentence: str
) -> None:
    """Guards against a plan of a name that the trainer will refuse."""
    random = np.random.default_rng(1)
    store = make_store(with_edge_arrays(random, labelled_graph(random, 40, 200)))
    with pytest.raises(UsageError, match=sentence):
        plan_training(str(store.location), TrainingPlan(hidden=8, **options), parts=2, gpu="T4")


def test_what_the_trainer_refuses_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback of the trainer's, and against its sentence under another exit status."""
    with pytest.raises(CacheError, match="nowhere"):
        expected_memory([(PLAN, None)], [RANK], tmp_path / "nowhere")
    stale = replace(PLAN, exchange="tensor", staleness="adaptive")
    refused, found = expected_memory([(stale, None), (PLAN, None)], [RANK], None)
    assert isinstance(refused, Refusal)
    assert refused.sentence.startswith("--exchange tensor brings no halo row of which --staleness")
    assert isinstance(found, ExpectedMemory)
    with pytest.raises(UsageError, match=r"no request .*halo"):
        expected_memory([(PLAN, None)], [{"rows": 1}], None)
    for executable, words in (("/bin/false", "status 1; run `graphprep doctor`"), ("/nowhere", "No such file")):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(TrainingError, match=words) as caught:
            expected_memory([(PLAN, None)], [RANK], None)
        assert "the trainer cannot be started" in str(caught.value)


def test_the_trainer_answers_without_torch() -> None:
    """Guards against a plan that waits seconds for an import."""
    loaded = "import sys, trainer.startup.expected_memory; print('torch' in sys.modules)"
    done = subprocess.run(python_command("-c", loaded), capture_output=True, text=True, check=True, **child_settings())
    assert done.stdout.strip() == "False"
