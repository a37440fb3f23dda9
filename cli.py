"""The command line: parse, call a pipeline, print. No logic of its own.

Results go to standard output, words for people and progress to standard error. Heavy packages are imported inside the
commands, so that `graphprep --help` answers at once.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from graphprep import __version__, progress
from graphprep.errors import GraphprepError, UsageError

if TYPE_CHECKING:
    from pipelines.partition import PartitionOutcome

Command = TypeVar("Command", bound=Callable[..., Any])
HELP_OPTIONS = ["-h", "--help"]


def common(command: Command) -> Command:
    """The options that every command has, and the way every command ends when something is wrong."""

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
    click.echo(f"graphprep: error: {sentence}", err=True)
    click.get_current_context().exit(status)


def operating_system_sentence(error: OSError) -> str:
    """What the operating system refused, where, and what to do."""
    where = f" at {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC or "Not enough free space" in str(error):
        return f"the disk is full{where}; free some space and run the same command again"
    if error.errno in (errno.ENOTDIR, errno.ENOENT, errno.EEXIST, errno.ENAMETOOLONG):
        return f"{error.strerror}{where}; check GRAPHPREP_HOME and the paths that were given"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission{where}; set GRAPHPREP_HOME or --out to a folder that you may write to"
    return f"the operating system says: {error.strerror or error}{where}"


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, indent=1, allow_nan=False))


PATH = click.Path(path_type=Path)


def amount_of_memory(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """--memory in bytes."""
    from graphprep.memory import parse

    try:
        return None if text is None else parse(text)
    except GraphprepError as error:
        raise click.UsageError(str(error)) from error


memory_option = click.option(
    "--memory",
    "memory_limit",
    metavar="AMOUNT",
    callback=amount_of_memory,
    help="Memory that the whole run may use, e.g. 2GB; by default half of what is free. What does not fit goes through "
    "the disk, or is done in smaller pieces.",
)
anyway_option = click.option("--anyway", is_flag=True, help="Only warn about counts and values that look wrong.")
as_json = click.option("--json", "json_output", is_flag=True, help="One JSON document on standard output.")


class OneSentence(click.Group):
    """A group whose own complaints (unknown options, missing arguments) read like all others."""

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        run: Callable[..., Any] = self.main
        try:
            status = run(*arguments, standalone_mode=False, **options)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            hint = f"; see `{context.command_path} --help`" if context is not None else ""
            click.echo(f"graphprep: error: {error.format_message().rstrip('.')}{hint}", err=True)
            status = error.exit_code
        except click.Abort:
            status = 130
        sys.exit(status if isinstance(status, int) else 0)


@click.group(cls=OneSentence, context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": 110})
@click.version_option(__version__, prog_name="graphprep")
def main() -> None:
    """Prepare a graph for full-graph training on several GPUs: fetch, convert, partition for the links, cache, train.

    \b
    Examples:
      graphprep fetch digits
      graphprep partition digits --topology 2x2
      graphprep inspect digits/2x2
      graphprep train digits/2x2
    """


@main.command("list")
@as_json
@common
def list_datasets(json_output: bool) -> None:
    """What the registry knows, and what is here already."""
    from graphprep.inspect.tables import print_datasets
    from pipelines.ingest import known_datasets

    rows = known_datasets()
    if json_output:
        print_json(rows)
    else:
        print_datasets(rows, sys.stdout)


@main.command()
@click.argument("name")
@click.option("--mirror", metavar="URL_OR_FOLDER", help="Take https://HOST/PATH from MIRROR/HOST/PATH instead.")
@click.option("--replace", is_flag=True, help="Convert again even if the store is here, or replace an imported one.")
@memory_option
@anyway_option
@as_json
@common
def fetch(
    name: str, mirror: str | None, replace: bool, memory_limit: int | None, anyway: bool, json_output: bool
) -> None:
    """Download dataset NAME, verify it, and convert it to a graph store.

    \b
    Examples:
      graphprep fetch digits                      # ships with scikit-learn, needs no network
      graphprep fetch cora
      graphprep fetch cora --mirror ./mirror
    """
    from pipelines.ingest import fetch_dataset

    outcome = fetch_dataset(name, mirror=mirror, replace=replace, memory_limit=memory_limit, anyway=anyway)
    print_store_outcome(outcome, json_output)


@main.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, type=PATH)
@click.option("--name", required=True, help="What to call the dataset.")
@click.option("--schema", type=PATH, help="YAML that names node and edge types and their files, instead of PATH.")
@click.option(
    "--format",
    type=click.Choice(["auto", "text", "metis", "mtx", "npy", "npz", "parquet", "pyg"]),
    default="auto",
    show_default=True,
    help="Of the files of edges; auto goes by the ending of the name.",
)
@click.option(
    "--ids",
    type=click.Choice(["auto", "numbers", "words"]),
    default="auto",
    show_default=True,
    help="Whether ids are words; auto takes text for numbers and the types of Parquet as they are.",
)
@click.option("--undirected", is_flag=True, help="Add the reverse of every edge that has none.")
@click.option("--duplicates", type=click.Choice(["keep", "sum", "drop"]), default="keep", show_default=True)
@click.option("--self-loops", type=click.Choice(["keep", "drop", "add"]), default="keep", show_default=True)
@click.option("--weights", is_flag=True, help="Read edge weights: in text the third column, or the one called weight.")
@click.option("--edge-times", is_flag=True, help="Read edge times: the next column, or the one called time.")
@click.option("--header/--no-header", default=None, help="Whether text begins with column names; csv and tsv may.")
@click.option("--num-nodes", type=click.IntRange(min=1), help="Ids are row numbers below this count.")
@click.option("--features", type=PATH, help="Node features, one row a node: npy, npz, csv, parquet.")
@click.option("--labels", type=PATH, help="One class a node, -1 for none: npy, npz, csv, txt, parquet.")
@click.option("--node-times", "times", type=PATH, help="One time a node, as labels are given.")
@click.option("--id-column", metavar="NAME", help="The column of features and labels (csv, parquet) with the ids.")
@click.option("--train", type=PATH, help="Training nodes: a mask [N] or [N, S], or row numbers; npy, npz, csv, txt.")
@click.option("--val", type=PATH, help="Validation nodes, likewise.")
@click.option("--test", type=PATH, help="Test nodes, likewise.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the split drawn without masks."
)
@click.option("--out", type=PATH, help="The store itself; by default stores/NAME.zarr in GRAPHPREP_HOME.")
@click.option("--replace", is_flag=True, help="Replace a store of this name that was made from something else.")
@memory_option
@anyway_option
@as_json
@common
def import_files(
    paths: tuple[Path, ...],
    name: str,
    schema: Path | None,
    out: Path | None,
    replace: bool,
    memory_limit: int | None,
    anyway: bool,
    json_output: bool,
    **options: Any,
) -> None:
    """Convert your own files to a graph store.

    Edges: text (SNAP, csv, tsv; .gz and .zst too), Parquet, npy, npz, METIS .graph, MatrixMarket .mtx, or a whole graph
    of PyTorch Geometric's (.pt). Weights and times are read if asked for. Ids with gaps, and words, are numbered in
    ascending order and kept in the store as original_id, unless --num-nodes, --features or --labels say that they are
    row numbers. Labels without --train, --val and --test get a seeded split: 20 and 30 nodes a class, the rest to test.

    \b
    Examples:
      graphprep import ego-twitter.txt.gz --name ego-twitter --undirected
      graphprep import edges.csv --name mine --features x.npy --labels y.npy
      graphprep import messages.txt --name messages --edge-times
      graphprep import mesh.graph --name mesh
      graphprep import --schema acm.yaml --name acm
    """
    from graphprep.sources.user_files import request_of
    from pipelines.ingest import import_files as import_request

    outcome = import_request(
        request_of(paths, schema, options),
        name=name,
        out=out,
        replace=replace,
        memory_limit=memory_limit,
        anyway=anyway,
    )
    print_store_outcome(outcome, json_output)


@main.group()
def generate() -> None:
    """Seeded graphs of any size: block models, R-MAT, grids."""


def generator_options(command: Command) -> Command:
    """The options that all generators have."""
    for option in reversed(
        (
            click.option("--name", required=True, help="What to call the dataset."),
            click.option("--classes", type=int, default=8, show_default=True),
            click.option("--features", type=click.IntRange(min=0), default=0, show_default=True, help="0 for none."),
            click.option("--dtype", type=click.Choice(["float16", "float32"]), default="float32", show_default=True),
            click.option("--signal", type=float, default=2.0, show_default=True, help="How far classes lie apart."),
            click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
            click.option("--out", type=PATH, help="The store itself; by default stores/NAME.zarr in GRAPHPREP_HOME."),
            click.option("--replace", is_flag=True, help="Replace a store that was made from something else."),
            memory_option,
            as_json,
            common,
        )
    ):
        command = option(command)
    return command


def run_generator(
    request: Any, name: str, out: Path | None, replace: bool, memory_limit: int | None, json_output: bool
) -> None:
    """The end of every generator."""
    from pipelines.generate import generate_graph

    outcome = generate_graph(request, name=name, out=out, replace=replace, memory_limit=memory_limit)
    print_store_outcome(outcome, json_output)


def split_off(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options that are not the generator's own out of `options`."""
    return {name: options.pop(name) for name in ("name", "out", "replace", "memory_limit", "json_output")}


