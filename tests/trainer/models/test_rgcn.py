"""R-GCN on graphs of several types: k ranks, one rank and dense matrices in float64 give the same."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.trainer.handmade_cache import edit_json, make_cache, random_graph, seal
from tests.trainer.rank_group import Run, among_ranks, empty_traffic_log, run_options, train_once
from tests.trainer.typed_cache import (
    TypedGraph,
    dense_rgcn_loss,
    dense_rgcn_losses,
    dense_rgcn_scores,
    knowledge_graph,
    make_typed_cache,
    typed_graph,
)
from trainer.__main__ import main
from trainer.base.errors import CacheError, OptionError, TrainerError, TrainingError
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.data.cache import open_cache
from trainer.data.part import halo_ids
from trainer.data.typed_part import load_typed_part
from trainer.dist.communicator import Communicator
from trainer.dist.rank_info import RankInfo
from trainer.exchange.exchange import Exchange
from trainer.exchange.node_rows import gather_rows
from trainer.layers.aggregate import Aggregation
from trainer.layers.first_layer import features_of
from trainer.layers.typed_features import FirstInput
from trainer.models import Network, model_type, sums_of
from trainer.models.typed_model import remark_on_types, types_of
from trainer.sparse.dropout import Dropout
from trainer.startup.preflight import check_task

pytestmark = pytest.mark.slow

WORLDS = (1, 3, 4)
TOLERANCE = 1e-4
CPU = torch.device("cpu")


def alone() -> Communicator:
    return Communicator(RankInfo(), CPU, timeout=1.0, clock=Clock(CPU))


def spread(graph: TypedGraph, parts: int) -> dict[str, Any]:
    return {name: np.arange(len(x)) % parts for name, x in graph.x.items()}


def with_empty_types(graph: TypedGraph, parts: int) -> dict[str, Any]:
    """Subjects on the first part alone, authors on the last; on the second of four no papers."""
    nodes = {name: np.zeros(len(x), int) for name, x in graph.x.items()}
    nodes["author"] += parts - 1
    nodes["paper"] = np.arange(len(graph.x["paper"])) % parts
    if parts == 4:
        nodes["paper"][nodes["paper"] == 1] = 3
    return nodes


def few_words() -> TypedGraph:
    """Papers with 200 features, of which few are not 0."""
    graph = typed_graph(seed=3)
    rng = np.random.default_rng(3)
    shape = len(graph.x["paper"]), 200
    graph.x["paper"] = (rng.normal(size=shape) * (rng.random(shape) < 1 / 40)).astype(np.float32)
    return graph


GRAPHS: dict[str, tuple[TypedGraph, Any]] = {
    "three types": (typed_graph(), spread),
    "an empty type": (typed_graph(seed=1), with_empty_types),
    "a relation within parts": (typed_graph(seed=2, local_cites=True), spread),
    "few words a paper": (few_words(), with_empty_types),
    "one type, two relations": (knowledge_graph(), spread),
    "one type, one relation": (knowledge_graph(num_relations=1), spread),
}
DENSE: dict[str, dict[str, Any]] = {
    "rgcn": {},
    "bases": {"bases": 2, "layers": 3},
    "residual, jumping": {"residual": True, "jumping": "cat"},
    "clipped": {"clip_norm": 0.05, "lr": 0.05},
    "one layer": {"layers": 1},
    "sequential": {"exchange": "sequential"},
    "broadcast": {"exchange": "broadcast"},
    "tensor": {"exchange": "tensor"},
}
OTHER: dict[str, dict[str, Any]] = {
    "dropout": {"dropout": 0.4},
    "dropout, sequential, batch norm": {"dropout": 0.4, "exchange": "sequential", "norm": "batch", "layers": 3},
    "bf16 on the wire": {"wire": "bf16"},
}
EXACT: dict[str, dict[str, Any]] = {
    "fixed": {"staleness": "fixed:1", "staleness_grad": "fixed:1"},
    "adaptive": {"staleness": "adaptive:0", "staleness_grad": "adaptive:0"},
    "variation": {"staleness": "variation:0", "staleness_grad": "variation:0"},
    "sampling everything": {"boundary_sampling": 1.0},
}
INEXACT: dict[str, dict[str, Any]] = {
    "sampled": {"boundary_sampling": 0.5},
    "not at all": {"boundary_sampling": 0.0},
    "stale": {"staleness": "adaptive:3", "staleness_grad": "adaptive:3", "wire": "int8"},
    "half": {"precision": "fp16", "error_feedback": True, "wire": "int8"},
}
CASES = [(name, "rgcn") for name in GRAPHS]
CASES += [("three types", setting) for setting in (*DENSE, *OTHER) if setting != "rgcn"]
CASES += [("an empty type", setting) for setting in ("sequential", "broadcast", "tensor")]
MORE = [("three types", setting) for setting in (*EXACT, *INEXACT)]
SETTINGS = DENSE | OTHER | EXACT | INEXACT
EPOCHS = 3


def worlds_of(setting: str) -> tuple[int, ...]:
    """On how many ranks a case runs."""
    return WORLDS if setting == "rgcn" else (1, 3)


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    root = tmp_path_factory.mktemp("typed")
    return {
        (name, parts): make_typed_cache(root / f"{name}-{parts}", graph, assign(graph, parts), parts)
        for name, (graph, assign) in GRAPHS.items()
        for parts in WORLDS
    }


@pytest.fixture(scope="module")
def found(caches: dict[tuple[str, int], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """The training run of every case, by graph, setting and number of ranks, and gradients by graph and number."""
    outcomes: dict[Any, Any] = {}
    files = tmp_path_factory.mktemp("rows")
    for world in WORLDS:
        cases = [case for case in CASES if world in worlds_of(case[1])] + (MORE if world == 3 else [])
        tasks = [
            partial(train_once, model="rgcn", epochs=EPOCHS, cache=str(caches[name, world]), **SETTINGS[setting])
            for name, setting in cases
        ]
        tasks += [partial(gradients, cache=str(caches[name, world]), bases=2) for name in GRAPHS]
        tasks.append(
            partial(
                train_once,
                model="rgcn",
                epochs=EPOCHS,
                cache=str(caches["an empty type", world]),
                save_predictions=str(files / f"scores-{world}.npy"),
                save_embeddings=str(files / f"rows-{world}.npy"),
            )
        )
        results = iter(among_ranks(world, tasks))
        outcomes |= {(name, setting, world): next(results) for name, setting in cases}
        outcomes |= {(name, world): next(results) for name in GRAPHS}
        outcomes["files", world] = (files / f"scores-{world}.npy", files / f"rows-{world}.npy")
    return outcomes


def built(communicator: Communicator, *, cache: str, **changes: Any) -> tuple[Network, FirstInput, Any]:
    """The network, features and part that a run would begin with."""
    options, opened = run_options(cache, **{"model": "rgcn", **changes}), open_cache(cache)
    part = load_typed_part(opened, communicator.rank, split=0)
    communicator.connect()
    exchange, model = (
        Exchange(options, part, communicator, empty_traffic_log(communicator)),
        model_type(options, communicator),
    )
    aggregation = Aggregation(part, exchange, communicator, sums=sums_of(options, model))
    dropout = Dropout(part.ids_n, halo_ids(part), num_nodes=opened.num_nodes, seed=options.seed)
    features = features_of(options, opened, part, aggregation, dropout, CPU, sparse=False)
    sizes = {"num_features": 0, "num_classes": opened.num_classes, "num_nodes": opened.num_nodes}
    network = Network(
        model, options, aggregation, dropout, **sizes, communicator=communicator, types=types_of(options, opened, part)
    )
    return network, features, part


def gathered(network: Network, communicator: Communicator, *, of_gradients: bool = False) -> dict[str, Tensor]:
    """All weights by name, or their gradients over all ranks, learnt rows in the order of the graph."""
    learnt, everything = network.embeddings_by_name, {}
    for name, parameter in network.named_parameters():
        value = parameter.detach().clone()
        if of_gradients:
            value = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if name in learnt:
            everything[name] = gather_rows(
                value, learnt[name].ids_k, num_nodes=learnt[name].num_nodes, communicator=communicator
            )
        else:
            everything[name] = communicator.all_reduce(value) if of_gradients else value
    return everything


def gradients(communicator: Communicator, *, cache: str, **changes: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The first weights, and the gradients of the first loss."""
    network, features, part = built(communicator, cache=cache, **changes)
    scores_nC = network(features, PassContext(epoch=1, training=True))
    [count] = communicator.all_reduce(part.train_n.sum().reshape(1)).tolist()
    loss = functional.cross_entropy(scores_nC[part.train_n], part.y[part.train_n], reduction="sum") / count
    loss.backward()
    return gathered(network, communicator), gathered(network, communicator, of_gradients=True)


