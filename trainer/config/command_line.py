"""The command line of a run, derived from the options in options.py."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from trainer.base.errors import OptionError
from trainer.base.nearest import nearest
from trainer.config.config import read_config
from trainer.config.option import Option
from trainer.config.option_conflicts import check_together
from trainer.config.options import OPTIONS, Options


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options of a command line.

    Args:
        arguments: without the program's name; None means this process's.

    Raises:
        OptionError: one is unknown or has a wrong value.
        SystemExit: `--help`, after it was printed.
    """
    values = given(arguments)
    if "cache" not in values:
        _parser().error("give CACHE, the folder of a partition cache")
    model = values.get("model", OPTIONS["model"].default)
    of_model = {name: option.default_for(model) for name, option in OPTIONS.items() if option.model_defaults}
    options = Options(**(of_model | values))
    check_together(options)
    return options


def given(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """The values that a command line and its --config file give, by the option's name.

    Raises:
        OptionError, SystemExit: as for `parse`.
    """
    parser = _parser()
    from_words = vars(parser.parse_args(arguments))

    def converted(name: str, value: Any) -> Any:
        if name == "cache":
            return value
        return vars(parser.parse_args([word_of(name, value)]))[name]

    from_file = read_config(from_words["config"], converted) if "config" in from_words else {}
    return from_file | from_words


def word_of(name: str, value: object) -> str:
    """An option with its value, as one word of a command line."""
    flag = OPTIONS[name].flag
    if isinstance(value, bool):
        return flag if value else f"--no-{flag[2:]}"
    return f"{flag}={value}"


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are the trainer's own, and name what an unknown word resembles."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            word = next((word for word in unknown if word.startswith("-")), unknown[0])
            hint = nearest(word.partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed

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
  torchrun --nproc-per-node 4 -m trainer caches/messages/events-4 --model tgn          (a stream of events)
  torchrun --nproc-per-node 4 --max-restarts 3 -m trainer caches/cora/flat-4 --checkpoint runs/cora
  python -m trainer.launch caches/cora/flat-4 --json > run.jsonl     (starts the right number of ranks itself)
  python -m trainer.launch --config run.toml --output runs/1         (options from a file; those given here win)

--json prints one line a validated epoch with epoch, loss, val_accuracy, seconds, bytes_sent (the sum of
row_bytes_sent, weight_bytes_sent and other_bytes_sent), bytes_skipped (of rows), seconds by kind and memory of all
ranks (ranks), and bytes by layer and link type (links); seconds and bytes are those since the line before, of all
ranks together. The last line is the result: test_accuracy, val_accuracy (of another metric val_f1_macro and so on),
task, metric, best_epoch, epochs, resumed_after, seconds, the same bytes in all, by purpose (sent_for), those of rows
by layer and direction (exchanges, with the seconds that they took on each rank), by pair of ranks (pairs) and by link
type (link_types), and what the same passes would have sent in fp32 without kept copies: bytes_exact_boundary, the rows
that peers need, and bytes_whole_block_broadcast, every rank's whole block to every other rank.
docs/training.md is the guide, with a timeline of an epoch; docs/training-measurements.md says what each policy saves.

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
    sections: dict[str, Any] = {"run": parser}
    for option in OPTIONS.values():
        title = option.group.title
        if title not in sections:
            sections[title] = parser.add_argument_group(title)
        _add(sections[title], option)
    return parser


def _add(section: Any, option: Option) -> None:
    """Add one option to an argparse group."""
    if option.name == "cache":
        section.add_argument("cache", metavar=option.metavar, nargs="?", help=option.help)
        return
    text = option.full_help.replace("%", "%%")
    if option.kind is bool:
        section.add_argument(*option.short, option.flag, action=argparse.BooleanOptionalAction, help=text)
        return
    if option.default_text is not None:
        text += f" (default: {option.default_text})"
    section.add_argument(
        option.flag, help=text, metavar=option.metavar, type=option.convert or str, choices=option.choices or None
    )
