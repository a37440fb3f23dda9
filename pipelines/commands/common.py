"""What all commands share: options, the way they end when something is wrong, and how results are printed."""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeVar

import click

from graphprep.errors import GraphprepError, operating_system_sentence
from graphprep.system import progress
from graphprep.system.printable import printable
from pipelines.commands.options import names

Command = TypeVar("Command", bound=Callable[..., Any])
HELP_OPTIONS = ["-h", "--help"]


def common(command: Command) -> Command:
    """--json, --quiet and --debug, and the way that every command ends when something is wrong."""
    return click.option("--json", "json_output", is_flag=True, help="One JSON document on standard output.")(
        common_without_json(command)
    )


def common_without_json(command: Command) -> Command:
    """The same without --json."""

    @click.option("-q", "--quiet", is_flag=True, help="No progress, only warnings and the result.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(command)
    def run(*args: Any, quiet: bool, debug: bool, **options: Any) -> None:
        progress.configure(quiet=quiet)
        try:
            command(*args, **options)
        except GraphprepError as error:
            if debug:
                raise
            fail(str(error), error.exit_status)
        except KeyboardInterrupt:
            click.echo("graphprep: error: interrupted; run the same command again to go on", err=True)
            sys.stdout.flush()
            os._exit(130)  # a tidy end would wait for, or race with, the threads of native libraries
        except MemoryError:
            if debug:
                raise
            fail("memory ran out; close other programs or use a machine with more memory", 1)
        except OSError as error:
            if debug or error.errno == errno.EPIPE:
                raise
            fail(operating_system_sentence(error), 1)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if debug:
                raise
            fail(f"internal error, please report it with the output of --debug: {type(error).__name__}: {error}", 1)

    return run  # type: ignore[return-value]


def fail(sentence: str, status: int) -> None:
    """Print one sentence to standard error and exit."""
    click.echo(printable(f"graphprep: error: {sentence}"), err=True)
    click.get_current_context().exit(status)


def show(document: Any, printer: Callable[[Any, TextIO], None] | str, json_output: bool) -> None:
    """Print a result: as JSON, or for people, by a function of `graphprep.report` or as a line."""
    if json_output:
        print_json(document)
    elif isinstance(printer, str):
        print_line(printer)
    else:
        printer(document, sys.stdout)


def print_json(document: Any) -> None:
    """One JSON document on standard output; DEL is the one control character that JSON leaves as it is."""
    click.echo(json.dumps(document, indent=1, allow_nan=False).replace("\x7f", "\\u007f"))


def print_line(text: str, *, err: bool = False) -> None:
    """A result, or what was written, in which names and paths of people may stand."""
    click.echo(printable(text), err=err)


PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)


def amount_of_memory(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """--memory in bytes."""
    from graphprep.system.memory import parse

    try:
        return None if text is None else parse(text)
    except GraphprepError as error:
        raise click.UsageError(str(error)) from error


def several(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Options in this order as one decorator."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


work_options = several(
    click.option(
        "--memory",
        "memory_limit",
        metavar="AMOUNT",
        callback=amount_of_memory,
        help="Memory that the whole run may use, e.g. 2GB; by default half of what is free. What does not fit goes "
        "through the disk, or is done in smaller pieces.",
    ),
    click.option(
        "--dask",
        metavar="ADDRESS|local:N",
        help="Work over ranges of rows and parts on a Dask cluster: a scheduler's address, or N workers started here.",
    ),
)
store_options = several(
    click.option(
        "--out",
        metavar="PATH_OR_URL",
        help="The store itself, also as a URL, e.g. s3://BUCKET/NAME; by default stores/NAME.zarr in GRAPHPREP_HOME.",
    ),
    click.option("--replace", is_flag=True, help="Make the store again even if it is here, or replace another one."),
    work_options,
)
anyway_option = click.option("--anyway", is_flag=True, help="Only warn about counts and values that look wrong.")
html_option = click.option("--html", type=FILE, help="Write a self-contained page.")


class OneSentence(click.Group):
    """A group whose own complaints (unknown options, missing arguments) read like all others."""

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        run: Callable[..., Any] = self.main
        try:
            status = run(*arguments, standalone_mode=False, **options)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()  # the help of a group without a command, as click prints it
            status = error.exit_code
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            hint = f"; see `{context.command_path} --help`" if context is not None else ""
            click.echo(printable(f"graphprep: error: {error.format_message().rstrip('.')}{hint}"), err=True)
            status = error.exit_code
        except click.Abort:
            status = 130
        sys.exit(status if isinstance(status, int) else 0)


def parts_option(text: str = "K parts for K equal ranks on one switch.") -> Callable[[Command], Command]:
    """--parts, whose help is another for each command."""
    return click.option("--parts", type=int, help=text)


def topology_option(text: str) -> Callable[[Command], Command]:
    """--topology, likewise."""
    return click.option("--topology", metavar="FILE_OR_PRESET", shell_complete=names.topologies, help=text)


def make_store(
    make: Callable[..., Any], what: Any, memory_limit: int | None, dask: str | None, json_output: bool, **options: Any
) -> None:
    """Fetch, import or generate by a function of `pipelines`, and print which store there is now."""
    from graphprep.system.executor import open_executor

    with open_executor(dask, memory_limit=memory_limit) as executor:
        outcome = make(what, memory_limit=memory_limit, executor=executor, **options)
    edges = {edge_type.key: count for edge_type, count in outcome.store.num_edges.items()}
    show_store(outcome, json_output, edges=edges)


def show_store(outcome: Any, json_output: bool, **counts: Any) -> None:
    """Print which store, or event store, there is now; `counts` are for --json."""
    store = outcome.store
    facts = {"dataset": store.name, "location": store.location, "reused": outcome.reused, "key": store.key}
    text = f"{'up to date' if outcome.reused else 'wrote'}: {store.location}"
    show({**facts, "nodes": store.num_nodes, **counts}, text, json_output)


def show_cache(outcome: Any, json_output: bool, **more: Any) -> None:
    """Print which cache there is now, after partition and cache; `more` is for --json."""
    from graphprep.report.cache_tables import batch_sentence, verdict_report
    from graphprep.report.summary.cache_summary import quality_of
    from graphprep.report.summary.verdict import beside_metis
    from graphprep.report.terminal import printer

    cache, quality = outcome.cache, quality_of(outcome.cache)
    beside = beside_metis(cache, quality)
    document = {
        "cache": str(cache.folder),
        "reused": outcome.reused,
        "key": cache.key,
        "num_parts": cache.num_parts,
        "method": cache.attributes["options"]["method_chosen"],
        "fallback": cache.attributes.get("fallback"),
        "beside_metis": beside,
        "quality": quality,
        **more,
    }
    state = "wrote" if not outcome.reused else "up to date" if cache.fallback is None else "kept"
    by = "" if cache.fallback is None else f"by the fallback {cache.fallback.used}, "
    text = (
        f"{state}: {cache.folder} ({cache.num_parts} parts, {by}"
        f"{quality['cut_edges']:,} cut edges, bottleneck {quality['bottleneck_seconds'] * 1e3:.3f} ms an exchange"
    )
    relay = quality.get("relay")
    text += f", {relay['direct_bottleneck_seconds'] * 1e3:.3f} ms without relays)" if relay else ")"

    @printer
    def print_result(beside: dict[str, Any]) -> Any:
        yield from verdict_report(beside)
        yield text
        if quality.get("batches"):
            yield batch_sentence(quality["batches"])

    show(document, lambda _document, file: print_result(beside, file), json_output)
