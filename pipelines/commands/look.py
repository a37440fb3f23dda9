"""Commands that look at what is there or would be: inspect, compare, plan, verify."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from graphprep.errors import UsageError
from pipelines.commands import names
from pipelines.commands.common import as_json, common, dask_option, memory_option, print_json, print_line


@click.command()
@click.argument("store_or_cache", shell_complete=names.stores_and_caches)
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a self-contained page.")
@click.option(
    "--topology",
    metavar="FILE_OR_PRESET",
    shell_complete=names.topologies,
    help="What a cache's parts would take on another machine of as many ranks.",
)
@click.option("--row-bytes", type=int, help="What a cache's parts would take with rows of so many bytes.")
@click.option(
    "--compare-metis",
    is_flag=True,
    help="Partition a cache's graph by METIS as it is, and show both.",
)
@click.option(
    "--node",
    metavar="[TYPE:]NODE",
    help="Where one node of a cache lies, and its neighbours by part: a row number of the store, or an id of the "
    "source; row=NUMBER or id=ID where a number may be both.",
)
@memory_option
@dask_option
@as_json
@common
def inspect(
    store_or_cache: str,
    html: Path | None,
    memory_limit: int | None,
    dask: str | None,
    json_output: bool,
    **asked: Any,
) -> None:
    """Show what a store or a cache holds: a path, a dataset's name, or NAME/LABEL.

    Of a store: counts, degrees, components, homophily, labels, splits, features, provenance, and warnings. Of a cache:
    parts, links with the bottleneck marked, what crosses, lower bounds.

    \b
    Examples:
      graphprep inspect digits
      graphprep inspect digits --html digits.html
      graphprep inspect digits/2x2
      graphprep inspect digits/2x2 --html report.html
      graphprep inspect digits/2x2 --topology mine.yaml --row-bytes 512
      graphprep inspect digits/2x2 --compare-metis
      graphprep inspect digits/2x2 --node 17 --json
    """
    from graphprep.system.executor import open_executor
    from pipelines.look import report_target, require_store, summarise, write_report

    if html is not None and asked["node"] is not None:
        raise UsageError("--html shows a whole store or cache; leave out --node")
    target = None if html is None else report_target(html)
    given = {"--dask": dask, "--memory": memory_limit}
    require_store(store_or_cache, [option for option, value in given.items() if value is not None])
    with open_executor(dask, memory_limit=memory_limit) as executor:
        kind, summary = summarise(store_or_cache, executor=executor, **asked)
    if target is not None:
        write_report(kind, summary, target)
        print_line(f"wrote {target}", err=True)
    if json_output:
        print_json(summary)
    elif html is None:
        from graphprep.report.cache_tables import print_cache, print_node
        from graphprep.report.store_tables import print_store

        {"cache": print_cache, "store": print_store, "node": print_node}[kind](summary, sys.stdout)


@click.command()
@click.argument("caches", nargs=-1, shell_complete=names.caches)
@click.option(
    "--topology",
    metavar="FILE_OR_PRESET",
    shell_complete=names.topologies,
    help="Judge all on this machine, of as many ranks as they have parts, and not each on its own.",
)
@click.option("--row-bytes", type=int, help="Judge all with rows of so many bytes.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a self-contained page.")
@as_json
@common
def compare(
    caches: tuple[str, ...], topology: str | None, row_bytes: int | None, html: Path | None, json_output: bool
) -> None:
    """Set several partitions of one dataset beside each other; each is a path or NAME/LABEL.

    \b
    Examples:
      graphprep compare digits/2x2 ./digits-metis
      graphprep compare digits/2x2 ./digits-metis --topology 2x2-10gbe --html compared.html
    """
    from pipelines.compare import compare as set_beside
    from pipelines.look import report_target, write_page

    target = None if html is None else report_target(html)
    compared = set_beside(caches, topology=topology, row_bytes=row_bytes)
    if target is not None:
        from graphprep.report.pages import compare_page

        write_page(compare_page(compared), target)
        print_line(f"wrote {target}", err=True)
    if json_output:
        print_json(compared)
    elif html is None:
        from graphprep.report.cache_tables import print_compared

        print_compared(compared, sys.stdout)


@click.command()
@click.argument("store_or_cache", shell_complete=names.stores_and_caches)
@click.option("--parts", type=int, help="For a store: K equal ranks on one switch.")
@click.option(
    "--topology",
    metavar="FILE_OR_PRESET",
    shell_complete=names.topologies,
    help="For a store: the machine; for a cache: another one of as many ranks.",
)
@click.option("--gpu", metavar="NAME", help="What the ranks are, for its published rates: A100-40GB, H100-SXM, L4 ...")
@click.option(
    "--rates",
    "rates_from",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The rates that `graphprep doctor --rates FILE` measured on the machine that trains.",
)
@click.option("--model", default="gcn", show_default=True, help="gcn or sage.")
@click.option("--layers", type=int, default=2, show_default=True)
@click.option("--hidden", type=int, default=64, show_default=True, help="Width of the layers between.")
@click.option("--dropout", type=float, default=0.5, show_default=True, help="Share zeroed before layers 2 .. L.")
@click.option("--input-dropout", type=float, help="Share zeroed before layer 1.  [default: as --dropout]")
@click.option("--eval-every", type=int, default=1, show_default=True, help="Validate every so many epochs.")
@click.option("--wire", default="fp32", show_default=True, help="What rows are sent in: fp32, bf16, fp16, int8.")
@as_json
@common
def plan(
    store_or_cache: str,
    parts: int | None,
    topology: str | None,
    gpu: str | None,
    rates_from: Path | None,
    dropout: float,
    input_dropout: float | None,
    json_output: bool,
    **options: Any,
) -> None:
    """Predict what an epoch of training takes: time, memory a rank, what to send, and what the plan does not know.

    The first line says whose rates it is made with. They are measured here, in some seconds, only where the ranks can
    be this machine's own devices; GPUs that the topology or --gpu names have their published rates. Traffic is that of
    the cache, or, for a store, of METIS's parts.

    \b
    Examples:
      graphprep plan digits/2x2
      graphprep plan digits --topology 2x4 --model gcn --hidden 256 --layers 3
      graphprep plan digits/2x2 --gpu A100-40GB --wire int8 --json
      graphprep plan digits/2x2 --rates node.json       # of `graphprep doctor --rates node.json` on that machine
    """
    from graphprep.plan.training import TrainingPlan
    from graphprep.report.plan_tables import print_plan
    from pipelines.plan import plan_training

    first = dropout if input_dropout is None else input_dropout
    training = TrainingPlan(dropout=dropout, input_dropout=first, **options)
    found = plan_training(store_or_cache, training, parts=parts, topology=topology, gpu=gpu, rates_from=rates_from)
    if json_output:
        print_json(found)
    else:
        print_plan(found, sys.stdout)


@click.command()
@click.argument("store_or_cache", shell_complete=names.stores_and_caches)
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
        print_line(f"{report['location']}: whole")
