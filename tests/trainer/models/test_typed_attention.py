"""HGT and R-GAT on graphs of several types, against PyG's HGTConv and GATConv."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, HGTConv

from tests.trainer.handmade_cache import make_cache, random_graph
from tests.trainer.models.test_rgcn import alone, built, gathered, spread, with_empty_types
from tests.trainer.rank_group import among_ranks, run_options, train_once
from tests.trainer.typed_cache import TypedGraph, make_typed_cache, typed_graph
from trainer.base.errors import OptionError
from trainer.base.pass_context import PassContext
from trainer.base.traffic_log import Clock
from trainer.config.command_line import parse
from trainer.data.csr import Csr
from trainer.layers import attention
from trainer.layers.relation_attention import attend
from trainer.sparse import attention_scores
from trainer.sparse.adjacency import TwoWay
from trainer.sparse.attention_scores import DotScores, SumScores
from trainer.sparse.edges import EdgeBlocks

HEADS, EPOCHS, WORLDS = 2, 3, (1, 3)
PLAIN: dict[str, dict[str, Any]] = {
    "hgt": {"model": "hgt", "heads": HEADS, "hidden": 4, "layers": 3},
    "rgat": {"model": "rgat", "heads": HEADS, "hidden": 4, "layers": 3, "attention_dropout": 0.0},
}
DROPOUT = {"dropout": 0.3, "optimiser": "sgd", "lr": 0.03}
"""Adam makes steps of full size of a gradient that is nothing but rounding, as that of R-GAT's a' nearly is."""
OTHER: dict[str, dict[str, Any]] = {
    "sequential": {"exchange": "sequential"},
    "dropout": DROPOUT,
    "dropout, broadcast, jumping": {**DROPOUT, "exchange": "broadcast", "jumping": "cat", "residual": True},
    "dropout, sequential, batch norm": {**DROPOUT, "exchange": "sequential", "norm": "batch"},
    "kept rows of age 0": {"staleness": "adaptive:0", "staleness_grad": "adaptive:0"},
}
EXACT = ("sequential", "kept rows of age 0")


class OfPyg(nn.Module):
    """The same model of PyG's layers, with the first weights of ours."""

    def __init__(self, model: str, weights: Mapping[str, Tensor], graph: TypedGraph, layers: int) -> None:
        super().__init__()
        self.names = list(graph.x)
        self.ends = [(one.source, one.name, one.destination) for one in graph.relations]
        self.edges = {
            ends: torch.from_numpy(np.stack([one.src, one.dst]))
            for ends, one in zip(self.ends, graph.relations, strict=True)
        }
        self.x = {name: torch.from_numpy(x) for name, x in graph.x.items() if x.shape[1]}
        self.target = graph.target
        self.ours = nn.ParameterDict({name.replace(".", ":"): nn.Parameter(one) for name, one in weights.items()})
        self.model, self.num_layers = model, layers
        make = self._hgt if model == "hgt" else self._rgat
        self.convs = nn.ModuleList(make(number, number == layers - 1) for number in range(layers))

    def of(self, name: str) -> nn.Parameter:
        return self.ours[f"model:{name}".replace(".", ":")]

    def _hgt(self, number: int, is_last: bool) -> nn.Module:
        def part(name: str) -> Tensor:
            return self.of(f"layers.{number}.{name}").detach()

        width = part("key_TFF").shape[2]
        conv = HGTConv(width, width, (self.names, self.ends), heads=HEADS)
        state = {}
        for place, name in enumerate(self.names):
            kinds = ("key", "query", "value")
            state[f"kqv_lin.lins.{name}.weight"] = torch.cat([part(f"{kind}_TFF")[place].T for kind in kinds])
            state[f"kqv_lin.lins.{name}.bias"] = torch.cat([part(f"{kind}_bias_TF")[place] for kind in kinds])
            state[f"out_lin.lins.{name}.weight"] = part("out_TFF")[place].T
            state[f"out_lin.lins.{name}.bias"] = part("out_bias_TF")[place]
            state[f"skip.{name}"] = part("skip_T")[place : place + 1]
        for kind, name in (("k_rel", "key_RhDD"), ("v_rel", "value_RhDD")):
            state[f"{kind}.weight"] = part(name).transpose(0, 1).flatten(0, 1)
        for place, ends in enumerate(self.ends):
            state[f"p_rel.{'__'.join(ends)}"] = part("priority_Rh")[place : place + 1]
        conv.load_state_dict(state)
        return conv

    def _rgat(self, number: int, is_last: bool) -> nn.Module:
        def part(name: str) -> Tensor:
            return self.of(f"layers.{number}.{name}").detach()

        convs = nn.ModuleDict()
        used = [ends for ends in self.ends if not is_last or ends[2] == self.target]
        for place, ends in enumerate(used):
            weight_FG = part("relations_RFG")[place]
            conv = GATConv(
                len(weight_FG),
                weight_FG.shape[1] // HEADS,
                heads=HEADS,
                concat=not is_last,
                add_self_loops=False,
                bias=False,
            )
            conv.load_state_dict(
                {
                    "lin.weight": weight_FG.T,
                    "att_src": part("source_RhF")[place : place + 1],
                    "att_dst": part("destination_RhF")[place : place + 1],
                }
            )
            convs["__".join(ends)] = conv
        return convs

    def forward(self) -> Tensor:
        rows, counts = {}, {True: 0, False: 0}
        for name in self.names:
            has_features = name in self.x
            number = counts[has_features]
            counts[has_features] += 1
            if has_features:
                rows[name] = self.x[name] @ self.of(f"inputs.weights.{number}") + self.of(f"inputs.biases.{number}")
            else:
                rows[name] = self.of(f"inputs.learnt.{number}.rows_kF")
        for number, conv in enumerate(self.convs):
            if self.model == "hgt":
                rows = conv(rows, self.edges)
                continue
            prefix = f"layers.{number}."
            out = {name: of @ self.of(f"{prefix}own_FG") + self.of(f"{prefix}bias_G") for name, of in rows.items()}
            for ends in self.ends:
                if "__".join(ends) in conv:
                    x = rows[ends[0]], rows[ends[2]]
                    out[ends[2]] = out[ends[2]] + conv["__".join(ends)](x, self.edges[ends])
            rows = out if number == self.num_layers - 1 else {name: nn.functional.elu(of) for name, of in out.items()}
        if self.model == "hgt":
            return rows[self.target] @ self.of("scores.weight_FC") + self.of("scores.bias_C")
        return rows[self.target]


