"""Keywords of the API: all options of the steps, none that is unknown, and errors that name them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import graphprep as gp
from graphprep.api import options as keywords
from graphprep.cache.features import FeatureOptions
from graphprep.datasets.importing.options import ImportOptions
from graphprep.errors import PartitionError, TopologyError, UsageError
from graphprep.partition.request import PartitionRequest
from graphprep.plan.batch_options import BatchPlan
from graphprep.plan.model_widths import ModelWidths
from graphprep.plan.search import Budget
from graphprep.plan.training import TrainingPlan
from graphprep.system import progress
from graphprep.system.options import options_in
from pipelines.from_memory import OPTIONS
from pipelines.store_step import StoreOptions
from pipelines.training.infer import LEARNT_BY
from tests.graphs import labelled_graph
from tests.stores import make_store
from trainer.config.options import MODELS
from trainer.config.options import OPTIONS as TRAINER_OPTIONS

OWN = {*keywords.StoreTarget.__annotations__, "name"}
REQUESTS = (PartitionRequest, ModelWidths, FeatureOptions)
OF_TRAIN = {"cache", "model", "output", "json", "quiet", "save_predictions", "save_pairs"}
"""options of the trainer that `train` takes by other names or decides"""


def words_of(kind: Any) -> tuple[str, ...]:
    """The values of a Literal, also beside None."""
    return get_args(kind) if get_origin(kind) is Literal else ()


def test_every_function_is_there() -> None:
    """Guards against a name that is promised and not there, and against folders of the same name."""
    import graphprep.partition.request as request
    from graphprep import api

    assert {*gp.__all__} == {*api.__all__, "__version__"}
    for name in gp.__all__:
        assert getattr(gp, name) is not None
        assert not isinstance(getattr(gp, name), types.ModuleType)
    assert request.PartitionRequest is PartitionRequest
    assert gp.partition.request is request  # type: ignore[attr-defined]
    script = "import graphprep.plan.rates, graphprep as gp; print(gp.plan.__name__, gp.partition.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plan", "partition"]


@pytest.mark.parametrize(
    ("typed", "requests", "others"),
    [
        (keywords.PartitionOptions, REQUESTS, {"progress", "memory", "dask"}),
        (keywords.FileOptions, (ImportOptions,), OWN - {"name"}),
    ],
)
def test_keywords_are_the_fields_of_the_step(typed: type, requests: tuple[type, ...], others: set[str]) -> None:
    """Guards against an option of the command line that Python lacks, and against other choices."""
    options = {option.name: option for request in requests for option in options_in(request) if not option.is_argument}
    kinds = get_type_hints(typed)
    assert kinds.keys() == options.keys() | others
    for name, option in options.items():
        if option.choices:
            assert words_of(kinds[name]) == tuple(option.choices), name
        is_union = get_origin(kinds[name]) in (Union, types.UnionType)
        members = get_args(kinds[name]) if is_union else (kinds[name],)
        assert (type(None) in members) == option.is_optional, name
        if option.kind in (int, float, bool) and not option.is_tuple:
            assert option.kind in members, name


def test_keywords_of_graphs_plans_and_stores() -> None:
    """Guards against options of an import, of a plan or of all stores that Python lacks."""
    imported = get_type_hints(ImportOptions)
    graph = get_type_hints(keywords.GraphOptions)
    assert graph.keys() == {*OPTIONS} | OWN
    assert {name: graph[name] for name in OPTIONS} == {name: imported[name] for name in OPTIONS}
    planned = get_type_hints(keywords.PlanOptions)
    assert planned.keys() - {"progress"} == {each.name for each in fields(TrainingPlan)}
    searched = get_type_hints(keywords.BestOptions)
    assert searched.keys() - planned.keys() == {each.name for each in (*fields(Budget), *fields(BatchPlan))}
    assert {*StoreOptions.__annotations__} == {"out", "memory_limit", "anyway", "executor"}  # the last by memory, dask


def test_keywords_of_training_are_the_options_of_the_trainer() -> None:
    """Guards against an option of the trainer that Python lacks or takes with other values."""
    kinds = get_type_hints(keywords.TrainOptions)
    assert kinds.keys() - {"progress"} == TRAINER_OPTIONS.keys() - OF_TRAIN
    for name, option in TRAINER_OPTIONS.items():
        if name in OF_TRAIN:
            continue
        assert words_of(kinds[name]) == option.choices, name
        if option.kind in (int, float, bool):
            assert option.kind in (kinds[name], *get_args(kinds[name])), name
    doc = gp.train.__doc__
    assert doc is not None
    for model in MODELS:
        assert model in doc


def test_keywords_of_inference_change_no_score() -> None:
    """Guards against an option of the trainer that is neither the run's own nor the pass's, and so is lost."""
    kinds, of_train = get_type_hints(keywords.InferOptions), get_type_hints(keywords.TrainOptions)
    assert kinds == {name: of_train[name] for name in kinds}
    assert not kinds.keys() & {*LEARNT_BY}
    lost = [
        name
        for name, option in TRAINER_OPTIONS.items()
        if option.group.decides_result and not option.may_change and name not in LEARNT_BY
    ]
    assert not lost


def test_every_field_of_the_partition_step_is_taken() -> None:
    """Guards against a keyword that is accepted and then lost."""
    store = make_store(labelled_graph(np.random.default_rng(1), 40, 200), name="small")
    given: dict[str, Any] = {
        "method": "random",
        "effort": "none",
        "purpose": "sampling",
        "fanouts": [3, 2],
        "batch_size": 16,
        "seed": 3,
        "imbalance": 1.2,
        "balance": "edges",
        "minimise": "total",
        "relay": "off",
        "limits": ["nodes", "work"],
        "hidden": 16,
        "layers": 3,
        "wire": "bf16",
        "features": "float16",
        "scale_features": "rows",
        "aggregate_features": "mean",
    }
    options = {
        option.name for request in (PartitionRequest, ModelWidths, FeatureOptions) for option in options_in(request)
    }
    assert given.keys() == options - {"row_bytes"}
    cache = gp.partition(store, parts=2, **given, progress=False)
    made_with = {**cache.attributes["options"], **cache.attributes["options"]["model_widths"]}
    assert {name: made_with[name] for name in given} == given
    again = gp.partition("small", parts=2, row_bytes=77, method="random", replace=True)
    assert again.attributes["options"]["row_bytes"] == 77


def test_signature_and_help_have_all_options() -> None:
    """Guards against a notebook that completes half of the options."""
    parameters = inspect.signature(gp.partition).parameters
    assert parameters["method"].default == "auto"
    assert parameters["imbalance"].default == 1.05
    assert parameters["progress"].default is True
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    doc = gp.import_graph.__doc__
    assert doc is not None
    for option in options_in(ImportOptions):
        assert option.is_argument or f"    {option.name}: " in doc
    assert "--" not in (gp.partition.__doc__ or "").partition("Options:")[2]


def test_an_unknown_keyword_names_the_nearest() -> None:
    """Guards against a misspelt option that is silently the default."""
    with pytest.raises(TypeError, match=r"partition\(\) got an unexpected keyword argument 'efort'.*'effort'"):
        gp.partition("nowhere", parts=2, efort="none")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"train\(\) got .* 'epoch' \(did you mean 'epochs'\?\)"):
        gp.train("nowhere/flat-2", epoch=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'quality'"):
        gp.compare("a", "b", quality=1)  # type: ignore[call-arg]


def test_errors_name_keywords() -> None:
    """Guards against advice to give flags that Python does not have."""
    store = make_store(labelled_graph(np.random.default_rng(1), 20, 60), name="small")
    with pytest.raises(UsageError, match="give either parts K or topology FILE_OR_PRESET") as caught:
        gp.partition(store)
    assert caught.value.exit_status == 2
    with pytest.raises(UsageError, match=r"^method 'metsi' is unknown \(did you mean 'metis'\?\)"):
        gp.partition(store, parts=2, method="metsi")  # type: ignore[arg-type]
    gp.partition(store, parts=2, method="random", effort="none")
    with pytest.raises(OSError, match="give replace=True to replace it or out for another folder"):
        gp.partition(store, parts=2, method="ldg", effort="none")
    with pytest.raises(UsageError, match="give either row_bytes or hidden"):
        gp.partition(store, parts=2, row_bytes=4, hidden=3)
    with pytest.raises(TopologyError, match="neither a topology preset nor a file"):
        gp.partition(store, topology="2x3")
    with pytest.raises(PartitionError, match=r"assignment \(an array\) has 3 part numbers for 20 nodes"):
        gp.partition(store, parts=2, assignment=[0, 1, 0])


def test_progress_can_be_silenced(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a notebook full of lines, and against one call that silences all later ones."""
    store = make_store(labelled_graph(np.random.default_rng(1), 20, 60), name="small")
    capsys.readouterr()
    gp.partition(store, parts=2, method="random", effort="none", progress=False)
    assert capsys.readouterr().err == ""
    assert not progress.is_quiet()
    gp.partition(store, parts=2, method="random", effort="none")
    assert "is up to date" in capsys.readouterr().err
    gp.quiet()
    gp.partition(store, parts=2, method="random", effort="none")
    gp.quiet(False)
    assert capsys.readouterr().err == ""
