"""Options that exclude each other: refused with the reason before anything is read."""

from __future__ import annotations

from trainer.base.errors import OptionError
from trainer.config.edge_shares import is_array_name
from trainer.config.features_by import conflict_with_columns
from trainer.config.options import (
    MODELS,
    OPTIONS,
    SNAPSHOT_MODELS,
    TEMPORAL_MODELS,
    Options,
    is_own_model,
)
from trainer.config.policies import policy
from trainer.config.row_cache import kept_share


def check_together(options: Options) -> None:
    """Refuse options that exclude each other.

    Raises:
        OptionError: two of them, or more, with the reason.
    """
    if options.model in TEMPORAL_MODELS:
        _check_events(options)
        return
    _check_outputs(options)
    keeps = policy(options.staleness).keeps or policy(options.staleness_grad).keeps
    if options.exchange == "sequential":
        _check_sequential(options, keeps=keeps)
    if options.exchange == "tensor":
        reason = obstacle_to_tensor(options)
        if reason is not None:
            raise OptionError(f"--exchange tensor {reason}; use --exchange boundary, or leave it out")
    if options.boundary_sampling < 1:
        _check_sampling(options, keeps=keeps)
    if options.chooses_bits is not None:
        _check_bit_choice(options.chooses_bits, options, keeps=keeps)
    if options.batch_size:
        _check_batches(options, keeps=keeps)
    if options.model == "gin" and options.precision == "fp16":
        raise OptionError(
            "--model gin with --precision fp16: its sums are not divided by the degree, so they pass fp16's 65,504 "
            "at large degrees; use bf16"
        )
    for name, option in OPTIONS.items():
        if getattr(options, name) == option.default:
            continue
        if name in _OF_BATCHES and not options.batch_size:
            raise OptionError(f"{option.flag} does nothing without --batch-size; add it")
        if name == "cache_policy" and not kept_share(options.remote_row_cache):
            raise OptionError(f"{option.flag} does nothing without --remote-row-cache; add it")
        has_option = not option.models or options.model in option.models
        has_option |= is_own_model(options.model) and any(model in MODELS for model in option.models)
        if not has_option and not (name == "edge_features" and options.learns_edge_labels):  # a decoder reads them
            raise OptionError(
                f"{option.flag} does nothing for --model {options.model}; it is for {' or '.join(option.models)}"
            )
        if option.tasks and options.task not in option.tasks:
            raise OptionError(f"{option.flag} does nothing without --task {' or '.join(option.tasks)}; add it")
    if options.learns_pairs:
        _check_pairs(options)


_OF_BATCHES = {
    *("fanouts", "sampler", "draw", "time", "time_strategy", "eval_fanouts", "control_variates", "sampler_processes"),
    *("remote_row_cache", "cache_policy", "sample_from", "features_by"),
}
_OF_RUNS = {"cache", "config", "model", "metric", "eval_negatives", "batch_size", "seed", "timeout", "verify"}
_OF_LEARNING = {
    *(
        "task",
        "hidden",
        "heads",
        "neighbours",
        "node_vectors",
        "negatives",
        "optimiser",
        "momentum",
        "lr",
        "schedule",
        "lr_warmup",
        "clip_norm",
        "anyway",
    ),
    *("weight_decay", "epochs", "patience", "eval_every", "parallel", "lost_mail", "device", "checkpoint"),
    *("checkpoint_every", "checkpoint_minutes", "resume", "restarts", "save_weights", "tensorboard", "wandb", "mlflow"),
}
_OF_SNAPSHOTS = {
    *("layers", "hidden", "history", "negatives", "optimiser", "momentum", "lr", "schedule", "lr_warmup", "clip_norm"),
    *("weight_decay", "epochs", "patience", "eval_every", "device", "workers", "anyway", "checkpoint", "trace"),
    *("checkpoint_every", "checkpoint_minutes", "resume", "restarts", "save_weights", "tensorboard", "wandb", "mlflow"),
    *("task", "output", "json", "quiet", "debug"),
}
_OF_EVENTS = {
    **dict.fromkeys(SNAPSHOT_MODELS, (_OF_RUNS - {"batch_size"}) | _OF_SNAPSHOTS),
    "evolvegcn": (_OF_RUNS - {"batch_size"}) | _OF_SNAPSHOTS | {"variant"},
    "edgebank": _OF_RUNS | {"output", "json", "quiet", "debug"},
    "tgn": _OF_RUNS | {"output", "json", "quiet", "debug"} | _OF_LEARNING,
}
"""The options that the models of events and snapshots have."""