@generate.command()
@click.option("--nodes", type=click.IntRange(min=1), required=True)
@click.option("--edges", type=click.IntRange(min=0), required=True, help="Undirected edges that are drawn.")
@click.option("--branching", type=int, default=8, show_default=True, help="Blocks in a block.")
@click.option("--levels", type=int, default=2, show_default=True, help="Levels of blocks.")
@click.option("--inside", type=float, default=0.8, show_default=True, help="Probability to stay in the block.")
@generator_options
def sbm(**options: Any) -> None:
    """A hierarchical stochastic block model, with labels and features that follow the blocks.

    \b
    Example:
      graphprep generate sbm --name sbm-200k --nodes 200000 --edges 2000000 --features 64
    """
    from graphprep.generators.sbm import SbmRequest

    common_options = split_off(options)
    run_generator(SbmRequest(**options), **common_options)


@generate.command()
@click.option("--scale", type=int, required=True, help="There are 2^SCALE nodes.")
@click.option("--edges", type=click.IntRange(min=0), required=True, help="Undirected edges that are drawn.")
@click.option("--a", type=float, default=0.57, show_default=True)
@click.option("--b", type=float, default=0.19, show_default=True)
@click.option("--c", type=float, default=0.19, show_default=True)
@generator_options
def rmat(**options: Any) -> None:
    """An R-MAT graph, with the skewed degrees of the web.

    \b
    Example:
      graphprep generate rmat --name rmat-18 --scale 18 --edges 2000000
    """
    from graphprep.generators.rmat import RmatRequest

    common_options = split_off(options)
    run_generator(RmatRequest(**options), **common_options)


