"""The options of a run, each with the description that the command line, TOML files and docs show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from trainer.base.errors import OptionError
from trainer.base.nearest import nearest
from trainer.config.class_weights import listed_weights
from trainer.config.edge_shares import check_edge_split
from trainer.config.fanouts import listed_fanouts
from trainer.config.lr_schedule import schedule
from trainer.config.option import PROBABILITY, SHARE, Group, checked, number, options_of, whole
from trainer.config.parallel import parse_parallel
from trainer.config.policies import policy
from trainer.config.row_cache import POLICIES, kept_share

MODELS = ("gcn", "sage", "gat", "gatv2", "gin", "rgcn", "rgat", "hgt")
TYPED_MODELS = ("rgcn", "rgat", "hgt")
EVENT_MODELS = ("tgn", "edgebank")
SNAPSHOT_MODELS = ("tgcn", "gclstm", "evolvegcn")
TEMPORAL_MODELS = (*EVENT_MODELS, *SNAPSHOT_MODELS)
EXCHANGES = ("boundary", "broadcast", "sequential", "tensor", "auto")
ATTENTION_MODELS = ("gat", "gatv2", "rgat", "hgt")
ADDITIVE_MODELS = ("gat", "gatv2", "rgat")
EDGE_FEATURE_MODELS = ("gat", "gatv2", "sage", "gin")
LINKS, EDGES = "links", "edges"
EDGE_TASKS = (LINKS, EDGES)
METRICS = (
    *("auto", "accuracy", "f1-micro", "f1-macro", "roc-auc", "mse", "mae"),
    *("ap", "mrr", "hits@10", "hits@20", "hits@50", "hits@100"),
)

_run = Group("run", decides_result=False)
_model = Group("model")
_task = Group("task")
_optimisation = Group("optimisation", may_change=True)
_batches = Group("mini-batches", may_change=True)
_exchange = Group("what is sent between ranks", may_change=True)
_machine = Group("machine", decides_result=False)
_recovery = Group("recovery", decides_result=False)
_output = Group("output", decides_result=False)


def is_own_model(model: str) -> bool:
    """Whether `model` names a class of the user's, as FILE.py:Class."""
    return model not in (*MODELS, *TEMPORAL_MODELS)


def own_model(model: str) -> tuple[str, str]:
    """File and class of FILE.py:Class."""
    file, _, name = model.rpartition(":")
    return file, name


def _check_model(text: str) -> None:
    file, name = own_model(text)
    if is_own_model(text) and not (file.endswith(".py") and name.isidentifier()):
        models = (*MODELS, *TEMPORAL_MODELS)
        raise OptionError(f"expected {', '.join(models)} or FILE.py:Class, not {text!r}{nearest(text, models)}")


