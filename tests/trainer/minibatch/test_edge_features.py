"""Messages of a batch: each drawn edge counts as many times as it stands for."""

from __future__ import annotations

import pytest
import torch

from tests.trainer.rank_group import among_ranks
from trainer.base.errors import OptionError
from trainer.base.pass_context import PassContext
from trainer.config.command_line import parse
from trainer.dist.communicator import Communicator
from trainer.minibatch.batch_graph import BatchGraph, BatchShape

NAMES = ("rows", "U", "b")


def messages_of_a_batch(communicator: Communicator) -> dict[str, list[torch.Tensor]]:
    """The sums of 2 nodes from 2 own rows and 3 others, and gradients, beside those of the definition."""
    shape = BatchShape(
        type_names=["node"],
        first_ids=[0],
        relation_names=["node__to__node"],
        target="node",
        is_typed=False,
        sums=None,
        num_nodes=9,
        seed=0,
        communicator=communicator,
    )
    generator = torch.Generator().manual_seed(0)
    edges = {"own": ([0, 1, 2], [1, 0]), "halo": ([0, 2, 4], [0, 2, 1, 1])}
    arrays = {"counts": torch.tensor([[2], [5]]), "ids/node": torch.tensor([4, 2, 7, 1, 8])}
    ends = []
    for side, (indptr, indices) in edges.items():
        arrays |= {
            f"layer/1/{side}_indptr": torch.tensor(indptr, dtype=torch.int32),
            f"layer/1/{side}_indices": torch.tensor(indices, dtype=torch.int32),
            f"layer/1/{side}_weights": torch.rand(len(indices), generator=generator) + 1,
            f"layer/1/{side}_features": torch.randn(len(indices), 2, generator=generator),
        }
        rows = [row for row in (0, 1) for _ in range(indptr[row], indptr[row + 1])]
        ends.append((rows, [column + (0 if side == "own" else 2) for column in indices]))
    weights, features = (
        torch.cat([arrays[f"layer/1/{side}_{name}"] for side in edges]) for name in ("weights", "features")
    )
    destination, source = (torch.tensor([*one, *other]) for one, other in zip(*ends, strict=True))
    found: dict[str, list[torch.Tensor]] = {}
    for kind in ("batch", "definition"):
        generator.manual_seed(1)
        given = [torch.randn(size, generator=generator).requires_grad_() for size in ((5, 3), (2, 3), (3,))]
        rows_nF, edge_DF, bias_F = given
        if kind == "batch":
            layers = shape.layers(arrays)
            graph = BatchGraph(
                rows_nF, layers, PassContext.evaluation(1), first_share=0.0, share=0.0, stored_type=torch.float32
            )
            assert not isinstance(graph.features, torch.Tensor)
            sums_nF = graph.features.messages(edge_DF, bias_F)
        else:
            message_EF = (rows_nF[source] + features @ edge_DF + bias_F).relu() * weights[:, None]
            sums_nF = torch.zeros(2, 3).index_add(0, destination, message_EF)
        (sums_nF * torch.arange(1.0, 7.0).view(2, 3)).sum().backward()
        found[kind] = [sums_nF.detach(), *(value.grad for value in given)]
    return found


def test_messages_are_weighed_by_what_their_edges_stand_for() -> None:
    """Guards against sums of drawn messages that are smaller than those of all, and gradients that do not know it."""
    [found] = among_ranks(1, [messages_of_a_batch])
    for one, other in zip(found["batch"], found["definition"], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--sample-from owners", "--sample-from owners cannot be with --edge-features"),
        ("--control-variates", "--control-variates cannot be with --edge-features"),
    ],
)
def test_what_edge_features_cannot_be_with_is_refused(words: str, message: str) -> None:
    """Guards against features that are left out without a word."""
    with pytest.raises(OptionError, match=message):
        parse(["c", "--model", "sage", "--batch-size", "9", "--edge-features", "weights", *words.split()])