@pytest.mark.parametrize(("name", "setting"), CASES)
def test_ranks_reproduce_one_rank(found: dict[Any, Run], name: str, setting: str) -> None:
    """A halo column of another type, a degree of one part, a row that is sent under another's number change losses."""
    one = found[name, setting, 1]
    assert len(one.losses) == EPOCHS
    assert min(one.losses) < one.losses[0]
    for world in worlds_of(setting)[1:]:
        tolerance = 0.05 if setting in ("bf16 on the wire",) else TOLERANCE
        assert found[name, setting, world].losses == pytest.approx(one.losses, rel=tolerance)


@pytest.mark.parametrize(("name", "setting"), [case for case in CASES if case[1] in DENSE])
def test_one_rank_reproduces_dense_matrices(
    found: dict[Any, Run], caches: dict[Any, Path], name: str, setting: str
) -> None:
    """All ranks could share a mistake: a mean over out-edges, one degree for all relations, a wrong weight decay."""
    graph, _ = GRAPHS[name]
    cache = str(caches[name, 1])
    options = run_options(cache, model="rgcn", epochs=EPOCHS, **SETTINGS[setting])
    with alone() as communicator:
        network, _, _ = built(communicator, cache=cache, **SETTINGS[setting])
        first = gathered(network, communicator)
    assert found[name, setting, 1].losses == pytest.approx(dense_rgcn_losses(options, first, graph), rel=TOLERANCE)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("world", WORLDS)