@pytest.fixture(scope="module")
def graph() -> TypedGraph:
    return typed_graph()


@pytest.fixture(scope="module")
def caches(graph: TypedGraph, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Path]:
    root = tmp_path_factory.mktemp("typed attention")
    found: dict[Any, Path] = {}
    for world in WORLDS:
        found[world] = make_typed_cache(root / f"{world}", graph, spread(graph, world), world)
        assignment = with_empty_types(graph, world)
        found["empty", world] = make_typed_cache(root / f"empty-{world}", graph, assignment, world)
    return found


@pytest.fixture(scope="module")
def trained(caches: dict[Any, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """The runs of every setting by model, setting and number of ranks, and the files of one that is resumed."""
    files, runs = tmp_path_factory.mktemp("files"), dict[Any, Any]()
    for world in (3, 1):
        tasks: dict[Any, Any] = {}
        for model, plain in PLAIN.items():
            once = partial(train_once, cache=str(caches[world]), epochs=EPOCHS, weight_decay=0.0, **plain)
            tasks[model, "plain", world] = once
            for name, changes in OTHER.items():
                tasks[model, name, world] = partial(once, **changes)
            empty = partial(once, cache=str(caches["empty", world]))
            more = {"checkpoint": str(files / model), "save_predictions": str(files / f"{model}-{world}.npy")}
            if world == 1:
                more |= {"resume": True, "exchange": "sequential"}
            tasks[model, "empty", world] = partial(empty, **more)
            runs[model, "file", world] = files / f"{model}-{world}.npy"
        runs |= dict(zip(tasks, among_ranks(world, list(tasks.values())), strict=True))
    return runs


def first_weights(cache: Path, **changes: Any) -> dict[str, Tensor]:
    with alone() as communicator:
        network, _, _ = built(communicator, cache=str(cache), **changes)
        return gathered(network, communicator)


@pytest.mark.slow
@pytest.mark.parametrize("model", PLAIN)
def test_losses_are_those_of_pyg_on_any_number_of_ranks(
    trained: dict[Any, Any], caches: dict[Any, Path], graph: TypedGraph, model: str
) -> None:
    """A softmax over one rank's edges or one relation's, a halo row of another type, a gradient that stays here."""
    theirs = OfPyg(model, first_weights(caches[1], **PLAIN[model]), graph, PLAIN[model]["layers"])
    parameters = [*theirs.ours.values(), *theirs.convs.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.01)
    train, y, losses = torch.from_numpy(graph.role < 2), torch.from_numpy(graph.y), []
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(theirs()[train], y[train])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert trained[model, "plain", 1].losses == pytest.approx(losses, rel=1e-5)
    assert trained[model, "plain", 3].losses == pytest.approx(losses, rel=1e-5)
    for name in EXACT:
        assert trained[model, name, 3].losses == pytest.approx(losses, rel=1e-5)
    assert losses[-1] < losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("setting", OTHER)
@pytest.mark.parametrize("model", PLAIN)
def test_ranks_reproduce_one_rank(trained: dict[Any, Any], model: str, setting: str) -> None:
    """Masks that depend on the rank, or a layer that is made again with other rows."""
    one, several = trained[model, setting, 1], trained[model, setting, 3]
    assert several.losses == pytest.approx(one.losses, rel=1e-4)
    if setting not in EXACT:
        assert several.losses != pytest.approx(trained[model, "plain", 3].losses, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("model", PLAIN)
def test_a_run_of_three_ranks_is_evaluated_on_one(trained: dict[Any, Any], model: str) -> None:
    """What `graphprep infer` does: weights and learnt rows that are lost or dealt to other nodes give other scores."""
    three, one = (np.load(trained[model, "file", world]) for world in (3, 1))
    assert not trained[model, "empty", 1].losses
    np.testing.assert_allclose(one, three, rtol=1e-4, atol=1e-5)
    assert three.std() > 0.01


@pytest.mark.parametrize("edges", [1, 7, None])
@pytest.mark.parametrize("model", PLAIN)
def test_scores_and_gradients_are_those_of_pyg(
    monkeypatch: pytest.MonkeyPatch, caches: dict[Any, Path], graph: TypedGraph, model: str, edges: int | None
) -> None:
    """A gradient that misses what the softmax, the priority or the gate adds trains nearly as well as the right one."""
    if edges is not None:
        monkeypatch.setattr(attention, "_edges_at_a_time", lambda pattern, heads: edges)
        monkeypatch.setattr(attention_scores, "_VALUES", 30)
    options = {**PLAIN[model], "layers": 2}
    with alone() as communicator:
        network, features, part = built(communicator, cache=str(caches[1]), **options)
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape))
        theirs = OfPyg(model, gathered(network, communicator), graph, options["layers"])
        found = network(features, PassContext(epoch=1, training=True))[part.target]
        expected = theirs()[part.target_ids]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        direction = torch.randn(found.shape)
        found.backward(direction)
        expected.backward(direction)
        gradients = gathered(network, communicator, of_gradients=True)
    for number, conv in enumerate(theirs.convs):
        prefix = f"model.layers.{number}."
        if model == "hgt":
            pairs = [
                (gradients[f"{prefix}key_RhDD"].transpose(0, 1).flatten(0, 1), conv.k_rel.weight.grad),
                (gradients[f"{prefix}value_RhDD"].transpose(0, 1).flatten(0, 1), conv.v_rel.weight.grad),
            ]
            for place, name in enumerate(theirs.names):
                if number == 1 and name != graph.target:
                    continue
                kinds = [gradients[f"{prefix}{kind}_TFF"][place].T for kind in ("key", "query", "value")]
                pairs.append((torch.cat(kinds), conv.kqv_lin.lins[name].weight.grad))
                pairs.append((gradients[f"{prefix}skip_T"][place], conv.skip[name].grad[0]))
            for place, ends in enumerate(theirs.ends):
                pairs.append((gradients[f"{prefix}priority_Rh"][place], conv.p_rel["__".join(ends)].grad[0]))
        else:
            pairs = [(gradients[f"{prefix}own_FG"], theirs.of(f"layers.{number}.own_FG").grad)]
            for place, of_relation in enumerate(conv.values()):
                pairs.append((gradients[f"{prefix}relations_RFG"][place].T, of_relation.lin.weight.grad))
                pairs.append((gradients[f"{prefix}source_RhF"][place], of_relation.att_src.grad[0]))
                pairs.append((gradients[f"{prefix}destination_RhF"][place], of_relation.att_dst.grad[0]))
        for one, other in pairs:
            other = torch.zeros_like(one) if other is None else other
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()) + 1e-6)
    learnt = "model.inputs.learnt.0.rows_kF"
    torch.testing.assert_close(gradients[learnt], theirs.of(learnt.removeprefix("model.")).grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("scores", [SumScores, DotScores])
def test_one_and_two_threads_give_the_same_bits(scores: Any) -> None:
    """A sum over edges whose order depends on the threads: runs on other machines then drift apart."""
    generator, heads, width = torch.Generator().manual_seed(0), 2, 16
    counts = torch.randint(0, 60, (2000,), generator=generator)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    indices = torch.randint(1500, (int(indptr[-1]),), generator=generator, dtype=torch.int32)
    edges = TwoWay.of(Csr(indptr=indptr, indices=indices, weights=None, num_columns=1500), EdgeBlocks)
    ends = heads if scores is SumScores else heads * width
    shapes = (1500, heads * width), (2000, ends), (1500, ends)
    given = [torch.randn(shape, generator=generator) for shape in shapes]
    clock, threads, results = Clock(torch.device("cpu")), torch.get_num_threads(), []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            tensors = [one.clone().requires_grad_() for one in given]
            found = attend(*tensors, edges, scores=scores, num_heads=heads, clock=clock)
            found.square().sum().backward()
            results.append([found.detach(), *(one.grad for one in tensors)])
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)
    assert not results[0][0][counts == 0].any()
    assert results[0][0][counts > 0].any(1).all()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("model", PLAIN)
