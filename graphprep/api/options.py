"""The keywords of the API's functions, for type checkers and editors.

Names, choices and defaults are those of the dataclasses that the command line is made from, and of the trainer's
options; tests compare them. What each does is in the dataclasses, and in the functions' own help.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

from graphprep.core.choices import Balance, Duplicates, LabelTask, SelfLoops
from graphprep.datasets.importing.options import Format, IdKind

Place = str | Path
Column = str | int
Wire = Literal["fp32", "bf16", "fp16", "int8"]


class CallOptions(TypedDict, total=False):
    """What every function takes."""

    progress: bool


class WorkOptions(CallOptions, total=False):
    """What the functions take that do long work."""

    memory: int | str | None
    dask: str | None


class StoreTarget(WorkOptions, total=False):
    """Where a store goes."""

    out: Place | None
    replace: bool
    anyway: bool


class FetchOptions(StoreTarget, total=False):
    """The keywords of `fetch`."""

    mirror: str | None


class GraphOptions(StoreTarget, total=False):
    """The keywords of `from_pyg` and the like."""

    name: str | None
    undirected: bool
    duplicates: Duplicates
    self_loops: SelfLoops
    task: LabelTask
    splits: int
    seed: int


class TableOptions(StoreTarget, total=False):
    """The keywords of `import_tables`."""

    name: str | None
    splits: int
    seed: int


class FileOptions(StoreTarget, total=False):
    """The keywords of `import_graph`."""

    schema: Place | None
    format: Format
    ids: IdKind
    undirected: bool
    duplicates: Duplicates
    self_loops: SelfLoops
    weights: bool
    edge_times: bool
    header: bool | None
    delimiter: str | None
    source: Column | None
    target: Column | None
    weight: Column | None
    time: Column | None
    num_nodes: int | None
    features: Place | None
    labels: Place | None
    task: LabelTask
    node_times: Place | None
    id_column: Column | None
    label: Column | Sequence[Column]
    feature: Column | Sequence[Column]
    split_column: Column | None
    node_header: bool | None
    node_delimiter: str | None
    train: Place | None
    val: Place | None
    test: Place | None
    splits: int
    seed: int


class EventFileOptions(CallOptions, total=False):
    """The keywords of `import_events`."""

    memory: int | str | None
    out: Place | None
    replace: bool
    time_unit: Literal["ns", "us", "ms", "s", "min", "h", "d", "w"]
    changing_features: Place | None
    schema: Place | None
    format: Format
    ids: IdKind
    weights: bool
    header: bool | None
    delimiter: str | None
    source: Column | None
    target: Column | None
    weight: Column | None
    time: Column | None
    num_nodes: int | None
    features: Place | None
    id_column: Column | None


class EventCacheOptions(CallOptions, total=False):
    """The keywords of `partition_events`."""

    memory: int | str | None
    window: str | None
    split: str
    half_life: str | None
    snapshot_cost: str
    ranks_per_group: int
    method: Literal["auto", "random"]
    imbalance: float
    seed: int


class EventPlanOptions(CallOptions, total=False):
    """The keywords of `plan_events`."""

    hidden: int
    batch_size: int
    epochs: int
    eval_every: int
    parallel: str
    neighbours: int
    negatives: int


class PartitionOptions(WorkOptions, total=False):
    """The keywords of `partition`."""

    method: Literal[
        "auto",
        "metis",
        "metis-recursive",
        "metis-volume",
        "metis-balanced",
        "metis-hierarchical",
        "mtkahypar",
        "mtkahypar-rows",
        "mtkahypar-steiner",
        "kaminpar",
        "multilevel",
        "ldg",
        "random",
    ]
    effort: Literal["none", "fast", "default", "best"]
    purpose: Literal["full-graph", "sampling"]
    fanouts: str | Sequence[int]
    batch_size: int
    seed: int
    imbalance: float
    row_bytes: int
    balance: Balance
    minimise: Literal["slowest", "total"]
    relay: Literal["auto", "off"]
    limits: str | Sequence[str]
    hidden: int
    layers: int
    wire: Wire
    features: Literal["stored", "float32", "float16", "bfloat16", "none"]
    scale_features: Literal["none", "rows", "columns"]
    aggregate_features: Literal["none", "gcn", "mean"]


class PlanOptions(CallOptions, total=False):
    """The keywords of `plan`."""

    model: Literal["gcn", "sage"]
    layers: int
    hidden: int
    dropout: float
    input_dropout: float
    eval_every: int
    wire: Wire
    weights_wire: Literal["fp32", "bf16"]
    exchange: Literal["boundary", "tensor", "auto"]
    relay: Literal["auto", "off"]
    staleness: str
    staleness_grad: str
    edge_features: str


class BestOptions(PlanOptions, total=False):
    """The keywords of `plan_best`: those of `plan` that are given stay, the others are searched."""

    batch_size: int
    fanouts: str | Sequence[int] | None
    epochs: int
    within: float
    price: float
    cost: float


class TrainOptions(CallOptions, total=False):
    """The keywords of `train`: the trainer's options, which docs/training-reference.md describes."""

    config: Place | None
    layers: int
    hidden: int
    aggregator: Literal["mean", "max"]
    heads: int
    neighbours: int
    node_vectors: bool
    output_heads: int | None
    bases: int
    variant: Literal["o", "h"]
    history: int | None
    residual: bool
    jumping: Literal["none", "cat", "max"]
    norm: Literal["none", "batch", "layer"]
    dropout: float
    input_dropout: float | None
    attention_dropout: float | None
    edge_features: str | None
    target: str | None
    task: Literal["auto", "classes", "multilabel", "regression", "links", "edges"]
    metric: Literal[
        "auto",
        "accuracy",
        "f1-micro",
        "f1-macro",
        "roc-auc",
        "mse",
        "mae",
        "ap",
        "mrr",
        "hits@10",
        "hits@20",
        "hits@50",
        "hits@100",
    ]
    class_weights: str | Sequence[float]
    inductive: bool
    edge_label: str | None
    edge_split: str
    disjoint_train: float
    embedding: int | None
    decoder: Literal["dot", "distmult", "mlp"]
    negatives: int
    eval_negatives: int
    pair_batch: int
    optimiser: Literal["adam", "adamw", "sgd"]
    momentum: float
    lr: float
    schedule: str
    lr_warmup: int
    clip_norm: float
    weight_decay: float
    epochs: int
    patience: int
    eval_every: int
    validate_from: Literal["exact", "training"]
    seed: int
    split: int
    batch_size: int | None
    fanouts: str | Sequence[int] | None
    sampler: Literal["neighbour", "ladies", "vertices"]
    draw: Literal["uniform", "replacement", "weighted"]
    time: Literal["edges", "nodes"] | None
    time_strategy: Literal["uniform", "last"]
    eval_fanouts: str | Sequence[int] | None
    control_variates: bool
    exchange: Literal["boundary", "broadcast", "sequential", "tensor", "auto"]
    boundary_sampling: float
    relay: Literal["auto", "off"]
    staleness: str
    staleness_grad: str
    error_budget: float
    byte_budget: float
    warmup: int
    settle: int
    parallel: str
    lost_mail: float
    precision: Literal["fp32", "bf16", "fp16"]
    dense_features: bool
    wire: Wire
    weights_wire: Literal["fp32", "bf16"]
    error_feedback: bool
    sampler_processes: int
    sample_from: Literal["auto", "mapped", "owners"]
    features_by: Literal["auto", "rows", "columns"]
    remote_row_cache: str | float
    cache_policy: Literal["belady", "vip", "degree", "presampled", "lru"]
    device: Literal["auto", "cpu", "cuda"]
    timeout: float
    workers: int | None
    anyway: bool
    verify: bool
    checkpoint: Place | None
    checkpoint_every: int
    checkpoint_minutes: float
    resume: bool
    restarts: int
    save_embeddings: Place | None
    save_weights: Place | None
    tensorboard: Place | None
    wandb: str | None
    mlflow: str | None
    trace: Place | None
    debug: bool


class InferOptions(CallOptions, total=False):
    """The keywords of `infer`: those of the trainer's options that change no score."""

    exchange: Literal["boundary", "broadcast", "sequential", "tensor", "auto"]
    device: Literal["auto", "cpu", "cuda"]
    timeout: float
    anyway: bool
    verify: bool
    pair_batch: int
    save_embeddings: Place | None
    debug: bool