def test_gradients_are_the_dense_ones(found: dict[Any, Any], name: str, world: int) -> None:
    """Losses that fall hide a gradient that lacks what one relation or one peer adds, above all to learnt rows."""
    graph, _ = GRAPHS[name]
    weights, mine = found[name, world]
    assert all(torch.equal(value, found[name, 1][0][key]) for key, value in weights.items()), "other first weights"
    leaves = {key: value.double().requires_grad_() for key, value in weights.items()}
    dense_rgcn_loss(run_options("c", model="rgcn", bases=2), leaves, graph).backward()
    assert any("learnt" in key for key in leaves)
    for key, leaf in leaves.items():
        assert leaf.grad is not None
        assert leaf.grad.abs().max() > 0, key
        torch.testing.assert_close(mine[key].double(), leaf.grad, rtol=TOLERANCE, atol=1e-7)


@pytest.mark.parametrize("setting", EXACT)
def test_policies_that_always_send_are_exact(found: dict[Any, Run], setting: str) -> None:
    """Copies of several types in one list, or of learnt rows, may not change a bit where nothing is kept."""
    assert found["three types", setting, 3].losses == found["three types", "rgcn", 3].losses


@pytest.mark.parametrize("setting", INEXACT)
def test_what_sends_less_still_learns(found: dict[Any, Run], setting: str) -> None:
    """A way that was not taken with several types, or one that saves nothing."""
    exact, less = found["three types", "rgcn", 3], found["three types", setting, 3]
    assert less.losses != exact.losses
    assert less.losses[-1] < 0.95 * less.losses[0]
    assert less.result["row_bytes_sent"] < exact.result["row_bytes_sent"]
    assert less.result["bytes_exact_boundary"] == exact.result["bytes_exact_boundary"]


