"""`python -m trainer.temporal.events.expected`: what a run of TGN would need and send, for programs that plan one.

Standard input has a JSON object, and standard output gets another one:

    {"cache": FOLDER, "arguments": [...], "ranks": P, "available": BYTES or null, "measure": true or false}
    {"parallel": [i, j, k], "reason": "...", "batch_size": B, "batches": T, "val_batches": V, "lost_mail": SHARE,
     "parameters": W, "epochs": ..., "eval_every": ..., "available": BYTES, "device": "cpu" or "cuda", "threads": ...,
     "memory": [{"states of nodes": BYTES, ...}, ...], "counted": batches,
     "training": {"exchanges": {"counts": ..., ...}, "bytes": {"counts": [[...], ...], ...}}, "validation": {...},
     "seconds": null or {"queries": ..., "read": ..., "gradients": ..., "weights": ..., "write": ..., "score": ...}}

`arguments` are options of `python -m trainer`, `ranks` those that would train, and `available` the bytes of all
machines, null for those of this one. `memory` is by rank and purpose, `training` and `validation` what is sent from
rank to rank in the first round and in a validation, and `seconds` the stages of a batch on one rank.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from trainer.base.answers import answer_standard_input
from trainer.base.errors import OptionError
from trainer.base.traffic_log import Clock
from trainer.config.command_line import parse
from trainer.data.events import open_event_cache
from trainer.dist.communicator import Communicator
from trainer.dist.device_placement import choose_device
from trainer.dist.rank_info import RankInfo
from trainer.startup.handshake import available
from trainer.temporal.events.evaluation import batches_of
from trainer.temporal.events.parallelism import lost_mail
from trainer.temporal.events.resources import memory_by_purpose, num_parameters, parallelism_of
from trainer.temporal.events.run import check_stream
from trainer.temporal.events.sent_rows import MESSAGES, MessageCounter, SentRows
from trainer.temporal.events.stage_seconds import StageSeconds
from trainer.temporal.events.stream import EventStream
from trainer.temporal.events.tasks import task_of
from trainer.temporal.objective import objective_of

MOST_COUNTED = 400
"""Batches; of more, as many stand for all."""


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the run of `request` would need and send.

    Raises:
        TrainerError: the cache or an option is wrong.
    """
    options = parse([request["cache"], *request["arguments"]])
    if options.model != "tgn":
        raise OptionError(f"--model {options.model} cannot be planned on a cache of events; give tgn")
    cache, ranks = open_event_cache(options.cache), int(request["ranks"])
    objective, stream = objective_of(options, cache), EventStream.of(cache)
    check_stream(options, cache, stream)
    task = task_of(stream, options, objective)
    device = choose_device(options, RankInfo(), None)
    memory = available(device) if request["available"] is None else int(request["available"])
    parallelism = parallelism_of(options, stream, ranks=ranks, available_bytes=memory)
    parameters = num_parameters(options, stream, task.num_classes)
    group = parallelism.shares * parallelism.epochs
    owned = torch.bincount(stream.owner_N(group), minlength=group).tolist()
    negatives = options.eval_negatives if objective.name == "mrr" else int(objective.task == "links")
    messages = MessageCounter(stream, options, parallelism, task).count(negatives, MOST_COUNTED)
    seconds = None
    if request["measure"]:
        with Communicator(RankInfo(), device, timeout=options.timeout, clock=Clock(device)) as communicator:
            seconds = StageSeconds(stream, options, parallelism, communicator, task, negatives).measure()
    sizes = {
        group: len(list(batches_of(*stream.groups()[group], parallelism.batch_size))) for group in ("train", "val")
    }
    return {
        "parallel": parallelism.numbers,
        "reason": parallelism.reason,
        "batch_size": parallelism.batch_size,
        "batches": sizes["train"],
        "val_batches": sizes["val"],
        "lost_mail": lost_mail(stream, parallelism.batch_size),
        "parameters": parameters,
        "epochs": options.epochs,
        "eval_every": options.eval_every,
        "available": memory,
        "device": device.type,
        "threads": torch.get_num_threads(),
        "memory": [
            memory_by_purpose(options, stream, parallelism, owned_nodes=owned[rank % group], parameters=parameters)
            for rank in range(ranks)
        ],
        "counted": messages.counted,
        "training": _plain(messages.training),
        "validation": _plain(messages.validation),
        "seconds": seconds,
    }


def _plain(sent: SentRows) -> dict[str, Any]:
    return {"exchanges": sent.exchanges, "bytes": {name: sent.bytes_PP[name].tolist() for name in MESSAGES}}


if __name__ == "__main__":
    sys.exit(answer_standard_input(answer))