@generate.command()
@click.option("--sides", required=True, metavar="AxBxC", help="Nodes along each axis, e.g. 80x80x80.")
@generator_options
def grid(sides: str, **options: Any) -> None:
    """A grid of any number of dimensions.

    \b
    Example:
      graphprep generate grid --name grid-512k --sides 80x80x80
    """
    from graphprep.generators.grid import GridRequest

    common_options = split_off(options)
    if not all(side.isdecimal() and side.isascii() for side in sides.split("x")):
        raise UsageError(f"--sides {sides} must be whole numbers with x between them, e.g. 80x80x80")
    run_generator(GridRequest(sides=tuple(map(int, sides.split("x"))), **options), **common_options)


def print_store_outcome(outcome: Any, json_output: bool) -> None:
    """The end of fetch, import and generate."""
    store = outcome.store
    if json_output:
        print_json(
            {
                "dataset": store.name,
                "location": store.location,
                "reused": outcome.reused,
                "key": store.key,
                "nodes": store.num_nodes,
                "edges": {edge_type.key: count for edge_type, count in store.num_edges.items()},
            }
        )
    else:
        click.echo(f"{'up to date' if outcome.reused else 'wrote'}: {store.location}")


@main.command()
@click.argument("name_or_store")
@click.option("--parts", type=int, help="K parts for K equal ranks on one switch.")
@click.option(
    "--topology", metavar="FILE_OR_PRESET", help="The machine to partition for; see `graphprep topology list`."
)
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="Where refinement starts: auto (several, the best wins), metis, metis-recursive, metis-volume, "
    "metis-balanced (nodes and edges), metis-hierarchical (slow links first), ldg, random; with their packages "
    "installed mtkahypar, mtkahypar-rows, mtkahypar-steiner, kaminpar.",
)
@click.option(
    "--assignment",
    type=PATH,
    help="Parts that were made elsewhere, one number a node, p for rank p: .npy, .npz, .pt, .txt or METIS's .part.K.",
)
@click.option(
    "--effort",
    help="none, fast, default or best: how long parts are laid on ranks and refined for the links.  "
    "[default: default; with --assignment none]",
)
@click.option("--imbalance", type=float, default=1.05, show_default=True, help="Largest share over target share.")
@click.option("--row-bytes", type=int, default=1024, show_default=True, help="Bytes of one node's row in one exchange.")
@click.option(
    "--balance",
    type=click.Choice(["rows", "edges"]),
    default="rows",
    show_default=True,
    help="What the seconds of a link count.",
)
@click.option(
    "--minimise",
    type=click.Choice(["slowest", "total"]),
    default="slowest",
    show_default=True,
    help="The seconds of the slowest link direction, or of all together; with --parts and --balance edges, total is "
    "the number of cut edges.",
)
@click.option(
    "--limits",
    default="nodes,in-edges,work,training-nodes,types",
    show_default=True,
    callback=lambda _context, _option, text: tuple(text.split(",")),
    help="What is held within --imbalance, with commas between; '' for nothing.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The cache folder itself; by default caches/NAME/LABEL in GRAPHPREP_HOME.",
)
@click.option("--replace", is_flag=True, help="Replace a damaged cache or one that other options made.")
@click.option(
    "--features",
    type=click.Choice(["stored", "float32", "float16", "bfloat16", "none"]),
    default="stored",
    show_default=True,
    help="The type of features in the cache; none leaves them out.",
)
@click.option(
    "--scale-features",
    type=click.Choice(["none", "rows", "columns"]),
    default="none",
    show_default=True,
    help="rows: each row's absolute values sum to 1; columns: each column has mean 0 and deviation 1.",
)
@click.option(
    "--aggregate-features",
    type=click.Choice(["none", "gcn", "mean"]),
    default="none",
    show_default=True,
    help="Sum the neighbours' features beforehand, for the first layer of GCN (gcn) or GraphSAGE (mean).",
)
@memory_option
@click.option("--dry-run", is_flag=True, help="Say what memory, disk and time to expect, and stop.")
@as_json
@common
def partition(
    name_or_store: str,
    parts: int | None,
    topology: str | None,
    assignment: Path | None,
    effort: str | None,
    out: Path | None,
    replace: bool,
    memory_limit: int | None,
    features: str,
    scale_features: str,
    aggregate_features: str,
    dry_run: bool,
    json_output: bool,
    **options: Any,
) -> None:
    """Partition a store for the machine it will train on, and write the partition cache.

    \b
    Examples:
      graphprep partition cora --parts 4
      graphprep partition cora --topology 2x4.yaml
      graphprep partition cora --topology dgx-1-v100 --dry-run
      graphprep partition cora --parts 4 --assignment cora.graph.part.4
    """
    from graphprep.cache.features import FeatureOptions
    from graphprep.partition.request import PartitionRequest
    from pipelines.partition import announce, plan_partition, run_partition

    request = PartitionRequest(effort=effort or ("none" if assignment else "default"), **options)
    plan = plan_partition(
        name_or_store,
        parts=parts,
        topology=topology,
        request=request,
        out=out,
        assignment=assignment,
        memory_limit=memory_limit,
        features=FeatureOptions(
            features=features, scale_features=scale_features, aggregate_features=aggregate_features
        ),
    )
    if dry_run:
        if json_output:
            print_json({"cache": str(plan.target), "key": plan.key, **plan.expectations()})
        else:
            announce(plan)
        return
    _print_partition(run_partition(plan, replace_other=replace), json_output)