def _check_events(options: Options) -> None:
    for name, option in OPTIONS.items():
        if name not in _OF_EVENTS[options.model] and getattr(options, name) != option.default_for(options.model):
            raise OptionError(f"{option.flag} does nothing for --model {options.model}; leave it out")
    for reason, applies in {
        f"--task {options.task}: it predicts links, or the classes of states": options.task
        not in ("auto", "links", "classes"),
        f"--metric {options.metric}: events are ranked by ap or mrr": options.task != "classes"
        and options.metric not in ("auto", "ap", "mrr"),
        f"--metric {options.metric}: states have classes": options.task == "classes"
        and options.metric not in ("auto", "accuracy", "f1-micro", "f1-macro", "roc-auc"),
        "--negatives and --eval-negatives: --task classes has none": options.task == "classes"
        and (options.negatives, options.eval_negatives)
        != tuple(OPTIONS[name].default_for(options.model) for name in ("negatives", "eval_negatives")),
        "--metric mrr and --eval-negatives below 2: there would be nothing to rank": options.metric == "mrr"
        and options.eval_negatives < 2,
        "--eval-negatives 0: ap needs one": not options.eval_negatives,
        f"--hidden {options.hidden} and --heads {options.heads}: heads divide it, so give a multiple": options.model
        == "tgn"
        and options.hidden % options.heads != 0,
        "--lost-mail: it is for --parallel auto": options.parallel != "auto"
        and options.lost_mail != OPTIONS["lost_mail"].default,
        "--lost-mail and --batch-size: it chooses the size of batches": options.batch_size is not None
        and options.lost_mail != OPTIONS["lost_mail"].default,
    }.items():
        if applies:
            raise OptionError(f"--model {options.model} cannot be with {reason}")
    _check_endings(options)
    _check_recovery(options)


def _check_outputs(options: Options) -> None:
    _check_endings(options)
    if options.save_embeddings is not None and options.layers < 2:
        raise OptionError("--save-embeddings needs at least --layers 2: with one layer the last one reads the features")
    _check_recovery(options)
    if options.validate_from == "training":
        for reason, applies in {
            "dropout (give --dropout 0)": options.dropout or options.first_dropout,
            "--attention-dropout": options.coefficient_dropout,
            "--boundary-sampling below 1": options.boundary_sampling < 1,
            "--norm batch": options.norm == "batch",
            "--inductive": options.inductive,
        }.items():
            if applies:
                raise OptionError(
                    f"--validate-from training cannot be with {reason}: the training pass then has other scores than "
                    "an evaluation; leave it out"
                )


def _check_endings(options: Options) -> None:
    for flag, file, endings in options.saved_files:
        if not file.endswith(endings):
            raise OptionError(
                f"{flag} {file} ends in neither {' nor '.join(endings)}; name the form that it is to have"
            )


def _check_recovery(options: Options) -> None:
    if options.resume and options.checkpoint is None:
        raise OptionError("--resume needs the --checkpoint folder to resume from")
    if options.restarts and options.checkpoint is None:
        raise OptionError("--restarts needs a --checkpoint folder, from which the ranks resume")


def _check_pairs(options: Options) -> None:
    if options.learns_edge_labels and options.edge_label is None:
        raise OptionError("--task edges needs --edge-label, the array of the edges to learn")
    for reason, applies in {
        "--inductive: its graph is made of training nodes, and here pairs are split; leave it out": options.inductive,
        "--class-weights: pairs have no classes; leave it out": options.learns_links
        and options.class_weights != "none",
        "--split: it names a mask of nodes; --seed decides the split of the pairs": options.split != 0,
        "--target: the graph has one node type; leave it out": options.target is not None,
        "--metric mrr and --eval-negatives 0: there would be nothing to rank": options.metric == "mrr"
        and not options.eval_negatives,
        f"--edge-split {options.edge_split}: give shares, as 0.85,0.05,0.1": options.learns_links
        and is_array_name(options.edge_split),
        "--edge-features and --edge-label of one name: the model would read the label": options.learns_edge_labels
        and options.edge_features == options.edge_label,
    }.items():
        if applies:
            raise OptionError(f"--task {options.task} cannot be with {reason}")


