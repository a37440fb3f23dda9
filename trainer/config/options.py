"""What a run is asked to do: every option with its unit. command_line.py reads them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MODELS = ("gcn", "sage", "gat", "gatv2", "gin", "rgcn")
_ATTENDING = ("gat", "gatv2")
AGGREGATORS = ("mean", "max")
JUMPING = ("none", "cat", "max")
NORMS = ("none", "batch", "layer")
DEVICES = ("auto", "cpu", "cuda")
EXCHANGES = ("boundary", "broadcast", "sequential")
PRECISIONS = ("fp32", "bf16", "fp16")
WEIGHTS_WIRES = ("fp32", "bf16")
WIRES = ("fp32", "bf16", "fp16", "int8")
TASKS = ("auto", "classes", "multilabel", "regression")
OPTIMISERS = ("adam", "adamw", "sgd")
VALIDATIONS = ("exact", "training")
METRICS = ("auto", "accuracy", "f1-micro", "f1-macro", "roc-auc", "mse", "mae")

_OF_THE_PLACE = {"cache", "config", "device", "timeout", "verify", "anyway"}
_OF_THE_RECORDS = {"checkpoint", "checkpoint_every", "checkpoint_minutes", "resume", "restarts", "output"}
_OF_THE_WORDS = {"save_predictions", "save_embeddings", "tensorboard", "trace", "json", "quiet", "debug"}
_PRIVATE = _OF_THE_PLACE | _OF_THE_RECORDS | _OF_THE_WORDS
"""Options that do not decide what is learnt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one run. The defaults suit a citation graph (about 81.9 % on Cora's public split)."""

    cache: str
    """Folder of the partition cache."""
    config: str | None = None
    """TOML file with options; what the command line gives wins."""
    model: str = "gcn"
    """`gcn`, `sage` (GraphSAGE), `gat`, `gatv2`, `gin`, `rgcn` (the one for several node and edge types), or
    `FILE.py:Class` of the user's own, which is executed."""
    aggregator: str = "mean"
    """What `sage` makes of the in-neighbours: `mean`, or `max`, feature by feature."""
    heads: int = 4
    """Attention heads of `gat` and `gatv2`, at least 1; each is `hidden` wide."""
    output_heads: int | None = None
    """Heads of their last layer, whose scores are averaged; None means as `heads`."""
    attention_dropout: float | None = None
    """Share of the attention coefficients that is zeroed; None means as `dropout`."""
    bases: int = 0
    """Matrices of which `rgcn` makes the weights of all relations; 0 means that each has a weight of its own."""
    residual: bool = False
    """Add each layer's input to what it gives, through a learnt matrix where the widths differ."""
    jumping: str = "none"
    """Make the scores of the outputs of all layers: `none`, `cat` (side by side), `max` (the greatest)."""
    layers: int = 2
    """Graph layers, at least 1; each reaches one hop further."""
    hidden: int = 64
    """Width of the layers between, in features."""
    norm: str = "none"
    """Normalisation after each layer but the last: `none`, `batch` (over the nodes of all ranks), `layer`."""
    dropout: float = 0.5
    """Share of the entries that is zeroed before layers 2 .. L, 0 <= share < 1."""
    input_dropout: float | None = None
    """The same before layer 1; None means as `dropout`. At 0 the first layer's sums are made once."""
    target: str | None = None
    """The node type to learn; None means the one that has labels."""
    task: str = "auto"
    """`classes`, `multilabel` or `regression`; `auto` takes the cache's, which is never regression."""
    metric: str = "auto"
    """What validation and test measure; `auto` is accuracy, for several labels roc-auc, for a regression mse."""
    class_weights: str = "none"
    """What a training node of each class weighs: `none` (all 1), `balanced`, or C numbers with commas between."""
    inductive: bool = False
    """Train on the graph of the training nodes alone, and evaluate on the whole one."""
    optimiser: str = "adam"
    """`adam`, `adamw`, or `sgd`."""
    momentum: float = 0.9
    """Of `sgd`, 0 <= momentum < 1."""
    lr: float = 0.01
    """Step size."""
    schedule: str = "constant"
    """How the step size goes on from there: `constant`, `cosine[:FLOOR]`, `step:N[:FACTOR]`."""
    lr_warmup: int = 0
    """First epochs in which the step size rises to `lr`."""
    clip_norm: float = 0.0
    """The longest gradient, as a Euclidean norm over all weights; 0 means no limit."""
    weight_decay: float = 5e-4
    """L2 coefficient: on the first layer's parameters alone, as in GCN's paper; for attention on all weights."""
    epochs: int = 200
    """The most passes over the whole graph, at least 1."""
    patience: int = 50
    """Epochs without a better metric in validation before stopping; 0 means never stop early."""
    eval_every: int = 1
    """Epochs from one validation to the next; the last epoch is always validated."""
    validate_from: str = "exact"
    """`exact` validates by a pass of its own; `training` by the scores of the training pass, for no time."""
    exchange: str = "boundary"
    """`boundary` sends a peer the rows that it needs, `broadcast` sends it all, `sequential` the rows that it needs,
    one peer after the other, and keeps none."""
    boundary_sampling: float = 1.0
    """Share of the rows that peers need which is drawn in each layer and epoch, 0 .. 1; 1 is exact."""
    staleness: str = "none"
    """When rows between layers are sent again: `none`, `fixed[:K]`, `adaptive[:AGE]`, `variation[:T[:AGE]]`."""
    staleness_grad: str = "none"
    """The same for their gradients."""
    warmup: int = 0
    """First epochs in which everything is sent whatever the policy."""
    settle: int = 0
    """Last epochs in which everything is sent; they are run also after early stopping."""
    precision: str = "fp32"
    """Type that rows and their gradients are stored and multiplied in; sums over edges and weights stay fp32."""
    dense_features: bool = False
    """Hold features as a dense matrix also where few entries of it are not 0."""
    wire: str = "fp32"
    """Type that rows between layers and their gradients are sent in; never wider than `precision`."""
    weights_wire: str = "fp32"
    """Type that weights' gradients are sent and summed in between ranks: `fp32` or `bf16`."""
    error_feedback: bool = False
    """Add to what is sent what the wire's rounding took from it the last time."""
    seed: int = 0
    """Decides the first weights and every dropout mask; any whole number from 0."""
    split: int = 0
    """Which column of the masks to train on, from 0."""
    device: str = "auto"
    """`cuda`, `cpu`, or `auto`: GPUs if each rank of the machine has one, else the CPU."""
    timeout: float = 300.0
    """Seconds that a rank waits for another before it gives up."""
    anyway: bool = False
    """Start even if the expected memory is more than there is."""
    verify: bool = False
    """Check the SHA-256 of every file of this rank's part before training."""
    checkpoint: str | None = None
    """Folder for checkpoints, None for none."""
    checkpoint_every: int = 0
    """Epochs from one checkpoint to the next; 0 means by minutes only."""
    checkpoint_minutes: float = 10.0
    """Minutes from one checkpoint to the next; 0 means by epochs only."""
    resume: bool = False
    """Go on from the newest checkpoint in that folder, if there is one."""
    restarts: int = 0
    """How often the launcher starts all ranks again after one has failed; torchrun has --max-restarts for it."""
    output: str | None = None
    """Folder for the resolved options (config.toml) and the result (result.json)."""
    save_predictions: str | None = None
    """File (.npy or .pt) for the scores of all nodes with the best weights, in the dataset's node order."""
    save_embeddings: str | None = None
    """The same for what the last layer reads."""
    tensorboard: str | None = None
    """Folder for TensorBoard's curves."""
    trace: str | None = None
    """Folder for a trace of each rank, in the form of chrome://tracing."""
    json: bool = False
    """Print JSON lines on standard output."""
    quiet: bool = False
    """Say nothing on standard error but warnings and errors."""
    debug: bool = False
    """Say more, and show tracebacks."""

    @property
    def first_dropout(self) -> float:
        """The share of the features that is zeroed before layer 1."""
        return self.dropout if self.input_dropout is None else self.input_dropout

    @property
    def attends(self) -> bool:
        """Whether the model is one of those with attention."""
        return self.model in _ATTENDING

    @property
    def last_heads(self) -> int:
        """The heads of the last layer."""
        return self.heads if self.output_heads is None else self.output_heads

    @property
    def coefficient_dropout(self) -> float:
        """The share of attention coefficients that is zeroed."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout

    @property
    def node_files(self) -> list[tuple[str, str]]:
        """The files of rows of all nodes that are asked for, each with its flag."""
        named = (("--save-predictions", self.save_predictions), ("--save-embeddings", self.save_embeddings))
        return [(flag, file) for flag, file in named if file is not None]

    def in_common(self) -> dict[str, Any]:
        """What has to be the same on every rank: the options that decide what is learnt, and what all do together."""
        together = {"checkpoint", "save_predictions", "save_embeddings"}
        asked = {name: getattr(self, name) is not None for name in together}
        return self.of_the_result() | asked | {"resume": self.resume, "anyway": self.anyway}

    def of_the_result(self) -> dict[str, Any]:
        """The options that decide what is learnt."""
        return {name: value for name, value in asdict(self).items() if name not in _PRIVATE}


def is_own_model(model: str) -> bool:
    """Whether `model` names a class of the user's, as FILE.py:Class."""
    return model not in MODELS


def own_model(model: str) -> tuple[str, str]:
    """File and class of FILE.py:Class."""
    file, _, name = model.rpartition(":")
    return file, name