def _print_partition(outcome: PartitionOutcome, json_output: bool) -> None:
    """Say what cache there is now."""
    cache = outcome.cache
    if json_output:
        print_json(
            {
                "cache": str(cache.folder),
                "reused": outcome.reused,
                "key": cache.key,
                "num_parts": cache.num_parts,
                "method": cache.attributes["options"]["method_chosen"],
                "quality": cache.quality,
            }
        )
        return
    quality = cache.quality
    click.echo(
        f"{'up to date' if outcome.reused else 'wrote'}: {cache.folder} ({cache.num_parts} parts, "
        f"{quality['cut_edges']:,} cut edges, bottleneck {quality['bottleneck_seconds'] * 1e3:.3f} ms an exchange)"
    )


@main.command()
@click.argument("store_or_cache")
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a self-contained page about a cache."
)
@as_json
@common
def inspect(store_or_cache: str, html: Path | None, json_output: bool) -> None:
    """Show what a store or a cache holds: a path, a dataset's name, or NAME/LABEL.

    \b
    Examples:
      graphprep inspect digits
      graphprep inspect digits/2x2
      graphprep inspect digits/2x2 --json
      graphprep inspect digits/2x2 --html report.html
    """
    from pipelines.look import report_target, summarise, write_report

    target = None if html is None else report_target(store_or_cache, html)
    kind, summary = summarise(store_or_cache)
    if target is not None:
        write_report(summary, target)
        click.echo(f"wrote {target}", err=True)
    if json_output:
        print_json(summary)
    elif html is None:
        from graphprep.inspect.tables import print_cache, print_store

        show = print_cache if kind == "cache" else print_store
        show(summary, sys.stdout)


