"""One run, from options and a cache to a result."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from trainer.base.errors import TrainingError, found_by_every_rank
from trainer.base.freed_memory import give_back_large_blocks, keep_freed_memory
from trainer.base.pass_context import PassContext
from trainer.base.peak_memory import peak_memory
from trainer.base.precision import TYPES
from trainer.base.sent_bytes import KIND_OF
from trainer.base.traffic_log import Clock, TrafficLog, by_link_type
from trainer.config.options import Options
from trainer.data.cache import Cache
from trainer.data.cross_edges import CrossEdges, cross_edges
from trainer.data.events import EventCache
from trainer.data.objective import Objective
from trainer.data.part import Part, halo_ids, load_part
from trainer.data.typed_part import load_typed_part
from trainer.dist.communicator import Communicator
from trainer.dist.device_placement import choose_device, places
from trainer.dist.rank_info import RankInfo
from trainer.exchange.error_budget import ErrorBudget
from trainer.exchange.exchange import Exchange, row_counts
from trainer.exchange.inductive import training_cross_edges, training_subgraph
from trainer.exchange.layer_exchanges import tensor_layers
from trainer.exchange.node_rows import save_node_rows
from trainer.exchange.relay_routes import relay_use
from trainer.exchange.saturation import Saturation
from trainer.exchange.tensor_exchange import TensorExchange
from trainer.layers.aggregate import Aggregation
from trainer.layers.first_layer import features_of
from trainer.layers.sums import remark_on_sums
from trainer.layers.tensor_aggregate import TensorAggregation
from trainer.models import Network, model_type, sums_of
from trainer.models.typed_model import remark_on_types, types_of
from trainer.reporting.environment import environment_of
from trainer.reporting.epoch_view import Expectation
from trainer.reporting.history import History
from trainer.reporting.listeners import add_trackers
from trainer.reporting.live_view import LiveView, log_above, shows_live
from trainer.reporting.outputs import prepare_outputs, write_result
from trainer.reporting.report import Report
from trainer.reporting.trace import prepare_traces, write_trace
from trainer.reporting.weights_file import write_weights
from trainer.sparse.dropout import Dropout
from trainer.startup.folder_lock import folders_locked
from trainer.startup.handshake import Agreement, agree, facts_of, link_model
from trainer.startup.preflight import ignored_arrays
from trainer.startup.row_width import remark_on_row_width
from trainer.temporal.run import train_temporal
from trainer.training.checkpoint import Checkpoints, checkpoint_to_resume
from trainer.training.fit import Fit, ModelView
from trainer.training.mini_batches import MiniBatches
from trainer.training.sampled_evaluation import SampledEvaluation
from trainer.training.supervision import PairSupervision
from trainer.training.tasks import Learnt, Task, load_learnt

log = logging.getLogger("trainer")

_OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "Storage size calculation overflowed")
"""torch's words for more bytes than there are, by platform, or than can be counted."""


def run(options: Options, cache: Cache | EventCache, rank_info: RankInfo) -> None:
    """Join the process group, train, and report.

    Raises:
        TrainerError: in one sentence what is wrong.
    """
    gpu = None
    if isinstance(cache, Cache):
        with found_by_every_rank():
            gpu = places(cache)[rank_info.rank].gpu
    device = choose_device(options, rank_info, gpu)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with (
        _translate_out_of_memory(cache, rank_info),
        Communicator(rank_info, device, timeout=options.timeout, clock=Clock(device)) as communicator,
        folders_locked(options) if communicator.is_main else nullcontext(),
    ):
        view = LiveView(sys.stderr) if communicator.is_main and shows_live(options, sys.stderr) else None
        report = Report(speaks=communicator.is_main, as_json=options.json, view=view)
        with nullcontext() if view is None else log_above(view):
            try:
                if isinstance(cache, Cache):
                    train(options, cache, communicator, report)
                else:
                    train_temporal(options, cache, communicator, report)
            finally:
                report.finish()