def test_half_precision_stays_near_fp32(caches: dict[Any, Path], model: str, precision: str) -> None:
    """Scores and sums in half precision, or rows that are stored in fp32 whatever the option says."""
    found = []
    for name in ("fp32", precision):
        with alone() as communicator:
            network, features, _ = built(communicator, cache=str(caches[1]), precision=name, **PLAIN[model])
            found.append(network(features, PassContext(epoch=1, training=True)))
            found[-1].sum().backward()
    assert found[1].dtype == torch.float32
    torch.testing.assert_close(found[1], found[0], rtol=0.1, atol=0.05)
    assert not torch.equal(found[1], found[0])


@pytest.mark.parametrize("model", PLAIN)
def test_graphs_of_one_type_have_them_too(tmp_path: Path, model: str) -> None:
    """A model that is refused, or reads features as rows, where there is one type with features."""
    cache = make_cache(tmp_path / "cache", random_graph(), np.zeros(60, int), 1)
    with alone() as communicator:
        run = train_once(communicator, cache=str(cache), epochs=30, **PLAIN[model])
    assert run.losses[-1] < 0.8 * run.losses[0]


@pytest.mark.parametrize("model", PLAIN)
def test_what_attention_over_relations_cannot_do_is_refused(model: str) -> None:
    """A softmax over no edge at all, or columns by themselves."""
    for words, sentence in (
        ("--boundary-sampling 0.5", "no self-loop"),
        ("--exchange tensor", "needs whole rows"),
        ("--bases 2", "--bases does nothing"),
        ("--edge-features weights", "--edge-features does nothing"),
    ):
        with pytest.raises(OptionError, match=sentence):
            parse(["cache", "--model", model, *words.split()])
    if model == "hgt":
        with pytest.raises(OptionError, match="--attention-dropout does nothing for --model hgt"):
            parse(["cache", "--model", model, "--attention-dropout", "0.1"])
    assert run_options("cache", **PLAIN[model]).attends