def test_rows_travel_once_a_layer_and_peer(found: dict[Any, Run], caches: dict[Any, Path]) -> None:
    """Rows that are sent once a relation, or an exchange a type, multiply bytes and messages."""
    run = found["three types", "rgcn", 3]
    graph, _ = GRAPHS["three types"]
    boundary: set[tuple[str, int, int]] = set()
    for relation in graph.relations:
        boundary |= {
            (relation.source, int(src), int(dst) % 3)
            for src, dst in zip(relation.src, relation.dst, strict=True)
            if src % 3 != dst % 3
        }
    for row in run.result["exchanges"]:
        passes = EPOCHS if row["direction"] == "backward" else 2 * EPOCHS + 1
        assert row["exchanges"] == passes
        assert row["bytes_sent"] == passes * len(boundary) * 8 * 4
    assert [(row["layer"], row["direction"]) for row in run.result["exchanges"]] == [
        (layer, direction) for layer in (1, 2) for direction in ("backward", "forward")
    ]


def test_rows_are_saved_in_the_order_of_the_dataset(found: dict[Any, Any]) -> None:
    """Predictions of all types, or numbered among all of them, are of no use to whoever reads them."""
    graph, _ = GRAPHS["an empty type"]
    scores = [np.load(found["files", world][0]) for world in WORLDS]
    rows = [np.load(found["files", world][1]) for world in WORLDS]
    assert scores[0].shape == (48, 3)
    assert rows[0].shape == (48, 8)
    for other_scores, other_rows in zip(scores[1:], rows[1:], strict=True):
        np.testing.assert_allclose(other_scores, scores[0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(other_rows, rows[0], rtol=1e-3, atol=1e-4)
    test = graph.masks["test_mask"][:, 0]
    accuracy = float((scores[0].argmax(1) == graph.y)[test].mean())
    assert accuracy == pytest.approx(found["an empty type", "rgcn", 1].result["test_accuracy"])


def test_an_evaluation_is_the_dense_one(caches: dict[Any, Path]) -> None:
    """Scores of the target that lie in the rows of another type."""
    graph, _ = GRAPHS["three types"]
    cache = str(caches["three types", 1])
    with alone() as communicator, torch.no_grad():
        network, features, part = built(communicator, cache=cache)
        scores_nC = network.eval()(features, PassContext.evaluation(1))
        expected = dense_rgcn_scores(
            run_options(cache, model="rgcn"),
            {name: value.double() for name, value in gathered(network, communicator).items()},
            graph,
        )
    torch.testing.assert_close(scores_nC[part.target].double(), expected[part.target_ids], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"exchange": "sequential", "dropout": 0.4}, {"norm": "batch", "layers": 3}])