def _check_batches(options: Options, *, keeps: bool) -> None:
    """Refuse what has no effect, or another one, where steps are made on sampled neighbourhoods."""
    for flag, words, fanouts in (
        ("--fanouts", options.fanouts, options.fanout_list),
        ("--eval-fanouts", options.eval_fanouts, options.eval_fanout_list),
    ):
        if fanouts is not None and len(fanouts) != options.layers:
            raise OptionError(
                f"{flag} {words} has {len(fanouts)} numbers and the model {options.layers} layers; give one for each "
                "layer"
            )
    for reason, applies in {
        "--inductive: neighbours are drawn from the whole graph": options.inductive,
        "--norm batch, for a node may be in the batches of several ranks; use --norm layer": options.norm == "batch",
        "--validate-from training: a step has the scores of its batch alone": options.validate_from == "training",
        "--staleness and --staleness-grad: a batch has no halo whose rows could be kept": keeps,
        f"--wire {options.wire}: batches send no rows but features, as --precision stores them": options.wire != "fp32",
        "--error-feedback: a batch has no halo to which errors belong": options.error_feedback,
        "--boundary-sampling: --fanouts say how many neighbours are drawn": options.boundary_sampling < 1,
        f"--sampler {options.sampler} and --draw {options.draw}: it is for neighbours of a node": options.draw
        != "uniform"
        and options.sampler != "neighbour",
        "--sampler vertices and --fanouts: it takes all edges among the nodes of a step": options.sampler == "vertices"
        and options.fanouts is not None,
        f"--sampler vertices and --task {options.task}: its steps are of nodes": options.sampler == "vertices"
        and options.learns_pairs,
        f"--exchange {options.exchange}: it is how training passes over the whole graph exchange rows": options.exchange
        not in ("boundary", "sequential"),
    }.items():
        if applies:
            raise OptionError(f"--batch-size cannot be with {reason}; leave one of them out")
    if options.control_variates:
        _check_control_variates(options)
    if options.features_by == "columns" and (conflict := conflict_with_columns(options)):
        raise OptionError(f"--features-by columns cannot be with {conflict}; leave one of them out")
    if options.times_of is not None:
        _check_time(options)
    elif options.time_strategy != "uniform":
        raise OptionError(f"--time-strategy {options.time_strategy} does nothing without --time; add it")
    if options.sample_from == "owners" and options.obstacle_to_owners is not None:
        raise OptionError(f"--sample-from owners cannot be with {options.obstacle_to_owners}; use --sample-from mapped")


def _check_time(options: Options) -> None:
    for reason, applies in {
        f"--sampler {options.sampler}: seeds share the nodes that it draws, and each has a time of its own": (
            options.sampler != "neighbour"
        ),
        f"--draw {options.draw}: the same neighbour is not drawn twice": options.draw == "replacement",
        f"--time-strategy last and --draw {options.draw}: it takes the latest and draws none": (
            options.time_strategy == "last" and options.draw == "weighted"
        ),
        f"--task {options.task} by the times of nodes: a pair has that of its edge; give --time edges": (
            options.time == "nodes" and options.learns_pairs
        ),
        f"--task {options.task} and --eval-fanouts: an evaluation has one row a node, and not one for each pair": (
            options.eval_fanouts is not None and options.learns_pairs
        ),
        "--control-variates: an exact pass over the whole graph has later neighbours too": options.control_variates,
    }.items():
        if applies:
            raise OptionError(f"--time {options.time} cannot be with {reason}; leave one of them out")


