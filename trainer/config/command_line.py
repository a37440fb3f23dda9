"""The command line of a run: its flags, what they accept, and what `--help` says."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, NoReturn

from trainer.base.errors import OptionError
from trainer.base.nearest import nearest
from trainer.config.class_weights import listed_weights
from trainer.config.config import read_config
from trainer.config.lr_schedule import schedule
from trainer.config.option_conflicts import check_together
from trainer.config.options import (
    AGGREGATORS,
    DEVICES,
    EXCHANGES,
    JUMPING,
    METRICS,
    MODELS,
    NORMS,
    OPTIMISERS,
    PRECISIONS,
    TASKS,
    VALIDATIONS,
    WEIGHTS_WIRES,
    WIRES,
    Options,
    is_own_model,
    own_model,
)
from trainer.config.policies import policy

_GREATEST, _LEAST = 1e30, 1e-30
"""Numbers beyond overflow fp32 in a product or two, and smaller ones than the least become 0 there."""
_SHORTEST, _LONGEST = 1e-3, 1e9
"""Seconds; the communication libraries count milliseconds."""
_DEEPEST, _MOST = 1000, 10_000
"""Layers; heads and bases."""


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options that a command line asks for.

    Args:
        arguments: without the program's name; None means this process's.

    Raises:
        OptionError: one is unknown or has a wrong value.
        SystemExit: `--help`, after it was printed.
    """
    parser = _parser()
    given = vars(parser.parse_args(arguments))

    def converted(name: str, value: Any) -> Any:
        if name == "cache":
            return value
        flag = f"--{name.replace('_', '-')}"
        words = [flag if value else f"--no-{flag[2:]}"] if isinstance(value, bool) else [f"{flag}={value}"]
        return vars(parser.parse_args(words))[name]

    values = read_config(given["config"], converted) if "config" in given else {}
    values |= given
    if "cache" not in values:
        parser.error("give CACHE, the folder of a partition cache")
    options = Options(**values)
    checks: list[tuple[str, str, Callable[[str], object]]] = [
        ("--staleness", options.staleness, policy),
        ("--staleness-grad", options.staleness_grad, policy),
        ("--class-weights", options.class_weights, listed_weights),
        ("--schedule", options.schedule, partial(schedule, warmup=options.lr_warmup, epochs=options.epochs)),
    ]
    for flag, text, check in checks:
        try:
            check(text)
        except OptionError as error:
            raise OptionError(f"argument {flag}: {error}") from None
    check_together(options)
    return options


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are the trainer's own, and name what an unknown word resembles."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            word = next((word for word in unknown if word.startswith("-")), unknown[0])
            hint = nearest(word.partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            hint = nearest(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{hint}") from None

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message}; `python -m trainer --help` lists the options")


_EPILOG = """\
examples:
  torchrun --nproc-per-node 4 -m trainer caches/cora/flat-4
  torchrun --nproc-per-node 4 -m trainer caches/arxiv/flat-4 --model sage --layers 3 --hidden 256 --norm batch
  torchrun --nproc-per-node 4 -m trainer caches/cora/flat-4 --staleness adaptive --staleness-grad adaptive --wire int8
  torchrun --nproc-per-node 4 -m trainer caches/cora/flat-4 --model gat --heads 8 --hidden 8 --output-heads 1
  torchrun --nproc-per-node 4 --max-restarts 3 -m trainer caches/cora/flat-4 --checkpoint runs/cora
  python -m trainer.launch caches/cora/flat-4 --json > run.jsonl     (starts the right number of ranks itself)
  python -m trainer.launch --config run.toml --output runs/1         (options from a file; those given here win)

--json prints one line a validated epoch with epoch, loss, val_accuracy, seconds, bytes_sent (the sum of row_bytes_sent,
weight_bytes_sent and other_bytes_sent) and bytes_skipped (of rows); seconds and bytes are those since the line before,
of all ranks together. The last line is the result: test_accuracy, val_accuracy (of another metric val_f1_macro and so
on), task, metric, best_epoch, epochs, resumed_after, seconds, the same bytes in all, by purpose (sent_for), those of
rows by layer and direction (exchanges, with the seconds that they took on each rank), by pair of ranks (pairs) and by
link type (link_types), and what the same passes would have sent in fp32 without kept copies: bytes_exact_boundary, the
rows that peers need, and bytes_whole_block_broadcast, every rank's whole block to every other rank.
docs/training.md has a timeline of an epoch, says what each policy saves, and how runs go on after a failure.

exit status: 2 wrong options, 6 the cache, 7 training could not start or finish, 8 stopped by SIGTERM after saving.
"""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="trainer",
        description="Train a graph neural network on the whole graph, one rank a part of the partition cache.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "cache", metavar="CACHE", nargs="?", help="folder that graphprep partition made; may be in --config"
    )
    parser.add_argument("--config", help="TOML file with options; those given here win", metavar="FILE")
    defaults = {field.name: field.default for field in fields(Options) if field.default is not MISSING}

    def group(title: str) -> Callable[..., None]:
        section = parser.add_argument_group(title)

        def add(flag: str, text: str, *, short: tuple[str, ...] = (), shown: str | None = None, **kind: Any) -> None:
            default = defaults[flag.removeprefix("--").replace("-", "_")]
            if default is False:
                section.add_argument(*short, flag, action=argparse.BooleanOptionalAction, help=text)
            else:
                section.add_argument(flag, help=f"{text} (default: {shown or default})", **kind)

        return add

    add = group("model")
    add(
        "--model", f"{', '.join(MODELS)}, or FILE.py:Class of your own, which is executed", type=_model, metavar="MODEL"
    )
    add("--layers", "graph layers", type=_whole(1, _DEEPEST), metavar="L")
    add("--hidden", "width of the layers between, or of each head", type=_whole(1), metavar="WIDTH")
    add("--aggregator", "what sage makes of the in-neighbours", choices=AGGREGATORS)
    add("--heads", "attention heads of gat and gatv2", type=_whole(1, _MOST), metavar="K")
    add("--output-heads", "those of the last layer", type=_whole(1, _MOST), metavar="K", shown="as --heads")
    add(
        "--bases",
        "matrices of which rgcn makes the weights of all relations; 0: a weight for each",
        type=_whole(0, _MOST),
        metavar="B",
    )
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
    add = group("task")
    add("--target", "node type to learn, where several have labels", metavar="TYPE", shown="the one with labels")
    add("--task", "auto: the cache's; a matrix of numbers is learnt with regression", choices=TASKS)
    add("--metric", "auto: accuracy, for several labels roc-auc, for a regression mse", choices=METRICS)
    add("--class-weights", "none, balanced, or a weight for each class: 1,2.5,1", metavar="WEIGHTS")
    add("--inductive", "train on the training nodes and the edges between them alone, evaluate on the whole graph")
    add = group("optimisation")
    add("--optimiser", "adam, adamw, or sgd", choices=OPTIMISERS)
    add("--momentum", "of sgd", type=_share, metavar="SHARE")
    add("--lr", "step size", type=_number(), metavar="RATE")
    add("--schedule", "of the step size: constant, cosine[:FLOOR], step:N[:FACTOR]", metavar="SCHEDULE")
    add("--lr-warmup", "first epochs in which the step size rises", type=_whole(0), metavar="N")
    add("--clip-norm", "the longest gradient; 0: no limit", type=_number(or_zero=True), metavar="NORM")
    add(
        "--weight-decay",
        "L2 coefficient on the first layer, for attention on all weights",
        type=_number(or_zero=True),
        metavar="RATE",
    )
    add("--epochs", "the most passes over the graph", type=_whole(1), metavar="N")
    add("--patience", "stop after N epochs without a better validation metric; 0: never", type=_whole(0), metavar="N")
    add("--eval-every", "validate every N epochs", type=_whole(1), metavar="N")
    add("--validate-from", "exact: a pass of its own; training: the scores of the training pass", choices=VALIDATIONS)
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
    add("--dense-features", "hold features as a dense matrix also where few entries of it are not 0")
    add("--wire", "what rows are sent in, if narrower", choices=WIRES)
    add("--weights-wire", "what weights' gradients are summed in between ranks", choices=WEIGHTS_WIRES)
    add("--error-feedback", "add to what is sent what rounding took from it the last time")
    add = group("machine")
    add("--device", "auto: GPUs if each rank here has one, else the CPU", choices=DEVICES)
    add(
        "--timeout",
        "seconds to wait for another rank",
        type=_number(at_least=_SHORTEST, at_most=_LONGEST),
        metavar="SECONDS",
    )
    add("--anyway", "start even if more memory is expected to be needed than there is")
    add("--verify", "check the SHA-256 of this rank's files first (reads every byte)")
    add = group("recovery")
    add("--checkpoint", "folder for checkpoints; SIGTERM writes one more and ends the run", metavar="FOLDER")
    add("--checkpoint-every", "epochs between checkpoints; 0: by minutes only", type=_whole(0), metavar="N")
    add("--checkpoint-minutes", "minutes between them; 0: by epochs only", type=_number(or_zero=True), metavar="M")
    add("--resume", "go on from the newest checkpoint there, or start if there is none")
    add("--restarts", "starts again after a failed rank, of graphprep train", type=_whole(0), metavar="N")
    add = group("output")
    add("--output", "folder for the options (config.toml) and the result (result.json)", metavar="FOLDER")
    add("--save-predictions", "all nodes' scores, in the dataset's order: .npy or .pt", metavar="FILE")
    add("--save-embeddings", "the same of what the last layer reads", metavar="FILE")
    add("--tensorboard", "folder for TensorBoard's curves", metavar="FOLDER")
    add("--trace", "folder for a trace of each rank (chrome://tracing)", metavar="FOLDER")
    add("--json", "JSON lines on standard output, nothing else there")
    add("--quiet", "only warnings and errors on standard error", short=("-q",))
    add("--debug", "say more and show tracebacks")
    return parser