def test_one_relation_with_features_is_graphsage(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The way of one node type and one relation is the trainer's fast one, features' sums made once and all."""
    graph = random_graph(weighted=True, loops_and_duplicates=True)
    cache = make_cache(tmp_path / "cache", graph, np.arange(60) % 2, 2)
    models: list[dict[str, Any]] = [{"model": "sage"}, {"model": "rgcn"}, {"model": "rgcn", "bases": 3}]
    sage, rgcn, bases = among_ranks(
        2, [partial(train_once, cache=str(cache), epochs=4, **of, **changes) for of in models]
    )
    assert rgcn.losses == sage.losses
    assert rgcn.result["row_bytes_sent"] == sage.result["row_bytes_sent"]
    assert bases.losses != sage.losses
    assert bases.losses[-1] < bases.losses[0]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One graph cut into four and into two: a whole run on four ranks, and its second half on four and on two."""
    root, graph = tmp_path_factory.mktemp("resumed"), typed_graph()
    four, two = (make_typed_cache(root / f"{parts}", graph, spread(graph, parts), parts) for parts in (4, 2))
    common = {"model": "rgcn", "dropout": 0.4, "epochs": 6, "clip_norm": 1.0, "patience": 30}

    def once(cache: Path, folder: str, **changes: Any) -> Any:
        return partial(train_once, cache=str(cache), **{**common, "checkpoint": str(root / folder), **changes})

    sgd = {"optimiser": "sgd", "lr": 0.1}
    whole, _, rest_4, _, sgd_whole, _ = among_ranks(
        4,
        [
            once(four, "whole"),
            once(four, "first", epochs=3, checkpoint_every=1),
            once(four, "first", resume=True),
            once(four, "for two", epochs=3),
            once(four, "whole sgd", **sgd),
            once(four, "sgd", epochs=3, **sgd),
        ],
    )
    rest_2, sgd_rest = among_ranks(2, [once(two, "for two", resume=True), once(two, "sgd", resume=True, **sgd)])
    return {"whole": whole, "rest 4": rest_4, "rest 2": rest_2, "whole sgd": sgd_whole, "rest sgd": sgd_rest}


def test_learnt_rows_go_on_bit_for_bit(resumed: dict[str, Run]) -> None:
    """Rows, moments or best rows that one rank loses, or gets of another's nodes, change the losses."""
    assert resumed["rest 4"].losses == resumed["whole"].losses[3:]
    for name in ("test_accuracy", "val_accuracy", "best_epoch"):
        assert resumed["rest 4"].result[name] == resumed["whole"].result[name]


@pytest.mark.parametrize("kind", ["2", "sgd"])
def test_learnt_rows_go_on_on_other_ranks(resumed: dict[str, Run], kind: str) -> None:
    """Learnt rows lie on one rank each, so another number of ranks has to deal them anew."""
    whole = resumed["whole" if kind == "2" else "whole sgd"]
    assert resumed[f"rest {kind}"].losses == pytest.approx(whole.losses[3:], rel=TOLERANCE)
    assert resumed[f"rest {kind}"].result["best_epoch"] == whole.result["best_epoch"]
    assert resumed[f"rest {kind}"].result["val_accuracy"] == pytest.approx(whole.result["val_accuracy"])


def test_a_checkpoint_of_another_graph_is_refused(tmp_path: Path) -> None:
    """Rows of a type of another size would be dealt out in silence, or end in a traceback."""
    graph = typed_graph()
    cache = make_typed_cache(tmp_path / "cache", graph, spread(graph, 1), 1)
    other = make_typed_cache(tmp_path / "other", typed_graph(seed=4), spread(graph, 1), 1, source={"reader": "another"})
    fewer = make_typed_cache(
        tmp_path / "fewer",
        TypedGraph(x=graph.x, relations=graph.relations[:-1], target="paper", y=graph.y, role=graph.role),
        spread(graph, 1),
        1,
    )
    common: dict[str, Any] = {"model": "rgcn", "epochs": 2, "checkpoint": str(tmp_path / "runs")}
    with alone() as communicator:
        train_once(communicator, cache=str(cache), **common)
        for wrong in (other, fewer):
            with pytest.raises(TrainingError, match="another graph"):
                train_once(communicator, cache=str(wrong), resume=True, **common)
        with pytest.raises(OptionError, match="--bases 0, not 2"):
            train_once(communicator, cache=str(cache), resume=True, bases=2, **common)


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        ({"model": "gcn"}, TrainingError, "trained with --model rgcn"),
        ({"model": "own.py:Model"}, TrainingError, "trained with --model rgcn"),
        ({"model": "rgcn", "inductive": True}, OptionError, "--inductive"),
        ({"model": "rgcn", "split": 1}, OptionError, "--split 1"),
    ],
)
def test_what_has_no_types_is_refused(
    caches: dict[Any, Path], changes: dict[str, Any], kind: type[TrainerError], sentence: str
) -> None:
    """A model that takes papers for authors is worse than none."""
    cache = open_cache(str(caches["three types", 3]))
    with pytest.raises(kind, match=sentence):
        check_task(cache, run_options(cache.folder, **changes))