def _check_control_variates(options: Options) -> None:
    sums = options.model in ("gcn", "gin") or (options.model, options.aggregator) == ("sage", "mean")
    for reason, applies in {
        f"--model {options.model}: they correct sums over neighbours, of gcn, gin, and sage with --aggregator mean": (
            not sums
        ),
        f"--task {options.task}: they are for batches of nodes": options.learns_pairs,
        "--edge-features: they correct sums of neighbours' rows alone": options.reads_edge_features,
        f"--sampler {options.sampler}: they are for neighbours that are drawn for each node": options.sampler
        != "neighbour",
    }.items():
        if applies:
            raise OptionError(f"--control-variates cannot be with {reason}; leave one of them out")


def _check_sequential(options: Options, *, keeps: bool) -> None:
    if keeps or options.error_feedback:
        what = "--staleness and --staleness-grad keep" if keeps else "--error-feedback keeps"
        raise OptionError(
            f"--exchange sequential frees a peer's rows before it fetches the next one's, and {what} something of all "
            "peers' rows; use --exchange boundary, or leave it out"
        )
    if options.wire == "int8" and (options.attends or options.sums_messages or is_own_model(options.model)):
        rows = "gin's rows" if options.sums_messages else "attention's rows"
        raise OptionError(
            f"--exchange sequential fetches {rows} again for the backward pass, and --wire int8 would round "
            "them another way then; use --wire bf16, or --exchange boundary"
        )


def obstacle_to_tensor(options: Options) -> str | None:
    """Why no layer can be tensor-parallel under these options; None if some can."""
    keeps = policy(options.staleness).keeps or policy(options.staleness_grad).keeps
    for reason, applies in {
        f"sums columns by themselves, and the attention of --model {options.model} needs whole rows": options.attends,
        "sums columns of rows, and --edge-features puts each row of --model gin through a ReLU with its edge's "
        "features first": options.sums_messages,
        "is for sums and means, and --aggregator max takes a maximum": (options.model, options.aggregator)
        == ("sage", "max"),
        "brings no halo row that --boundary-sampling could leave out": options.boundary_sampling < 1,
        "brings no halo row of which --staleness and --staleness-grad could keep a copy": keeps,
        "rounds rows and sums, and --error-feedback keeps the errors of halo rows": options.error_feedback,
    }.items():
        if applies:
            return reason
    return None


def _check_bit_choice(name: str, options: Options, *, keeps: bool) -> None:
    for reason, applies in {
        "--byte-budget: one bounds the error, the other the bytes": bool(options.error_budget and options.byte_budget),
        f"--exchange {options.exchange}: bits and age are chosen for the rows that a pair of ranks exchanges": (
            options.exchange != "boundary"
        ),
        "--staleness and --staleness-grad: it chooses how often rows are sent": keeps,
        f"--wire {options.wire}: it chooses the bits of a value": options.wire != "fp32",
        "--error-feedback: what rounding took is in the next difference already": options.error_feedback,
        "--boundary-sampling: rows drawn anew have no copy to send a difference to": options.boundary_sampling < 1,
        "--batch-size: a batch has no halo of which a peer could have a copy": bool(options.batch_size),
        "--precision fp16: gradients that are owed would be of another loss scale; use bf16": options.precision
        == "fp16",
    }.items():
        if applies:
            raise OptionError(f"{name} cannot be with {reason}; leave one of them out")


def _check_sampling(options: Options, *, keeps: bool) -> None:
    if keeps or options.error_feedback:
        what = "--staleness or --staleness-grad" if keeps else "--error-feedback"
        raise OptionError(
            f"--boundary-sampling draws other rows in every epoch, so most have no delivery that {what} "
            "could use; use one of them"
        )
    if options.exchange == "broadcast":
        raise OptionError("--boundary-sampling is of the rows that a peer needs, and --exchange broadcast sends all")
    if options.model in ("rgat", "hgt"):
        raise OptionError(
            f"--boundary-sampling may leave a node no in-edge, and the attention of --model {options.model} has no "
            "self-loop then; leave it out"
        )
    if options.model == "sage" and options.aggregator == "max":
        raise OptionError(
            "--boundary-sampling is unbiased for sums and means; a maximum over a sample is too small, so use "
            "--aggregator mean"
        )