def _whole(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    wanted = f"a whole number from {least}" + (f" to {most}" if most < 2**31 - 1 else "")

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {wanted}, not {_short(text)}")
        return value

    return convert


def _number(*, at_least: float = _LEAST, or_zero: bool = False, at_most: float = _GREATEST) -> Callable[[str], float]:
    wanted = f"{'0, or a number' if or_zero else 'a number'} from {at_least:g} to {at_most:g}"

    def convert(text: str) -> float:
        value = _float(text)
        if value is None or not (at_least <= value <= at_most or (or_zero and value == 0)):
            raise argparse.ArgumentTypeError(f"expected {wanted}, not {_short(text)}")
        return value

    return convert


def _short(text: str) -> str:
    """A value as it was given, cut where it is long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _model(text: str) -> str:
    file, name = own_model(text)
    if is_own_model(text) and not (file.endswith(".py") and name.isidentifier()):
        raise argparse.ArgumentTypeError(
            f"expected {', '.join(MODELS)} or FILE.py:Class, not {text!r}{nearest(text, MODELS)}"
        )
    return text


def _probability(text: str) -> float:
    value = _float(text)
    if value is None or not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, not {_short(text)}")
    return value


def _share(text: str) -> float:
    value = _float(text)
    if value is None or not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a share from 0 and below 1, not {_short(text)}")
    return value


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None