def test_the_target_is_chosen(tmp_path: Path) -> None:
    """With two types that have labels one of them would be learnt unasked; a name with a typo would be ignored."""
    graph = typed_graph()
    one = str(make_typed_cache(tmp_path / "one", graph, spread(graph, 1), 1))
    two = {"author": 2, "paper": 3, "subject": 0}
    both = str(make_typed_cache(tmp_path / "both", graph, spread(graph, 1), 1, num_classes=two))
    assert open_cache(one).node_type == open_cache(one, "paper").node_type == open_cache(both, "paper").node_type
    assert open_cache(both, "author").num_classes == 2
    for folder, target, sentence in (
        (both, None, "author, paper of .* choose one with --target"),
        (one, "author", "have no labels; paper has"),
        (one, "papers", "has the node types author, paper, subject"),
    ):
        with pytest.raises(OptionError, match=sentence):
            open_cache(folder, target)


def test_types_without_features_are_announced(caches: dict[Any, Path]) -> None:
    """Who left features out by mistake should see that rows are learnt in their place."""
    cache = open_cache(str(caches["three types", 1]))
    said = remark_on_types(run_options("c", model="rgcn"), cache)
    assert said is not None
    assert "rows are learnt for subject" in said
    assert "learning paper" in said


def test_a_relation_between_unknown_types_is_damage(tmp_path: Path) -> None:
    """A traceback, or a relation that is left out."""
    graph = typed_graph()
    folder = make_typed_cache(tmp_path / "cache", graph, spread(graph, 1), 1, edge_types={"paper__cites__book": 3})
    with pytest.raises(CacheError, match="paper__cites__book"):
        open_cache(str(folder))


def test_halo_lists_that_do_not_fit_their_blocks_are_damage(tmp_path: Path) -> None:
    """Columns would be counted into the next type's rows."""
    graph = typed_graph()
    folder = make_typed_cache(tmp_path / "cache", graph, spread(graph, 2), 2)
    for name in ("indptr", "indices"):
        assert (folder / f"parts/0/edges/subject__of__paper/from_1/{name}").is_dir()
    edit_json(folder / "parts/0/edges/subject__of__paper/from_1/zarr.json", shape=[24, 99])
    seal(folder)
    with pytest.raises(CacheError, match="shape"):
        load_typed_part(open_cache(str(folder)), 0, split=0)


def test_the_command_line(caches: dict[Any, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Options that reach no model, or a traceback where a sentence belongs."""
    cache = str(caches["three types", 1])
    quick = [cache, "--epochs", "2", "--hidden", "4", "-q", "--json"]
    counts = {}
    for bases in ("0", "2"):
        assert main([*quick, "--model", "rgcn", "--bases", bases, "--target", "paper"]) == 0
        counts[bases] = json.loads(capsys.readouterr().out.splitlines()[-1])["parameters"]
    # Features of papers and authors with biases, 7 subjects; 6 relations, 3 of them into papers; W_self and biases.
    assert counts["0"] == 8 * 4 + 2 * 4 + 7 * 4 + (6 + 1) * 16 + 4 + (3 + 1) * 12 + 3
    assert counts["2"] == 8 * 4 + 2 * 4 + 7 * 4 + (2 + 1) * 16 + 6 * 2 + 4 + (2 + 1) * 12 + 3 * 2 + 3
    for wrong, status, sentence in (
        (["--model", "sage"], 7, "trained with --model rgcn"),
        (["--model", "gcn", "--bases", "2"], 2, "--bases does nothing for --model gcn; it is for rgcn"),
        (["--model", "rgcn", "--bases", "-1"], 2, "--bases"),
        (["--model", "rgcn", "--heads", "8"], 2, "--heads"),
        (["--model", "rgcn", "--target", "subject"], 2, "paper has"),
    ):
        assert main([*quick, *wrong]) == status
        said = capsys.readouterr().err
        assert sentence in said
        assert "Traceback" not in said
