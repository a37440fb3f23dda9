"""What a run is asked to do: every option with its unit, and the command line that sets it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, NoReturn

from trainer.errors import OptionError
from trainer.policies import policy

MODELS = ("gcn", "sage", "gat", "gatv2", "gin")
AGGREGATORS = ("mean", "max")
JUMPING = ("none", "cat", "max")
NORMS = ("none", "batch", "layer")
DEVICES = ("auto", "cpu", "cuda")
EXCHANGES = ("boundary", "broadcast", "sequential")
PRECISIONS = ("fp32", "bf16", "fp16")
WIRES = ("fp32", "bf16", "fp16", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one run. The defaults suit a citation graph (about 81.9 % on Cora's public split)."""

    cache: str
    """Folder of the partition cache."""
    model: str = "gcn"
    """`gcn`, `sage` (GraphSAGE), `gat`, `gatv2`, `gin`, or `FILE.py:Class` of the user's own, which is executed."""
    aggregator: str = "mean"
    """What `sage` makes of the in-neighbours: `mean`, or `max`, feature by feature."""
    heads: int = 4
    """Attention heads of `gat` and `gatv2`, at least 1; each is `hidden` wide."""
    attention_dropout: float | None = None
    """Share of the attention coefficients that is zeroed; None means as `dropout`."""
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
    lr: float = 0.01
    """Adam's step size."""
    weight_decay: float = 5e-4
    """L2 coefficient: on the first layer's parameters alone, as in GCN's paper; for attention on all weights."""
    epochs: int = 200
    """The most passes over the whole graph, at least 1."""
    patience: int = 50
    """Epochs without a better validation accuracy before stopping; 0 means never stop early."""
    eval_every: int = 1
    """Epochs from one validation to the next; the last epoch is always validated."""
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

    @property
    def coefficient_dropout(self) -> float:
        """The share of attention coefficients that is zeroed."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout

    def of_the_result(self) -> dict[str, Any]:
        """The options that decide what is learnt, and so have to be the same on every rank."""
        private = {"cache", "device", "timeout", "verify", "trace", "json", "quiet", "debug"}
        return {name: value for name, value in asdict(self).items() if name not in private}


def is_own_model(model: str) -> bool:
    """Whether `model` names a class of the user's, as FILE.py:Class."""
    return model not in MODELS


def own_model(model: str) -> tuple[str, str]:
    """File and class of FILE.py:Class."""
    file, _, name = model.rpartition(":")
    return file, name


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options that a command line asks for.

    Args:
        arguments: without the program's name; None means this process's.

    Raises:
        OptionError: one is unknown or has a wrong value.
        SystemExit: `--help`, after it was printed.
    """
    from trainer.combinations import check_together  # which knows Options

    options = Options(**vars(_parser().parse_args(arguments)))
    for flag, text in (("--staleness", options.staleness), ("--staleness-grad", options.staleness_grad)):
        try:
            policy(text)
        except OptionError as error:
            raise OptionError(f"argument {flag}: {error}") from None
    check_together(options)
    return options


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are the trainer's own."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message}; `python -m trainer --help` lists the options")


_EPILOG = """\
examples:
  torchrun --nproc-per-node 4 -m trainer caches/cora/flat-4
  torchrun --nproc-per-node 4 -m trainer caches/arxiv/flat-4 --model sage --layers 3 --hidden 256 --norm batch
  torchrun --nproc-per-node 4 -m trainer caches/cora/flat-4 --staleness adaptive --staleness-grad adaptive --wire int8
  torchrun --nproc-per-node 4 -m trainer caches/cora/flat-4 --model gat --heads 8 --hidden 8 --dropout 0.6 --lr 0.005
  python -m trainer.launch caches/cora/flat-4 --json > run.jsonl     (starts the right number of ranks itself)

--json prints one line a validated epoch with epoch, loss, val_accuracy, seconds, bytes_sent and bytes_skipped (the last
three since the line before, all ranks together). The last line is the result: test_accuracy, val_accuracy, best_epoch,
epochs, seconds, the same bytes in all, by layer and direction (exchanges), by pair of ranks (pairs) and by link type
(link_types), and what the same passes would have sent in fp32 without kept copies: bytes_exact_boundary, the rows that
peers need, and bytes_whole_block_broadcast, every rank's whole block to every other rank. docs/training.md has a
timeline of an epoch and says what each policy saves.

