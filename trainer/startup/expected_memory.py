"""`python -m trainer.startup.expected_memory`: what a run would need, for programs that plan one. No torch here.

Standard input has a JSON object, and standard output gets a list with an answer for each of its runs:

    {"cache": FOLDER or null, "sizes": [{...}, ...],
     "runs": [{"arguments": [...], "traffic": null or {"rows": [[[...], ...], ...], "topology": {...},
                                                       "device": "cpu" or "cuda", "available": [BYTES or null, ...]}},
              ...]}
    [{"by_entries": true or false, "bytes": [{"weights": ..., ...}, ...], "sentence": "rank 1 will need ...",
      "layers": [{"layer": 2, "exchange": "tensor", ...}, ...]}
     or {"refused": "why"}, ...]

`sizes` are the fields of `trainer.startup.memory.Sizes` by rank, with `entries` wherever they are known. Each run has
options of `python -m trainer` as `arguments`. `traffic` decides the exchange of each layer under `--exchange auto`:
`rows` are sent from rank to rank, in one stage or with relays in several, over the links of `topology`, in long form,
and `available` is the memory of each rank's device, null where it is unknown. An answer has the bytes of each rank by
purpose, the sentence of the run's log, and the layers that may be tensor-parallel, where that was asked for; or why
options are refused.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from trainer.base.answers import answer_standard_input
from trainer.base.errors import OptionError
from trainer.config.command_line import parse
from trainer.config.options import Options
from trainer.data.cache import Cache, open_cache
from trainer.dist.link_model import LinkModel
from trainer.exchange.layer_exchanges import LayerExchange
from trainer.layers.sums import allows_sparse_features
from trainer.startup.exchange_choice import choose_exchanges, is_any_tensor
from trainer.startup.memory import Sizes, estimate_bytes, estimate_summary, in_one_form, with_cross_edges


def answer(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What the ranks would need in each run of `request`.

    Raises:
        CacheError: the cache cannot be opened.
    """
    answers = []
    opened = functools.cache(open_cache)
    for run in request["runs"]:
        try:
            options = parse([request["cache"] or ".", *run["arguments"]])
            cache = None if request["cache"] is None else opened(request["cache"], options.target)
            answers.append(_answer(options, cache, request["sizes"], run["traffic"]))
        except OptionError as error:
            answers.append({"refused": str(error)})
    return answers


def _answer(
    options: Options,
    cache: Cache | None,
    of_ranks: Sequence[Mapping[str, Any]],
    traffic: Mapping[str, Any] | None,
) -> dict[str, Any]:
    sizes = [Sizes.of(of_rank) for of_rank in of_ranks]
    if not allows_sparse_features(options, cache):
        sizes = [replace(one, entries=None) for one in sizes]
    by_entries, sizes = in_one_form(sizes)
    layers = [] if traffic is None else _layers(options, sizes, traffic)
    if is_any_tensor(options, layers):
        sizes = with_cross_edges(sizes)
    return {
        "by_entries": by_entries,
        "bytes": [estimate_bytes(options, one) for one in sizes],
        "sentence": estimate_summary(options, sizes),
        "layers": [asdict(layer) for layer in layers],
    }


def _layers(options: Options, sizes: Sequence[Sizes], traffic: Mapping[str, Any]) -> Sequence[LayerExchange]:
    facts = [
        {"host": str(rank), "device": traffic["device"], "available": number or 1 << 62, "missing_parts": []}
        for rank, number in enumerate(traffic["available"])
    ]
    layers, _ = choose_exchanges(options, facts, sizes, traffic["rows"], lambda: LinkModel.of(traffic["topology"]))
    return layers


if __name__ == "__main__":
    sys.exit(answer_standard_input(answer))