@main.command()
@click.argument("store_or_cache")
@as_json
@common
def verify(store_or_cache: str, json_output: bool) -> None:
    """Read a whole store or cache and check it: checksums, sizes, valid CSR, parts that fit together.

    \b
    Examples:
      graphprep verify digits
      graphprep verify digits/2x2
    """
    from pipelines.look import verify as verify_whole

    report = verify_whole(store_or_cache)
    if json_output:
        print_json(report)
    else:
        click.echo(f"{report['location']}: whole")


@main.command()
@click.argument("cache")
@click.argument("predictions", type=PATH)
@click.option("--task", help="regression for a matrix of numbers; otherwise the cache says it.")
@click.option("--metric", help="ogb, accuracy, f1-micro, f1-macro, roc-auc, mse or mae; default: OGB's or the task's.")
@click.option("--split", default=0, show_default=True, help="Which column of the masks.")
@as_json
@common
def evaluate(
    cache: str, predictions: Path, task: str | None, metric: str | None, split: int, json_output: bool
) -> None:
    """Score PREDICTIONS, a .npy or .pt of `train --save-predictions`, against a cache's labels.

    Datasets of OGB are scored by OGB's own evaluator.

    \b
    Examples:
      graphprep train cora/2x2 --save-predictions cora.npy
      graphprep evaluate cora/2x2 cora.npy --metric f1-macro
    """
    from pipelines.evaluate import evaluate as score_predictions

    report = score_predictions(cache, predictions, task=task, metric=metric, split=split)
    if json_output:
        print_json(report)
        return
    click.echo(f"{report['dataset']}: {report['metric']} by {report['evaluator']}, split {report['split']}")
    for group in ("train", "val", "test"):
        if group in report:
            click.echo(f"  {group:5} {'-' if report[group] is None else format(report[group], '.4f')}")