def _check_schedule(text: str) -> None:
    schedule(text, warmup=0, epochs=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one run. The defaults suit a citation graph (about 81.9 % on Cora's public split)."""

    cache: str = field(
        metadata=_run.metadata(
            "folder that graphprep partition made, or with several, one of them for as many ranks; may be in --config",
            metavar="CACHE",
        )
    )
    config: str | None = _run(None, "TOML file with options; those given here win", "FILE")

    model: str = _model(
        "gcn",
        f"{', '.join(MODELS)} (the last {len(TYPED_MODELS)} for several node and edge types), "
        f"{' or '.join(EVENT_MODELS)} for a cache of events, {' or '.join(SNAPSHOT_MODELS)} for one of snapshots, or "
        "FILE.py:Class of your own, which is executed",
        "MODEL",
        checked(_check_model),
    )
    layers: int = _model(2, "graph layers; each reaches one hop further", "L", whole(1, 1000))
    hidden: int = _model(
        64,
        "width of the hidden layers, or of each head; of tgn, the width that its heads divide",
        "WIDTH",
        whole(1),
    )
    aggregator: str = _model(
        "mean",
        "how in-neighbours are combined; max: the greatest value of each feature",
        choices=("mean", "max"),
        models=("sage",),
    )
    heads: int = _model(
        4,
        "attention heads, each --hidden wide",
        "K",
        whole(1, 10_000),
        models=(*ATTENTION_MODELS, "tgn"),
        model_defaults={"tgn": 2},
    )
    neighbours: int = _model(
        10, "most recent neighbours of a node that it attends to", "K", whole(1, 10_000), models=("tgn",)
    )
    node_vectors: bool = _model(
        True,
        "learn a vector for each node that has no features; all of them travel in each sum of gradients",
        models=("tgn",),
    )
    output_heads: int | None = _model(
        None,
        "heads of the last layer, whose scores are averaged",
        "K",
        whole(1, 10_000),
        default_words="as --heads",
        models=ADDITIVE_MODELS,
    )
    bases: int = _model(
        0,
        "matrices of which the weights of all relations are made; 0: a weight for each relation",
        "B",
        whole(0, 10_000),
        models=("rgcn",),
    )
    variant: str = _model(
        "o",
        "what changes the weights from snapshot to snapshot; o: an LSTM of the weights alone, h: a GRU that reads the "
        "rows with the largest scores",
        choices=("o", "h"),
        models=("evolvegcn",),
    )
    history: int | None = _model(
        None,
        "snapshots of a sequence, each of which begins with a state of zeros; 0: all are one sequence",
        "N",
        whole(0),
        default_words="20 for gclstm, else 0",
        models=SNAPSHOT_MODELS,
    )
    residual: bool = _model(False, "add each layer's input to its output, by a learnt matrix where the widths differ")
    jumping: str = _model(
        "none",
        "compute the scores from the outputs of all layers; cat: side by side, max: the greatest value of each feature",
        choices=("none", "cat", "max"),
    )
    norm: str = _model(
        "none",
        "normalisation after each layer but the last; batch: over the nodes of all ranks",
        choices=("none", "batch", "layer"),
    )
    dropout: float = _model(0.5, "share of the entries zeroed before layers 2 .. L", "SHARE", SHARE)
    input_dropout: float | None = _model(
        None,
        "share zeroed before layer 1; with 0 the neighbour sums of layer 1 are computed once",
        "SHARE",
        SHARE,
        default_words="as --dropout",
    )
    attention_dropout: float | None = _model(
        None,
        "share of the attention coefficients that is zeroed",
        "SHARE",
        SHARE,
        default_words="as --dropout",
        models=ADDITIVE_MODELS,
    )
    edge_features: str | None = _model(
        None,
        "what a neighbour counts by beside its row: weights, or an array that the cache's edges have",
        "NAME",
        models=EDGE_FEATURE_MODELS,
    )

    target: str | None = _task(
        None,
        "node type to learn, where several have labels",
        "TYPE",
        default_words="the one with labels",
        may_change=True,
    )
    task: str = _task(
        "auto",
        "auto: the cache's; give regression to learn a matrix of numbers, links to predict edges, edges "
        "to learn what edges have",
        choices=("auto", "classes", "multilabel", "regression", LINKS, EDGES),
    )
    metric: str = _task(
        "auto",
        "what validation and test measure; auto: accuracy, for several labels and for links roc-auc, for a regression "
        "mse",
        choices=METRICS,
    )
    class_weights: str = _task(
        "none",
        "weight of a training node of each class: none (all 1), balanced, or a number for each class: 1,2.5,1",
        "WEIGHTS",
        checked(listed_weights),
    )
    inductive: bool = _task(
        False, "train on the training nodes and the edges between them alone, and evaluate on the whole graph"
    )
    edge_label: str | None = _task(
        None,
        "array of the edges to learn: whole numbers are classes, others a regression",
        "NAME",
        tasks=(EDGES,),
    )
    edge_split: str = _task(
        "0.85,0.05,0.1",
        "shares of the edges to train on, to validate and to test; for edges also the name of an array that is 0, 1 "
        "and 2 there",
        "SPLIT",
        checked(check_edge_split),
        tasks=EDGE_TASKS,
    )
    disjoint_train: float = _task(
        0.0,
        "share of the training edges that are learnt and are not in the graph; 0: all are both",
        "SHARE",
        SHARE,
        tasks=(LINKS,),
    )
    embedding: int | None = _task(
        None,
        "width of the rows from which the decoder computes scores",
        "WIDTH",
        whole(1),
        default_words="as --hidden",
        tasks=EDGE_TASKS,
    )
    decoder: str = _task(
        "dot",
        "score of a pair: dot product of its rows, distmult: with a learnt weight a column, mlp: two layers on both",
        choices=("dot", "distmult", "mlp"),
        tasks=(LINKS,),
    )
    negatives: int = _task(
        1,
        "random pairs that are no edges, for each training edge; of tgn other destinations of each training event",
        "K",
        whole(1, 10_000),
        tasks=(LINKS,),
    )
    eval_negatives: int = _task(
        100,
        "pairs that are no edges, among which mrr ranks each validation and test edge; 0: no mrr",
        "K",
        whole(0, 1_000_000),
        tasks=(LINKS,),
        model_defaults=dict.fromkeys(TEMPORAL_MODELS, 49),
    )
    pair_batch: int = _task(
        65_536,
        "pairs whose rows a rank fetches and scores at a time; changes memory and no result",
        "N",
        whole(1),
        may_change=True,
        tasks=EDGE_TASKS,
    )

    optimiser: str = _optimisation(
        "adam",
        "adamw: Adam with decoupled weight decay; sgd: gradient descent with --momentum",
        choices=("adam", "adamw", "sgd"),
        may_change=False,
    )
    momentum: float = _optimisation(0.9, "momentum of sgd", "SHARE", SHARE)
    lr: float = _optimisation(0.01, "learning rate", "RATE", number(), model_defaults={"tgn": 2e-4})
    schedule: str = _optimisation(
        "constant",
        "of the learning rate: constant, cosine[:FLOOR], step:N[:FACTOR]",
        "SCHEDULE",
        checked(_check_schedule),
    )
    lr_warmup: int = _optimisation(0, "first epochs, in which the learning rate rises to --lr", "N", whole(0))
    clip_norm: float = _optimisation(
        0.0, "largest Euclidean norm of the gradient over all weights; 0: no limit", "NORM", number(or_zero=True)
    )
    weight_decay: float = _optimisation(
        5e-4,
        "L2 coefficient: on the first layer, as in GCN's paper; for attention on all weights",
        "RATE",
        number(or_zero=True),
        model_defaults={"tgn": 1e-4} | dict.fromkeys(SNAPSHOT_MODELS, 0.0),
    )
    epochs: int = _optimisation(200, "most passes over the whole graph", "N", whole(1), model_defaults={"tgn": 12})
    patience: int = _optimisation(50, "stop after N epochs without a better validation metric; 0: never", "N", whole(0))
    eval_every: int = _optimisation(1, "validate every N epochs, and always after the last", "N", whole(1))
    validate_from: str = _optimisation(
        "exact",
        "exact: a forward pass of its own; training: the scores of the training pass, for no extra time",
        choices=("exact", "training"),
    )
    seed: int = _optimisation(0, "decides the first weights, dropout masks and pairs", "N", whole(0), may_change=False)
    split: int = _optimisation(0, "column of the masks, from 0", "I", whole(0), may_change=False)

    batch_size: int | None = _batches(
        None,
        "training nodes (or edges) in a step, of all ranks together, on sampled neighbourhoods; of tgn and edgebank "
        "events in a batch, of all ranks that share it",
        "N",
        whole(1),
        default_words="all, on the whole graph; of tgn and edgebank 200 for each rank that shares a batch",
    )
    fanouts: str | None = _batches(
        None,
        "neighbours drawn for a node in each layer, the last layer first, as 15,10; all: every one",
        "K,K",
        checked(listed_fanouts),
        default_words="10 a layer",
    )
    sampler: str = _batches(
        "neighbour",
        "neighbour: --fanouts neighbours are drawn for each node; ladies: so many nodes for each layer of a batch, by "
        "their share in the means; vertices: --batch-size of all nodes for each step, with all edges among them",
        choices=("neighbour", "ladies", "vertices"),
    )
    draw: str = _batches(
        "uniform",
        "how neighbours of a node are drawn; uniform: each as probable as another; replacement: likewise, but the "
        "same one perhaps several times; weighted: in proportion to the edges' weights",
        choices=("uniform", "replacement", "weighted"),
    )
    time: str = _batches(
        "none",
        "draw no neighbour that is later than its seed, by the array time of edges, or of the nodes where they begin; "
        "none: neighbours of any time",
        choices=("none", "edges", "nodes"),
    )
    time_strategy: str = _batches(
        "uniform",
        "with --time which of the neighbours that are not later; uniform: any, as --draw says; last: the latest",
        choices=("uniform", "last"),
    )
    eval_fanouts: str | None = _batches(
        None,
        "validate and test on sampled neighbourhoods too, by so many neighbours for a node in each layer, as --fanouts",
        "K,K",
        checked(listed_fanouts),
        default_words="exactly, on the whole graph",
    )
    control_variates: bool = _batches(
        False,
        "correct the sums over drawn neighbours by those of one exact pass an epoch, so that 2 neighbours are enough",
    )
    sampler_processes: int = _machine(1, "processes that sample for each rank, with --batch-size", "N", whole(1, 64))
    sample_from: str = _machine(
        "auto",
        "where samplers find neighbours, with --batch-size; mapped: in a file of all edges in the cache's folder, "
        "which the samplers of a machine share; owners: each has the edges of its part, and asks other ranks' for "
        "theirs; auto: mapped where it takes at most half of the free memory",
        choices=("auto", "mapped", "owners"),
    )
    features_by: str = _machine(
        "rows",
        "what ranks exchange for layer 1, with --batch-size; rows: the features of a batch's nodes; columns: each rank "
        "keeps some columns of all nodes' features, and sends its part of the hidden rows; auto: the fewer bytes",
        choices=("auto", "rows", "columns"),
    )
    remote_row_cache: str = _machine(
        "0",
        "features of other ranks' nodes that each rank keeps for later batches, with --batch-size: a share of all "
        "nodes, as 0.1, or bytes, as 200MB",
        "SHARE",
        checked(kept_share),
    )
    cache_policy: str = _machine(
        "belady",
        "which of these are kept; belady: those that coming batches need soonest; vip: those that batches need most "
        "probably; degree: of nodes with most edges; presampled: most needed in an epoch drawn beforehand; lru: used "
        "last",
        choices=POLICIES,
    )

    exchange: str = _exchange(
        "boundary",
        "boundary: a peer gets the rows that it needs; broadcast: it gets all rows; sequential: it gets the rows "
        "that it needs, one peer after the other, and keeps none; tensor: each rank sums some columns of all rows; "
        "auto: in each layer boundary or tensor, whichever is faster by the cost model",
        choices=EXCHANGES,
    )
    boundary_sampling: float = _exchange(
        1.0,
        "probability with which a row that a peer needs is sent, in each layer and epoch; 1: exact",
        "P",
        PROBABILITY,
    )
    relay: str = _exchange(
        "auto",
        "auto: ranks pass rows on to others of their group where the cache has chosen so; off: owners send all rows",
        choices=("auto", "off"),
    )
    staleness: str = _exchange(
        "none",
        "when rows are sent again: none (in every epoch), fixed[:K], adaptive[:AGE], variation[:T[:AGE]]",
        "POLICY",
        checked(policy),
    )
    staleness_grad: str = _exchange("none", "the same for the gradients of rows", "POLICY", checked(policy))
    error_budget: float = _exchange(
        0.0,
        "relative error that rows and their gradients may have; bits and age of each layer and pair of ranks are "
        "measured and chosen under it; 0: all are sent exactly",
        "SHARE",
        SHARE,
    )
    byte_budget: float = _exchange(
        0.0,
        "share of the bytes of rows and their gradients that training may send; bits and age of each layer and pair of "
        "ranks are measured and chosen for the smallest error within it; 0: all are sent exactly",
        "SHARE",
        SHARE,
    )
    warmup: int = _exchange(0, "first epochs, in which everything is sent whatever the policy", "N", whole(0))
    settle: int = _exchange(0, "last epochs, in which everything is sent; also run after early stopping", "N", whole(0))
    parallel: str = _exchange(
        "auto",
        "i,j,k: i ranks share a batch, j train on it with the negatives of as many epochs, and k such groups have a "
        "node memory each; auto: chosen for the stream and the memory",
        "I,J,K",
        checked(parse_parallel),
        models=("tgn",),
    )
    lost_mail: float = _exchange(
        0.05,
        "by how much the share of mails that are overwritten in a batch may grow where more ranks share it; for "
        "--parallel auto",
        "SHARE",
        SHARE,
        models=("tgn",),
    )
    precision: str = _exchange(
        "fp32",
        "type that rows and their gradients are stored and multiplied in; sums over edges and weights stay fp32",
        choices=("fp32", "bf16", "fp16"),
    )
    dense_features: bool = _exchange(False, "hold features as a dense matrix even where few entries are not 0")
    wire: str = _exchange(
        "fp32",
        "type that rows and their gradients are sent in; never wider than --precision",
        choices=("fp32", "bf16", "fp16", "int8"),
    )
    weights_wire: str = _exchange(
        "fp32", "type that the gradients of weights are sent in and summed in between ranks", choices=("fp32", "bf16")
    )
    error_feedback: bool = _exchange(False, "add to what is sent the rounding error of the last time")

    device: str = _machine(
        "auto", "auto: GPUs if each rank of this machine has one, else the CPU", choices=("auto", "cpu", "cuda")
    )
    timeout: float = _machine(300.0, "seconds that a rank waits for another one", "SECONDS", number(1e-3, 1e9))
    workers: int | None = _machine(
        None,
        "threads of a rank that compute other snapshots at the same time, so that one's sparse product runs beside "
        "another's dense one",
        "N",
        whole(1, 64),
        default_words="2 where a rank has as many cores or a GPU, else 1",
        models=SNAPSHOT_MODELS,
    )
    anyway: bool = _machine(False, "start even if the memory estimate is more than there is")
    verify: bool = _machine(False, "check the SHA-256 of the files of this rank's part first (reads every byte)")

    checkpoint: str | None = _recovery(
        None, "folder for checkpoints; SIGTERM then writes one more and ends the run", "FOLDER"
    )
    checkpoint_every: int = _recovery(0, "epochs between checkpoints; 0: by minutes only", "N", whole(0))
    checkpoint_minutes: float = _recovery(
        10.0, "minutes between checkpoints; 0: by epochs only", "MINUTES", number(or_zero=True)
    )
    resume: bool = _recovery(False, "continue from the newest checkpoint there, or start if there is none")
    restarts: int = _recovery(
        0,
        "how often graphprep train starts all ranks again after one has failed (torchrun: --max-restarts)",
        "N",
        whole(0),
    )

    output: str | None = _output(None, "folder for config.toml (the options), history.jsonl and result.json", "FOLDER")
    save_predictions: str | None = _output(
        None, "file for the scores of all nodes by the best weights, in the dataset's order: .npy or .pt", "FILE"
    )
    save_embeddings: str | None = _output(None, "the same for the input of the last layer", "FILE")
    save_pairs: str | None = _output(
        None,
        "file for the scores of the test edges and of as many random pairs, by the best weights: .csv or .pt",
        "FILE",
        tasks=EDGE_TASKS,
    )
    save_weights: str | None = _output(
        None, "file for the best weights, by their names in the model: .safetensors or .pt", "FILE"
    )
    tensorboard: str | None = _output(None, "folder for TensorBoard's curves", "FOLDER")
    wandb: str | None = _output(None, "project of Weights & Biases for the curves; offline without a key", "PROJECT")
    mlflow: str | None = _output(None, "experiment of MLflow for the curves", "EXPERIMENT")
    trace: str | None = _output(None, "folder for a trace of each rank, for chrome://tracing", "FOLDER")
    json: bool = _output(False, "JSON lines on standard output, nothing else there")
    quiet: bool = _output(False, "only warnings and errors on standard error", short=("-q",))
    debug: bool = _output(False, "more lines on standard error, and tracebacks")

    @property
    def fanout_list(self) -> list[int]:
        """Neighbours drawn for a node in each layer, the last layer's first."""
        return [10] * self.layers if self.fanouts is None else listed_fanouts(self.fanouts)

    @property
    def chooses_bits(self) -> str | None:
        """The option by which the run chooses bits and age of what is sent; None if it does not."""
        if self.error_budget:
            return "--error-budget"
        return "--byte-budget" if self.byte_budget else None

    @property
    def obstacle_to_owners(self) -> str | None:
        """Why the samplers of nodes' owners could not draw their neighbours for others; None if they could."""
        if (self.sampler, self.draw) != ("neighbour", "uniform"):
            return (
                f"--sampler {self.sampler} and --draw {self.draw}: owners draw different neighbours of a node with "
                "equal probability"
            )
        if self.times_of is not None:
            return f"--time {self.time}: owners do not know the times of seeds"
        if self.reads_edge_features:
            return "--edge-features: owners answer with nodes and weights alone"
        return None

    @property
    def times_of(self) -> str | None:
        """Whose times say which neighbours may be drawn, `edges` or `nodes`; None where any may."""
        return None if self.time == "none" else self.time

    @property
    def eval_fanout_list(self) -> list[int] | None:
        """The same for validation and test; None where these are on the whole graph."""
        return None if self.eval_fanouts is None else listed_fanouts(self.eval_fanouts)

    @property
    def first_dropout(self) -> float:
        """The share of the features that is zeroed before layer 1."""
        return self.dropout if self.input_dropout is None else self.input_dropout

    @property
    def attends(self) -> bool:
        """Whether the model is one of those with attention."""
        return self.model in ATTENTION_MODELS

    @property
    def input_width(self) -> int:
        """The width of the rows that layer 1 reads where they are not the features themselves."""
        return self.hidden * (self.heads if self.model == "hgt" else 1)

    @property
    def sums_messages(self) -> bool:
        """Whether the model sums functions of a neighbour's row and of its edge's features that are not linear."""
        return self.model == "gin" and self.edge_features is not None

    @property
    def reads_edge_features(self) -> bool:
        """Whether the model reads features of edges, and not a decoder alone."""
        has_option = self.model in EDGE_FEATURE_MODELS or is_own_model(self.model)
        return self.edge_features is not None and has_option

    @property
    def learns_links(self) -> bool:
        """Whether it is learnt which pairs of nodes are edges."""
        return self.task == LINKS

    @property
    def learns_edge_labels(self) -> bool:
        """Whether an array of the edges is learnt."""
        return self.task == EDGES

    @property
    def learns_pairs(self) -> bool:
        """Whether a decoder scores pairs of nodes, by rows that the model gives."""
        return self.task in EDGE_TASKS

    @property
    def embedding_width(self) -> int:
        """The columns of the rows that a decoder reads."""
        return self.hidden if self.embedding is None else self.embedding

    @property
    def last_heads(self) -> int:
        """The heads of the last layer."""
        return self.heads if self.output_heads is None else self.output_heads

    @property
    def coefficient_dropout(self) -> float:
        """The share of attention coefficients that is zeroed."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout

    @property
    def saved_files(self) -> list[tuple[str, str, tuple[str, str]]]:
        """The requested files besides the result, each with its flag and the endings that it may have."""
        named = (
            ("--save-predictions", self.save_predictions, (".npy", ".pt")),
            ("--save-embeddings", self.save_embeddings, (".npy", ".pt")),
            ("--save-pairs", self.save_pairs, (".csv", ".pt")),
            ("--save-weights", self.save_weights, (".safetensors", ".pt")),
        )
        return [(flag, file, endings) for flag, file, endings in named if file is not None]

    def same_on_all_ranks(self) -> dict[str, Any]:
        """What has to be the same on every rank: the options that decide the result, and what all ranks do together."""
        together = {"checkpoint", "save_predictions", "save_embeddings", "save_pairs", "save_weights"}
        are_given = {name: getattr(self, name) is not None for name in together}
        return self.of_the_result() | are_given | {"resume": self.resume, "anyway": self.anyway}

    def of_the_result(self) -> dict[str, Any]:
        """The options that decide what is learnt."""
        return {name: value for name, value in asdict(self).items() if OPTIONS[name].group.decides_result}


OPTIONS = options_of(Options)
"""The description of every option, by name."""