exit status: 2 wrong options, 6 the cache, 7 training could not start or finish.
"""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="trainer",
        description="Train a graph neural network on the whole graph, one rank a part of the partition cache.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("cache", metavar="CACHE", help="folder that graphprep partition made")
    defaults = {field.name: field.default for field in fields(Options) if field.default is not MISSING}

    def group(title: str) -> Callable[..., None]:
        section = parser.add_argument_group(title)

        def add(flag: str, text: str, *, short: tuple[str, ...] = (), shown: str | None = None, **kind: Any) -> None:
            default = defaults[flag.removeprefix("--").replace("-", "_")]
            if default is False:
                section.add_argument(*short, flag, action="store_true", help=text)
            else:
                section.add_argument(flag, default=default, help=f"{text} (default: {shown or default})", **kind)

        return add

    add = group("model")
    add(
        "--model", f"{', '.join(MODELS)}, or FILE.py:Class of your own, which is executed", type=_model, metavar="MODEL"
    )
    add("--layers", "graph layers", type=_whole(1), metavar="L")
    add("--hidden", "width of the layers between, or of each head", type=_whole(1), metavar="WIDTH")
    add("--aggregator", "what sage makes of the in-neighbours", choices=AGGREGATORS)
    add("--heads", "attention heads of gat and gatv2", type=_whole(1), metavar="K")
    add("--residual", "add each layer's input to what it gives")
    add("--jumping", "make the scores of all layers' outputs, side by side or of the greatest", choices=JUMPING)
    add("--norm", "normalisation after each layer but the last; batch counts all ranks' nodes", choices=NORMS)
    add("--dropout", "share zeroed before layers 2 .. L", type=_share, metavar="SHARE")
    add(
        "--input-dropout",
        "share zeroed before layer 1; 0 lets its neighbour sums be made once",
        type=_share,
        metavar="SHARE",
        shown="as --dropout",
    )
    add(
        "--attention-dropout",
        "share of the attention coefficients that is zeroed",
        type=_share,
        metavar="SHARE",
        shown="as --dropout",
    )
    add = group("optimisation (Adam)")
    add("--lr", "step size", type=_number(above=0.0), metavar="RATE")
    add(
        "--weight-decay",
        "L2 coefficient on the first layer, for attention on all weights",
        type=_number(at_least=0.0),
        metavar="RATE",
    )
    add("--epochs", "the most passes over the graph", type=_whole(1), metavar="N")
    add("--patience", "stop after N epochs without a better validation accuracy; 0: never", type=_whole(0), metavar="N")
    add("--eval-every", "validate every N epochs", type=_whole(1), metavar="N")
    add("--seed", "decides weights and dropout masks", type=_whole(0), metavar="N")
    add("--split", "which column of the masks", type=_whole(0), metavar="I")
    add = group("what is sent between ranks")
    add(
        "--exchange",
        "boundary: the rows that a peer needs; broadcast: all rows; sequential: one peer's after the other's",
        choices=EXCHANGES,
    )
    add("--boundary-sampling", "share of the rows that is drawn in each epoch", type=_probability, metavar="P")
    add(
        "--staleness",
        "when rows are sent again: none, fixed[:K], adaptive[:AGE], variation[:T[:AGE]]",
        metavar="POLICY",
    )
    add("--staleness-grad", "the same for their gradients", metavar="POLICY")
    add("--warmup", "first epochs in which everything is sent", type=_whole(0), metavar="N")
    add("--settle", "last epochs in which everything is sent", type=_whole(0), metavar="N")
    add("--precision", "what rows are stored and multiplied in; sums stay fp32", choices=PRECISIONS)
    add("--wire", "what rows are sent in, if narrower", choices=WIRES)
    add("--error-feedback", "add to what is sent what rounding took from it the last time")
    add = group("machine")
    add("--device", "auto: GPUs if each rank here has one, else the CPU", choices=DEVICES)
    add("--timeout", "seconds to wait for another rank", type=_number(above=0.0), metavar="SECONDS")
    add("--verify", "check the SHA-256 of this rank's files first (reads every byte)")
    add = group("output")
    add("--trace", "folder for a trace of each rank (chrome://tracing)", metavar="FOLDER")
    add("--json", "JSON lines on standard output, nothing else there")
    add("--quiet", "only warnings and errors on standard error", short=("-q",))
    add("--debug", "say more and show tracebacks")
    return parser


def _whole(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value < 2**31:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, not {text!r}")
        return value

    return convert


def _number(*, above: float | None = None, at_least: float = 0.0) -> Callable[[str], float]:
    wanted = f"a number above {above:g}" if above is not None else f"a number from {at_least:g}"

    def convert(text: str) -> float:
        value = _float(text)
        if value is None or value < at_least or (above is not None and value <= above):
            raise argparse.ArgumentTypeError(f"expected {wanted}, not {text!r}")
        return value

    return convert


def _model(text: str) -> str:
    file, name = own_model(text)
    if is_own_model(text) and not (file.endswith(".py") and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"expected {', '.join(MODELS)} or FILE.py:Class, not {text!r}")
    return text


def _probability(text: str) -> float:
    value = _float(text)
    if value is None or not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, not {text!r}")
    return value


def _share(text: str) -> float:
    value = _float(text)
    if value is None or not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 and below 1, not {text!r}")
    return value


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None