@main.command()
@click.argument("cache")
@click.argument("out", type=PATH)
@click.option("--format", "format_name", required=True, help="dgl, pyg or npz; docs/export.md says what each holds.")
@click.option("--replace", is_flag=True, help="Replace an export of another cache or in another format.")
@as_json
@common
def export(cache: str, out: Path, format_name: str, replace: bool, json_output: bool) -> None:
    """Write a cache, a path or NAME/LABEL, in the files of another tool, as the new folder OUT.

    \b
    Examples:
      graphprep export cora/2x4 --format dgl ./cora-dgl     # for dgl.distributed.load_partition
      graphprep export cora/2x4 --format pyg ./cora-pyg     # for torch_geometric.distributed, or one Data a part
      graphprep export cora/2x4 --format npz ./cora-npz     # needs NumPy alone
    """
    from pipelines.export import export_cache

    outcome = export_cache(cache, out, format_name=format_name, replace=replace)
    if json_output:
        print_json(
            {
                "folder": str(outcome.folder),
                "format": outcome.format,
                "reused": outcome.reused,
                "files": outcome.files,
                "bytes": outcome.bytes,
            }
        )
    else:
        click.echo(f"{'up to date' if outcome.reused else 'wrote'}: {outcome.folder} ({outcome.files:,} files)")


@main.group()
def cache() -> None:
    """Caches of another number of parts from those that there are."""


def regroup_options(command: Command) -> Command:
    """What merge and split have in common."""
    for option in reversed(
        (
            click.argument("name_or_cache"),
            click.option("--parts", type=int, help="K parts for K equal ranks on one switch."),
            click.option("--topology", metavar="FILE_OR_PRESET", help="The machine that the new parts are for."),
            click.option(
                "--effort",
                default="none",
                show_default=True,
                help="none, fast, default or best: whether the result is refined for the new links.",
            ),
            click.option("--seed", type=int, default=0, show_default=True),
            click.option(
                "--out",
                type=click.Path(path_type=Path),
                help="The new cache's folder; by default caches/NAME/LABEL in GRAPHPREP_HOME.",
            ),
            click.option("--replace", is_flag=True, help="Replace a cache that other options made."),
            as_json,
            common,
        )
    ):
        command = option(command)
    return command


@cache.command()
@regroup_options
def merge(**options: Any) -> None:
    """Make one part of neighbours that lie on one machine.

    \b
    Example:
      graphprep cache merge cora/2x4 --parts 4
    """
    _regroup("merge", **options)


@cache.command()
@regroup_options
def split(**options: Any) -> None:
    """Divide each part into several.

    \b
    Example:
      graphprep cache split cora/2x2 --topology 2x4
    """
    _regroup("split", **options)


def _regroup(
    way: str, name_or_cache: str, replace: bool, json_output: bool, effort: str, seed: int, **where: Any
) -> None:
    from graphprep.api import open_cache
    from graphprep.partition.request import PartitionRequest
    from pipelines.partition import run_partition
    from pipelines.regroup import plan_regroup

    plan = plan_regroup(open_cache(name_or_cache), way, request=PartitionRequest(effort=effort, seed=seed), **where)  # type: ignore[arg-type]
    _print_partition(run_partition(plan, replace_other=replace), json_output)


@main.group()
def topology() -> None:
    """Machines to partition for: presets and your own YAML files."""


@topology.command("list")
@as_json
@common
def list_topologies(json_output: bool) -> None:
    """The presets."""
    from graphprep.topology import preset_names, resolve

    presets = {name: resolve(name) for name in preset_names()}
    if json_output:
        print_json([{"name": name, "ranks": preset.num_ranks} for name, preset in presets.items()])
    else:
        for name, preset in presets.items():
            click.echo(f"{name:<28} {preset.num_ranks:>4} ranks")


@topology.command("show")
@click.argument("file_or_preset")
@click.option("--table", is_flag=True, help="A table of the links instead of YAML.")
@as_json
@common
def show_topology(file_or_preset: str, table: bool, json_output: bool) -> None:
    """A topology in its long form, as YAML that can be edited and given to --topology.

    \b
    Examples:
      graphprep topology show 2x4 > mine.yaml
      graphprep topology show mine.yaml --table
    """
    from graphprep.topology import resolve

    if table and json_output:
        raise UsageError("give either --table or --json")
    found = resolve(file_or_preset)
    if json_output:
        print_json(found.to_long_form())
    elif table:
        from graphprep.inspect.tables import print_topology

        print_topology(found.to_long_form(), sys.stdout)
    else:
        click.echo(found.to_yaml(), nl=False)


new_file = click.option("--replace", is_flag=True, help="Replace the file if it is there.")
topology_name = click.option("--name", help="Of the topology, and so of caches made for it; by default the file's.")