def train(options: Options, cache: Cache, communicator: Communicator, report: Report) -> dict[str, Any]:
    """Train on this rank's part among `communicator`; every rank has to call it.

    Returns:
        the result, the same on every rank except for seconds.

    Raises:
        TrainerError: in one sentence what is wrong.
    """
    started = time.perf_counter()
    communicator.sent.reset()
    part = _load(options, cache, communicator.rank)
    objective = Objective.of(cache, options)
    report.set_metric(objective.name)
    learnt = load_learnt(options, cache, part, objective, communicator)
    facts = communicator.all_gather_object(facts_of(options, cache, part, learnt, communicator, objective=objective))
    with found_by_every_rank():
        agreement = agree(options, cache, facts)
    if communicator.is_main:
        add_trackers(report, options)
        _log_start(options, cache, communicator, agreement)
    communicator.connect()

    clock, connected = communicator.clock, time.perf_counter()
    if options.trace is not None:
        prepare_traces(options.trace)
        clock.keep_spans()
        communicator.sent.keep_points()
    checkpoints = resumed = None
    if options.checkpoint is not None:
        checkpoints = Checkpoints(options, cache, communicator)
        resumed = checkpoint_to_resume(options, cache, communicator)
    if communicator.is_main:
        prepare_outputs(options)
        if options.output is not None:
            report.add_listener(History(options.output, resumed_after=None if resumed is None else resumed["epoch"]))

    traffic_log = TrafficLog(**row_counts(part), rank=communicator.rank, world=communicator.world)
    saturation = Saturation(rank=communicator.rank, world=communicator.world, device=communicator.device)
    budget = _error_budget(options, cache, communicator)
    model = model_type(options, communicator)
    task = Task(options, cache, part, learnt, objective=objective, agreement=agreement, communicator=communicator)
    part = task.message_part(part)
    view = partial(
        _view,
        options,
        cache,
        task=task,
        model=model,
        objective=objective,
        communicator=communicator,
        traffic_log=traffic_log,
        by_entries=agreement.by_entries,
        saturation=saturation,
        budget=budget,
        tensor_layers=tensor_layers(options, agreement.layer_exchanges),
    )
    graph = partial(_cross_edges, options, cache, part, task.message_part)
    whole = training = view(part, learnt=learnt, num_nodes=cache.num_nodes, graph=graph)
    if communicator.is_main:
        for remark in whole.network.remarks:
            log.info("%s", remark)
    if options.inductive:
        training_part = training_subgraph(part, communicator)
        num_training_nodes = sum(
            rank["rows"] for rank in communicator.all_gather_object({"rows": training_part.num_rows})
        )
        training = view(
            training_part,
            learnt=load_learnt(options, cache, training_part, objective, communicator),
            num_nodes=num_training_nodes,
            graph=lambda: training_cross_edges(graph()),
        )
    batches = evaluation = None
    if options.batch_size:
        seeds = task.batch_seeds(learnt, part, training.network.decoder, training.supervision)
        sums = sums_of(options, model)
        batches = MiniBatches(
            options,
            cache,
            part,
            training.network,
            seeds,
            communicator,
            traffic_log,
            sums=sums,
            num_outputs=objective.num_outputs,
        )
        if options.eval_fanouts is not None:
            evaluation = SampledEvaluation(
                options,
                cache,
                part,
                whole.network,
                learnt,
                seeds.removed,
                communicator,
                traffic_log,
                sums=sums,
                num_outputs=objective.num_outputs,
                features_by=batches.features_by,
            )
    fit = Fit(
        training,
        whole,
        options,
        objective=objective,
        agreement=agreement,
        communicator=communicator,
        traffic_log=traffic_log,
        report=report,
        checkpoints=checkpoints,
        saturation=saturation,
        link_types=cache.slowest_links,
        batches=batches,
        evaluation=evaluation,
        budget=budget,
    )
    if resumed is not None:
        fit.load_state_dict(resumed)
    setup_seconds = time.perf_counter() - started
    report.expect(
        Expectation(
            epochs=options.epochs,
            epochs_before=0 if resumed is None else resumed["epoch"],
            may_stop_early=bool(options.patience and agreement.num_val),
        )
    )
    if communicator.device.type == "cpu":
        (give_back_large_blocks if options.exchange == "sequential" else keep_freed_memory)()
    outcome = fit.run()

    if outcome.num_non_finite and communicator.is_main:
        log.warning(
            "the scores of %d of %d nodes are not finite; look for NaN and infinities in their features and in "
            "those around them",
            outcome.num_non_finite,
            cache.num_nodes,
        )
    _save_rows(options, cache, communicator, whole, part, outcome.scores_nC)
    if options.save_weights is not None:
        weights = fit.best_weights()
        if communicator.is_main:
            write_weights(options.save_weights, weights)
    layers, pairs = traffic_log.tables(communicator.all_reduce, communicator.device, cache.slowest_links)
    used = communicator.all_gather_object(
        {"seconds": clock.seconds, "memory": peak_memory(communicator.device)}
        | ({} if batches is None else {"batches": batches.seconds})
    )
    if options.trace is not None:
        write_trace(options.trace, communicator.rank, clock.spans, communicator.sent.points, start=connected)
    totals = fit.totals()
    calls_and_bytes = communicator.all_reduce(
        torch.tensor(communicator.sent.amounts(), device=communicator.device)
    ).tolist()
    result = {
        f"test_{objective.name}": outcome.test,
        f"val_{objective.name}": outcome.val,
        **outcome.others,
        "task": objective.task,
        "metric": objective.name,
        "best_epoch": outcome.best_epoch,
        "epochs": outcome.epochs,
        "resumed_after": resumed["epoch"] if resumed is not None else None,
        "seconds": outcome.seconds,
        "setup_seconds": setup_seconds,
        "bytes_sent": totals.sent,
        "row_bytes_sent": totals.rows,
        "weight_bytes_sent": totals.weights,
        "other_bytes_sent": totals.other,
        "bytes_skipped": totals.skipped,
        "bytes_exact_boundary": totals.exact,
        "bytes_whole_block_broadcast": totals.broadcast,
        "sent_for": [
            {"purpose": purpose, "kind": kind, "calls": calls // communicator.world, "bytes_sent": number}
            for (purpose, kind), (calls, number) in zip(KIND_OF.items(), calls_and_bytes, strict=True)
            if number
        ],
        "saturated": fit.saturated,
        "error_budget": None
        if budget is None
        else budget.summary(cache.slowest_links) | {"choices": budget.table(cache.slowest_links)},
        "exchanges": layers,
        "pairs": pairs,
        "link_types": by_link_type(pairs),
        "seconds_by_rank": [of_rank["seconds"] for of_rank in used],
        "memory_bytes_by_rank": [of_rank["memory"] for of_rank in used],
        "memory_estimate_by_rank": list(agreement.memory_bytes),
        "environment": environment_of(communicator.device, [fact["host"] for fact in facts]),
        "dataset": cache.dataset,
        "ranks": communicator.world,
        "device": communicator.device.type,
        "model": options.model,
        "exchange": options.exchange,
        "layer_exchanges": [asdict(layer) for layer in agreement.layer_exchanges],
        "boundary_sampling": options.boundary_sampling,
        "staleness": options.staleness,
        "staleness_grad": options.staleness_grad,
        "precision": options.precision,
        "wire": options.wire,
        "parameters": fit.num_parameters,
        "seed": options.seed,
        **whole.supervision.facts(),
        "mini_batches": None if batches is None else batches.facts([of_rank["batches"] for of_rank in used]),
    }
    if communicator.is_main:
        write_result(options, result)
    report.result(result)
    return result


def _save_rows(
    options: Options, cache: Cache, communicator: Communicator, whole: ModelView, part: Part, scores_nC: torch.Tensor
) -> None:
    """Write the requested rows of the target nodes, by the best weights; every rank has to call it."""
    save = partial(save_node_rows, ids_n=part.target_ids, num_nodes=cache.target.num_nodes, communicator=communicator)
    if options.save_predictions is not None:
        save(options.save_predictions, scores_nC[part.target])
    if options.save_pairs is not None and isinstance(whole.supervision, PairSupervision):
        whole.supervision.save(options.save_pairs, scores_nC, part.ids_n)
    if options.save_embeddings is not None:
        save(options.save_embeddings, whole.embeddings(PassContext.evaluation(options.epochs))[part.target])


@contextmanager
def _translate_out_of_memory(cache: Cache | EventCache, rank_info: RankInfo) -> Iterator[None]:
    """Turn torch's errors for too little memory into one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not any(words in str(error) for words in _OUT_OF_MEMORY):
            raise
        raise TrainingError(
            f"part {rank_info.rank} does not fit into its device's memory; partition {cache.dataset} into more parts, "
            "or use a smaller --hidden"
        ) from error


def _load(options: Options, cache: Cache, number: int) -> Part:
    if options.verify:
        size = cache.manifest.verify(f"parts/{number}/")
        log.debug("%d bytes of part %d have the checksums of the manifest", size, number)
    if cache.is_typed_for(options.model):
        part = load_typed_part(cache, number, split=options.split)
    else:
        part = load_part(cache, number, split=options.split, edge_features=options.edge_features)
    log.debug("part %d: %d rows, %d local edges", part.number, part.num_rows, part.local.num_edges)
    return part


def _cross_edges(options: Options, cache: Cache, own: Part, message_part: Callable[[Part], Part]) -> CrossEdges:
    """The edges between all parts that are in the graph."""
    numbers = range(cache.num_parts)
    return cross_edges(
        [own if number == own.number else message_part(_load(options, cache, number)) for number in numbers]
    )


def _log_start(options: Options, cache: Cache, communicator: Communicator, agreement: Agreement) -> None:
    if options.boundary_sampling < 1 and options.attends:
        log.info("attention over sampled rows is approximate: --boundary-sampling is unbiased for sums and means only")
    remarks = (
        agreement.remark,
        agreement.exchange_remark,
        remark_on_sums(options, cache),
        remark_on_types(options, cache),
    )
    of_relays = relay_use(options).remarks if cache.has_relays else ()
    of_rows = (remark_on_row_width(options, cache), *of_relays)
    for remark in (*ignored_arrays(options, cache), *remarks, *of_rows):
        if remark:
            log.info("%s", remark)
    log.info("%s", agreement.memory)
    log.info(
        "%s on %s: %d nodes, %d edges, %d classes, %d ranks on %s; %d %s to train on, %d to validate, %d to test",
        options.model,
        cache.dataset,
        cache.num_nodes,
        cache.num_edges,
        cache.num_classes,
        communicator.world,
        communicator.device.type,
        agreement.num_train,
        "pairs" if options.learns_pairs else "nodes",
        agreement.num_val,
        agreement.num_test,
    )


def _error_budget(options: Options, cache: Cache, communicator: Communicator) -> ErrorBudget | None:
    if not options.chooses_bits or communicator.world == 1:
        return None
    return ErrorBudget(
        options.error_budget or None,
        communicator,
        link_model(cache).seconds_a_byte,
        byte_share=options.byte_budget,
        epochs=options.epochs,
        stored_bytes=TYPES[options.precision].itemsize,
    )


def _view(
    options: Options,
    cache: Cache,
    part: Part,
    *,
    model: type[torch.nn.Module],
    objective: Objective,
    communicator: Communicator,
    traffic_log: TrafficLog,
    task: Task,
    learnt: Learnt,
    num_nodes: int,
    by_entries: bool,
    saturation: Saturation,
    budget: ErrorBudget | None,
    tensor_layers: Container[int],
    graph: Callable[[], CrossEdges],
) -> ModelView:
    """A network on a part of a graph of `num_nodes` nodes; every rank has to call it.

    `graph` gives the edges between all parts, which only tensor-parallel layers need.
    """
    log_of_part, sums, tensor = traffic_log.for_part(**row_counts(part)), sums_of(options, model), None
    exchange = Exchange(options, part, communicator, log_of_part, saturation, budget)
    if tensor_layers and sums is not None and communicator.world > 1:
        columns = TensorExchange(
            wires=exchange.wires, communicator=communicator, traffic_log=log_of_part, saturation=saturation
        )
        tensor = TensorAggregation(graph(), part, columns, sums=sums, layers=tensor_layers)
    aggregation = Aggregation(part, exchange, communicator, sums=sums, tensor=tensor)
    dropout = Dropout(
        part.ids_n.to(communicator.device),
        halo_ids(part).to(communicator.device),
        num_nodes=num_nodes,
        seed=options.seed,
    )
    features = features_of(options, cache, part, aggregation, dropout, communicator.device, sparse=by_entries)
    network = Network(
        model,
        options,
        aggregation,
        dropout,
        num_features=cache.num_features,
        num_classes=objective.num_outputs,
        num_nodes=num_nodes,
        communicator=communicator,
        types=types_of(options, cache, part),
        num_edge_features=part.num_edge_features,
        decoder=task.decoder,
    ).to(communicator.device)
    return ModelView(network=network, features=features, supervision=task.supervision(learnt, network.decoder))
