"""The command line: parse, call a pipeline, print. No logic of its own.

Results go to standard output, words for people and progress to standard error. Heavy packages are imported inside the
commands, so that `graphprep --help` answers at once. The way from a dataset to a trained model is here; commands that
only look, and groups with several commands of their own, are in `commands/`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphprep.errors import GraphprepError
from graphprep.version import __version__
from pipelines.commands import names
from pipelines.commands.clean import clean
from pipelines.commands.common import (
    HELP_OPTIONS,
    PATH,
    Command,
    OneSentence,
    anyway_option,
    as_json,
    common,
    dask_option,
    fail,
    memory_option,
    out_option,
    print_json,
    print_line,
    print_store_outcome,
)
from pipelines.commands.generate import generate
from pipelines.commands.look import compare, inspect, verify
from pipelines.commands.look import plan as plan_training
from pipelines.commands.machine import completion, doctor
from pipelines.commands.run import run
from pipelines.commands.topology import topology

if TYPE_CHECKING:
    from pipelines.partition import PartitionOutcome


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


for command in (clean, compare, completion, doctor, generate, inspect, plan_training, run, topology, verify):
    main.add_command(command)


@main.command("list")
@as_json
@common
def list_datasets(json_output: bool) -> None:
    """What the registry knows, and what is here already.

    \b
    Examples:
      graphprep list
      graphprep list --json
    """
    from graphprep.report.tables import print_datasets
    from pipelines.ingest import known_datasets

    rows = known_datasets()
    if json_output:
        print_json(rows)
    else:
        print_datasets(rows, sys.stdout)


@main.command()
@click.argument("name", shell_complete=names.datasets)
@click.option("--mirror", metavar="URL_OR_FOLDER", help="Take https://HOST/PATH from MIRROR/HOST/PATH instead.")
@out_option
@click.option("--replace", is_flag=True, help="Convert again even if the store is here, or replace an imported one.")
@memory_option
@dask_option
@anyway_option
@as_json
@common
def fetch(
    name: str,
    mirror: str | None,
    out: str | None,
    replace: bool,
    memory_limit: int | None,
    dask: str | None,
    anyway: bool,
    json_output: bool,
) -> None:
    """Download dataset NAME, verify it, and convert it to a graph store.

    \b
    Examples:
      graphprep fetch digits                      # ships with scikit-learn, needs no network
      graphprep fetch cora
      graphprep fetch cora --mirror ./mirror
    """
    from graphprep.system.executor import open_executor
    from pipelines.ingest import fetch_dataset

    with open_executor(dask, memory_limit=memory_limit) as executor:
        outcome = fetch_dataset(
            name,
            mirror=mirror,
            out=out,
            replace=replace,
            memory_limit=memory_limit,
            anyway=anyway,
            executor=executor,
        )
    print_store_outcome(outcome, json_output)


@main.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, type=PATH)
@click.option("--name", required=True, help="What to call the dataset.")
@click.option("--schema", type=PATH, help="YAML that names node and edge types and their files, instead of PATH.")
@click.option(
    "--format",
    type=click.Choice(
        [
            "auto",
            "text",
            "metis",
            "mtx",
            "npy",
            "npz",
            "parquet",
            "pyg",
            "graphml",
            "gexf",
            "gml",
            "pajek",
            "json",
            "dimacs",
        ]
    ),
    default="auto",
    show_default=True,
    help="Of the files of edges; auto goes by the ending of the name, then by the first bytes.",
)
@click.option(
    "--ids",
    type=click.Choice(["auto", "numbers", "words"]),
    default="auto",
    show_default=True,
    help="Whether ids are words; auto takes text for numbers and the types of Parquet as they are.",
)
@click.option("--undirected", is_flag=True, help="Add the reverse of every edge that has none, with its weight.")
@click.option(
    "--duplicates",
    type=click.Choice(["keep", "drop", "sum", "max", "min", "mean"]),
    default="keep",
    show_default=True,
    help="One edge in place of parallel ones, with --undirected of those in both directions: drop if their weights are "
    "equal; sum, max, min or mean of their weights.",
)
@click.option("--self-loops", type=click.Choice(["keep", "drop", "add"]), default="keep", show_default=True)
@click.option("--weights", is_flag=True, help="Read edge weights: in text the third column, or the one called weight.")
@click.option("--edge-times", is_flag=True, help="Read edge times: the next column, or the one called time.")
@click.option("--header/--no-header", default=None, help="Whether edges in text begin with a line of column names.")
@click.option(
    "--delimiter", metavar="D", help="What cuts edges in text: tab, comma, semicolon, blanks, bar, or the character."
)
@click.option(
    "--source", metavar="COLUMN", help="Of the sources of edges, in text and Parquet: its name, or number from 1."
)
@click.option("--target", metavar="COLUMN", help="Of the destinations, likewise.")
@click.option("--weight", metavar="COLUMN", help="Of the edge weights, likewise; --weights is then not needed.")
@click.option("--time", metavar="COLUMN", help="Of the edge times, likewise; --edge-times is then not needed.")
@click.option("--num-nodes", type=click.IntRange(min=1), help="Ids are row numbers below this count.")
@click.option("--features", type=PATH, help="Node features, one row a node: npy, npz, csv, tsv, parquet.")
@click.option("--labels", type=PATH, help="One class a node, -1 for none: npy, npz, csv, txt, parquet.")
@click.option(
    "--task",
    type=click.Choice(["auto", "classification", "regression"]),
    default="auto",
    show_default=True,
    help="What labels are for: classes (or several labels) or numbers to predict; auto goes by their dtype and shape.",
)
@click.option("--node-times", "times", type=PATH, help="One time a node, as labels are given.")
@click.option(
    "--id-column",
    metavar="COLUMN",
    help="Of features and labels (csv, tsv, txt, parquet), with the ids of their nodes.",
)
@click.option(
    "--label",
    metavar="COLUMN",
    multiple=True,
    help="Of --labels, or of --features if there are no --labels, or the node attribute of a graph document, that is a "
    "label; may be given again.",
)
@click.option(
    "--feature",
    metavar="COLUMN",
    multiple=True,
    help="Of --features, or a node attribute of a graph document, that is a feature; may be given again.",
)
@click.option(
    "--split-column",
    metavar="COLUMN",
    help="Of --labels or --features, with train, val, test or nothing for each node.",
)
@click.option(
    "--node-header/--no-node-header",
    default=None,
    help="Whether tables of nodes in text begin with a line of column names.",
)
@click.option("--node-delimiter", metavar="D", help="What cuts tables of nodes in text, as --delimiter.")
@click.option("--train", type=PATH, help="Training nodes: a mask [N] or [N, S], or row numbers; npy, npz, csv, txt.")
@click.option("--val", type=PATH, help="Validation nodes, likewise.")
@click.option("--test", type=PATH, help="Test nodes, likewise.")
@click.option(
    "--splits",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How many splits are drawn where there are no masks.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the first split that is drawn; each next one has the following number.",
)
@out_option
@click.option("--replace", is_flag=True, help="Convert again even if the store is here, or replace another.")
@memory_option
@dask_option
@anyway_option
@as_json
@common
def import_files(
    paths: tuple[Path, ...],
    name: str,
    schema: Path | None,
    out: str | None,
    replace: bool,
    memory_limit: int | None,
    dask: str | None,
    anyway: bool,
    json_output: bool,
    **options: Any,
) -> None:
    """Convert your own files to a graph store.

    Edges: text (SNAP, csv, tsv; .gz and .zst too), Parquet, npy, npz, METIS .graph, MatrixMarket .mtx, DIMACS .gr and
    .col, or a whole graph: PyTorch Geometric's .pt, GraphML, GEXF, GML, Pajek .net, node-link .json. Weights and times
    are read if asked for. Ids with gaps, and words, are numbered in ascending order (in a whole graph in its own order)
    and kept in the store as original_id, unless --num-nodes, --features or --labels say that they are row numbers.
    Labels without --train, --val and --test get --splits seeded splits: 20 and 30 nodes a class (with several labels or
    numbers a node, 60 % and 20 % of all nodes), the rest to test. What was taken as what is printed, and each guess has
    an option that overrules it.

    \b
    Examples:
      graphprep import ego-twitter.txt.gz --name ego-twitter --undirected
      graphprep import edges.csv --name mine --features x.npy --labels y.npy
      graphprep import messages.txt --name messages --edge-times
      graphprep import rides.csv --name rides --source from_station --target to_station --weight minutes
      graphprep import mesh.graph --name mesh
      graphprep import karate.graphml --name karate --label club
      graphprep import --schema acm.yaml --name acm
    """
    from graphprep.datasets.importing.import_request import request_of
    from graphprep.system.executor import open_executor
    from pipelines.ingest import import_files as import_request

    request = request_of(paths, schema, options)
    with open_executor(dask, memory_limit=memory_limit) as executor:
        outcome = import_request(
            request,
            name=name,
            out=out,
            replace=replace,
            memory_limit=memory_limit,
            anyway=anyway,
            executor=executor,
        )
    print_store_outcome(outcome, json_output)


@main.command()
@click.argument("name_or_store", shell_complete=names.stores)
@click.option("--parts", type=int, help="K parts for K equal ranks on one switch.")
@click.option(
    "--topology",
    metavar="FILE_OR_PRESET",
    shell_complete=names.topologies,
    help="The machine to partition for; see `graphprep topology list`.",
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
@click.option(
    "--replace",
    is_flag=True,
    help="Make the cache even if it is there, also where it is damaged or other options made it.",
)
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
@dask_option
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
    dask: str | None,
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
    from graphprep.system.executor import open_executor
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
    with open_executor(dask, memory_limit=memory_limit) as executor:
        outcome = run_partition(plan, replace_other=replace, executor=executor)
    _print_partition(outcome, json_output)


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
                "fallback": cache.attributes.get("fallback"),
                "quality": cache.quality,
            }
        )
        return
    from graphprep.report.terminal import line

    quality = cache.quality
    state = "wrote" if not outcome.reused else "up to date" if cache.fallback is None else "kept"
    by = "" if cache.fallback is None else f"by the fallback {cache.fallback.used}, "
    line(
        sys.stdout,
        f"{state}: {cache.folder} ({cache.num_parts} parts, {by}"
        f"{quality['cut_edges']:,} cut edges, bottleneck {quality['bottleneck_seconds'] * 1e3:.3f} ms an exchange)",
    )


@main.command()
@click.argument("cache", shell_complete=names.caches)
@click.argument("predictions", type=PATH)
@click.option("--task", help="regression for a matrix of numbers; otherwise the cache says it.")
@click.option("--metric", help="ogb, accuracy, f1-micro, f1-macro, roc-auc, mse or mae; default: OGB's or the task's.")
@click.option("--split", default=0, show_default=True, help="Which column of the masks.")
@click.option(
    "--table",
    type=PATH,
    help="Also write the predictions beside the ids that nodes had in the source: .csv or .parquet.",
)
@as_json
@common
def evaluate(
    cache: str,
    predictions: Path,
    task: str | None,
    metric: str | None,
    split: int,
    table: Path | None,
    json_output: bool,
) -> None:
    """Score PREDICTIONS, a .npy or .pt of `train --save-predictions`, against a cache's labels.

    Rows are nodes in the dataset's order; --table writes them beside ids. Datasets of OGB are scored by OGB's own
    evaluator.

    \b
    Examples:
      graphprep train cora/2x2 --save-predictions cora.npy
      graphprep evaluate cora/2x2 cora.npy --metric f1-macro
      graphprep evaluate cora/2x2 cora.npy --table cora.csv
    """
    from pipelines.evaluate import evaluate as score_predictions

    report = score_predictions(cache, predictions, task=task, metric=metric, split=split, table=table)
    if table is not None:
        print_line(f"wrote {table}", err=True)
    if json_output:
        print_json(report)
        return
    from graphprep.report.tables import print_scores

    print_scores(report, sys.stdout)


@main.command()
@click.argument("cache", shell_complete=names.caches)
@click.argument("out", type=PATH)
@click.option("--format", "format_name", required=True, help="dgl, pyg or npz; docs/export.md says what each holds.")
@click.option("--replace", is_flag=True, help="Export even if it is there, or replace another export.")
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
        print_line(f"{'up to date' if outcome.reused else 'wrote'}: {outcome.folder} ({outcome.files:,} files)")


@main.group()
def cache() -> None:
    """Caches of another number of parts from those that there are.

    \b
    Examples:
      graphprep cache merge cora/2x4 --parts 4
      graphprep cache split cora/2x2 --topology 2x4
    """


def regroup_options(command: Command) -> Command:
    """What merge and split have in common."""
    for option in reversed(
        (
            click.argument("name_or_cache", shell_complete=names.caches),
            click.option("--parts", type=int, help="K parts for K equal ranks on one switch."),
            click.option(
                "--topology",
                metavar="FILE_OR_PRESET",
                shell_complete=names.topologies,
                help="The machine that the new parts are for.",
            ),
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
            click.option("--replace", is_flag=True, help="Make the cache even if it is there."),
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


@main.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("cache", shell_complete=names.caches)
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