@topology.command("detect")
@click.option("--file", "saved", type=PATH, help="Saved output of `nvidia-smi topo -m`, instead of asking the driver.")
@click.option("--out", type=PATH, help="Write the topology here instead of to standard output.")
@new_file
@topology_name
@as_json
@common
def detect_topology(saved: Path | None, out: Path | None, replace: bool, name: str | None, json_output: bool) -> None:
    """This machine's GPUs, switches and NVLinks, as nvidia-smi shows them; bandwidths are defaults by generation.

    A saved file may also hold what `nvidia-smi --query-gpu=name,pci.bus_id,memory.total --format=csv,noheader` prints.

    \b
    Examples:
      graphprep topology detect --out mine.yaml
      graphprep topology detect --file saved.txt > mine.yaml
    """
    from graphprep.topology.detect import detected, read_saved, run_here
    from graphprep.topology.saved import as_text, checked_out, chosen_name, save

    target = None if out is None else checked_out(out, replace=replace)
    seen = run_here() if saved is None else read_saved(saved)
    found = detected(seen, name=chosen_name(name, out, "detected"))
    if target is not None:
        save(found.topology, found.comments, target)
        click.echo(f"wrote {target}", err=True)
    if json_output:
        print_json(found.topology.to_long_form())
    elif target is None:
        click.echo(as_text(found.topology, found.comments), nl=False)


@topology.command("probe")
@click.option("--out", type=PATH, required=True, help="The topology to write.")
@click.option("--nproc", type=int, help="Ranks on this machine; by default one a GPU.")
@click.option("--backend", type=click.Choice(["gloo", "nccl"]), help="By default nccl if every rank has a GPU.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="That it may take, more or less.")
@click.option("--sizes", metavar="BYTES,...", help="Of the messages of pairs alone, the smallest first.")
@click.option("--timeout", type=float, default=180.0, show_default=True, help="Seconds to wait for another rank.")
@new_file
@topology_name
@as_json
@common
def probe_topology(
    out: Path, nproc: int | None, sizes: str | None, name: str | None, json_output: bool, **options: Any
) -> None:
    """Measure the links between the ranks of this machine with torch, and write them as a topology.

    On several machines: torchrun ... -m graphprep.topology.probe --out FILE, with the same options.

    \b
    Examples:
      graphprep topology probe --out mine.yaml
      graphprep topology probe --out cpu.yaml --nproc 4 --backend gloo --seconds 20
    """
    from graphprep.topology import Topology
    from graphprep.topology.probe.launch import start
    from graphprep.topology.probe.options import DEFAULT_NAME, SIZES, ProbeOptions, sizes_from
    from graphprep.topology.saved import checked_out, chosen_name

    context = click.get_current_context()
    target = checked_out(out, replace=options["replace"])
    options |= {word: context.params[word] for word in ("quiet", "debug")}
    options |= {"name": chosen_name(name, out, DEFAULT_NAME), "sizes": sizes_from(sizes) if sizes else SIZES}
    status = start(ProbeOptions(out=target, **options), nproc)
    if status:
        context.exit(status)
    if json_output:
        print_json(Topology.from_file(target).to_long_form())
    click.echo(f"wrote {target}", err=True)


@main.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("cache")
@click.argument("trainer_options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def train(context: click.Context, cache: str, trainer_options: tuple[str, ...]) -> None:
    """Train on a cache, one process a part on this machine: a path or NAME/LABEL, then the trainer's options.

    \b
    Examples:
      graphprep train digits/2x2
      graphprep train digits/2x2 --model sage --hidden 128 --epochs 100
      graphprep train --help                      # the trainer's options
    """
    from pipelines.train import start_trainer, trainer_help

    if cache.startswith("-") and cache not in HELP_OPTIONS:
        fail(f"give the cache first, then the trainer's options: graphprep train CACHE {cache}", 2)
    if cache in HELP_OPTIONS:
        click.echo(context.get_help() + "\n\nThe trainer's own help:\n")
        context.exit(trainer_help())
    try:
        context.exit(start_trainer(cache, trainer_options))
    except GraphprepError as error:
        fail(str(error), error.exit_status)


if __name__ == "__main__":
    main()
