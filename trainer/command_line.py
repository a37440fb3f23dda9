"""The command line of a run: its flags, what they accept, and what `--help` says."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any, NoReturn

from trainer.errors import OptionError
from trainer.objective import listed_weights
from trainer.options import DEVICES, EXCHANGES, METRICS, MODELS, NORMS, PRECISIONS, TASKS, WIRES, Options
from trainer.policies import policy


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options that a command line asks for.

    Args:
        arguments: without the program's name; None means this process's.

    Raises:
        OptionError: one is unknown or has a wrong value.
        SystemExit: `--help`, after it was printed.
    """
    options = Options(**vars(_parser().parse_args(arguments)))
    for flag, text, check in (
        ("--staleness", options.staleness, policy),
        ("--staleness-grad", options.staleness_grad, policy),
        ("--class-weights", options.class_weights, listed_weights),
    ):
        try:
            check(text)
        except OptionError as error:
            raise OptionError(f"argument {flag}: {error}") from None
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
    add("--model", "gcn, or sage: GraphSAGE with the mean of the in-neighbours", choices=MODELS)
    add("--layers", "graph layers", type=_whole(1), metavar="L")
    add("--hidden", "width of the layers between", type=_whole(1), metavar="WIDTH")
    add("--norm", "normalisation after each layer but the last; batch counts all ranks' nodes", choices=NORMS)
    add("--dropout", "share zeroed before layers 2 .. L", type=_share, metavar="SHARE")
    add(
        "--input-dropout",
        "share zeroed before layer 1; 0 lets its neighbour sums be made once",
        type=_share,
        metavar="SHARE",
        shown="as --dropout",
    )
    add = group("task")
    add("--task", "auto: the cache's; a matrix of numbers is learnt with regression", choices=TASKS)
    add("--metric", "auto: accuracy, for several labels roc-auc, for a regression mse", choices=METRICS)
    add("--class-weights", "none, balanced, or a weight for each class: 1,2.5,1", metavar="WEIGHTS")
    add = group("optimisation (Adam)")
    add("--lr", "step size", type=_number(above=0.0), metavar="RATE")
    add("--weight-decay", "L2 coefficient on the first layer", type=_number(at_least=0.0), metavar="RATE")
    add("--epochs", "the most passes over the graph", type=_whole(1), metavar="N")
    add("--patience", "stop after N epochs without a better validation accuracy; 0: never", type=_whole(0), metavar="N")
    add("--eval-every", "validate every N epochs", type=_whole(1), metavar="N")
    add("--seed", "decides weights and dropout masks", type=_whole(0), metavar="N")
    add("--split", "which column of the masks", type=_whole(0), metavar="I")
    add = group("what is sent between ranks")
    add("--exchange", "boundary: the rows that a peer needs; broadcast: all rows", choices=EXCHANGES)
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
