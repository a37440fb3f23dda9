"""The models on dense matrices, one snapshot after the other, as their papers write them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from trainer.temporal.snapshots.graphs import Events, Snapshots
from trainer.temporal.snapshots.network import SnapshotNetwork


def adjacency(events: Events, number: int, row_of: dict[int, int], num_rows: int) -> Tensor:
    """The numbers of events of one window in both directions, without those of a node with itself."""
    matrix = torch.zeros(num_rows, num_rows)
    for event in range(int(events.offsets[number]), int(events.offsets[number + 1])):
        ends = row_of[int(events.source_M[event])], row_of[int(events.destination_M[event])]
        if ends[0] != ends[1]:
            matrix[ends] += 1
            matrix[ends[::-1]] += 1
    return matrix


def normalised(matrix: Tensor) -> Tensor:
    """D^-1/2 A D^-1/2."""
    factor = matrix.sum(1).clamp(min=1e-30).rsqrt() * (matrix.sum(1) > 0)
    return factor[:, None] * matrix * factor


class Reference:
    """All that a model computes, with the weights of `network`."""

    def __init__(self, network: SnapshotNetwork, events: Events, *, history: int = 0) -> None:
        self.network, self.events, self.history = network, events, history
        occurred = torch.stack([events.source_M, events.destination_M], 1).flatten().tolist()
        self.row_of = {node: row for row, node in enumerate(dict.fromkeys(occurred))}
        self.weights = dict(network.named_parameters())

    def num_rows(self, number: int) -> int:
        until = int(self.events.offsets[number + 1])
        return len({*self.events.source_M[:until].tolist(), *self.events.destination_M[:until].tolist()})

    def matrix(self, number: int) -> Tensor:
        return adjacency(self.events, number, self.row_of, self.num_rows(number))

    def features(self, number: int, order: Tensor) -> Tensor:
        rows = self.num_rows(number)
        if self.events.x_NF is not None:
            return self.events.x_NF[order[:rows]]
        degrees = self.matrix(number).sum(1, keepdim=True)
        return torch.cat([self.weights["vectors_NF"][:rows], torch.log(1 + degrees)], dim=1)

    def begins(self, number: int) -> bool:
        return number == 0 or (self.history > 0 and number % self.history == 0)

    def rows(self, order: Tensor, num_steps: int, options_model: str) -> list[Tensor]:
        """The rows after each snapshot."""
        features = [self.features(number, order) for number in range(num_steps)]
        if options_model == "tgcn":
            return self._tgcn(features)
        if options_model == "gclstm":
            return self._gclstm(features)
        return self._evolvegcn(features, options_model)

    def _gcn(self, number: int) -> Tensor:
        matrix = self.matrix(number)
        return normalised(matrix + torch.eye(len(matrix)))

    def _tgcn(self, features: list[Tensor]) -> list[Tensor]:
        get = {name.removeprefix("recurrences.0."): value for name, value in self.weights.items()}
        width = get["candidate_GG"].shape[1]
        of_gates, bias = get["gates_FG"].split(width, 1), get["bias_G"].split(width)
        update_h, reset_h = get["update_reset_GG"].split(width, 1)
        outcome: list[Tensor] = []
        for number, x in enumerate(features):
            a = self._gcn(number)
            f = torch.sigmoid(a @ torch.relu(a @ x @ get["weights_FG.0"]) @ get["weights_FG.1"])
            h = torch.zeros(len(x), width)
            if not self.begins(number):
                h = torch.cat([outcome[-1], h[len(outcome[-1]) :]])
            u = torch.sigmoid(torch.cat([f, h], 1) @ torch.cat([of_gates[0], update_h]) + bias[0])
            r = torch.sigmoid(torch.cat([f, h], 1) @ torch.cat([of_gates[1], reset_h]) + bias[1])
            c = torch.tanh(torch.cat([f, r * h], 1) @ torch.cat([of_gates[2], get["candidate_GG"]]) + bias[2])
            outcome.append(u * h + (1 - u) * c)
        return outcome

    def _gclstm(self, features: list[Tensor]) -> list[Tensor]:
        get = {name.removeprefix("recurrences.0."): value for name, value in self.weights.items()}
        width = get["cell_GG"].shape[1]
        outcome: list[Tensor] = []
        h = c = torch.zeros(0, width)
        for number, x in enumerate(features):
            matrix = self.matrix(number)
            gates = (matrix > 0).float() @ x @ get["input_FG"] + get["bias_G"]
            cell = torch.zeros(len(x), width)
            if not self.begins(number):
                scaled = -normalised(self.matrix(number - 1))
                polynomials = [torch.eye(len(scaled)), scaled, 2 * scaled @ scaled - torch.eye(len(scaled))]
                of_h = sum(p @ h @ o for p, o in zip(polynomials, get["hidden_GG"].split(width), strict=True))
                of_c = sum(p @ c @ o for p, o in zip(polynomials, get["cell_GG"].split(width), strict=True))
                more = len(x) - len(h)
                gates = gates + torch.cat([of_h, torch.zeros(more, 4 * width)])
                cell = torch.cat([of_c, torch.zeros(more, width)])
            f, i, o, g = gates.split(width, 1)
            c = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outcome.append(h)
        return outcome

    def _evolvegcn(self, rows: list[Tensor], variant: str) -> list[Tensor]:
        for layer in range(2):
            start = f"recurrences.{layer}."
            get = {name.removeprefix(start): value for name, value in self.weights.items() if name.startswith(start)}
            w_in, w_hidden, bias, outcome = get["input_gFF"], get["hidden_gFF"], get["bias_gFG"], list[Tensor]()
            for number, x in enumerate(rows):
                if self.begins(number):
                    weight, c = get["weight_FG"], torch.zeros_like(get["weight_FG"])
                if variant == "evolvegcn-o":
                    f, i, o = (torch.sigmoid(w_in[g] @ weight + w_hidden[g] @ weight + bias[g]) for g in range(3))
                    c = f * c + i * torch.tanh(w_in[3] @ weight + w_hidden[3] @ weight + bias[3])
                    weight = o * torch.tanh(c)
                else:
                    score = x @ get["score_F"] / get["score_F"].norm()
                    chosen = score.argsort(descending=True)[: weight.shape[1]]
                    z = x[chosen] * torch.tanh(score[chosen])[:, None]
                    z = torch.cat([z, torch.zeros(weight.shape[1] - len(z), x.shape[1])]).T
                    u, r = (torch.sigmoid(w_in[g] @ z + w_hidden[g] @ weight + bias[g]) for g in range(2))
                    new = torch.tanh(w_in[2] @ z + w_hidden[2] @ (r * weight) + bias[2])
                    weight = (1 - u) * weight + u * new
                summed = self._gcn(number) @ x @ weight
                outcome.append(summed if layer == 1 else torch.relu(summed))
            rows = outcome
        return rows

    def loss(self, snapshots: Snapshots, num_steps: int, model: str, num_negatives: int) -> Tensor:
        """The sum over the steps of the binary cross entropy, a node that has not occurred being zeros."""
        total = torch.zeros(())
        for number, rows in enumerate(self.rows(snapshots.order_N, num_steps, model)):
            padded = torch.cat([rows, torch.zeros(self.events.num_nodes - len(rows), rows.shape[1])])
            pairs = snapshots.pairs(number + 1, "train", epoch=1, num_negatives=num_negatives)
            decoder = self.network.decoder

            def score(one: Tensor, other: Tensor, padded: Tensor = padded, decoder: Any = decoder) -> Tensor:
                joint = torch.cat([padded[one], padded[other]], 1)
                hidden = torch.relu(joint @ decoder.weight_FG + decoder.bias_G)
                return (hidden @ decoder.weight_GC + decoder.bias_C).squeeze(1)

            positive = score(pairs.source_k, pairs.destination_k)
            total = total + binary_cross_entropy_with_logits(positive, torch.ones_like(positive), reduction="sum")
            for column in pairs.negative_kK.T:
                negative = score(pairs.source_k, column)
                total = total + binary_cross_entropy_with_logits(negative, torch.zeros_like(negative), reduction="sum")
        return total
