"""What a run is asked to do: every option with its unit. command_line.py reads them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MODELS = ("gcn", "sage")
NORMS = ("none", "batch", "layer")
DEVICES = ("auto", "cpu", "cuda")
EXCHANGES = ("boundary", "broadcast")
PRECISIONS = ("fp32", "bf16", "fp16")
WIRES = ("fp32", "bf16", "fp16", "int8")
TASKS = ("auto", "classes", "multilabel", "regression")
METRICS = ("auto", "accuracy", "f1-micro", "f1-macro", "roc-auc", "mse", "mae")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one run. The defaults suit a citation graph (about 81.9 % on Cora's public split)."""

    cache: str
    """Folder of the partition cache."""
    model: str = "gcn"
    """`gcn`, or `sage` (GraphSAGE, mean over in-neighbours)."""
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
    task: str = "auto"
    """`classes`, `multilabel` or `regression`; `auto` takes the cache's, which is never regression."""
    metric: str = "auto"
    """What validation and test measure; `auto` is accuracy, for several labels roc-auc, for a regression mse."""
    class_weights: str = "none"
    """What a training node of each class weighs: `none` (all 1), `balanced`, or C numbers with commas between."""
    lr: float = 0.01
    """Adam's step size."""
    weight_decay: float = 5e-4
    """L2 coefficient on the first layer's parameters alone, as in the GCN paper."""
    epochs: int = 200
    """The most passes over the whole graph, at least 1."""
    patience: int = 50
    """Epochs without a better validation accuracy before stopping; 0 means never stop early."""
    eval_every: int = 1
    """Epochs from one validation to the next; the last epoch is always validated."""
    exchange: str = "boundary"
    """`boundary` sends a peer the rows that it needs, `broadcast` sends it all."""
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
    wire: str = "fp32"
    """Type that rows between layers and their gradients are sent in; never wider than `precision`."""
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
    verify: bool = False
    """Check the SHA-256 of every file of this rank's part before training."""
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

    def of_the_result(self) -> dict[str, Any]:
        """The options that decide what is learnt, and so have to be the same on every rank."""
        private = {"cache", "device", "timeout", "verify", "trace", "json", "quiet", "debug"}
        return {name: value for name, value in asdict(self).items() if name not in private}
