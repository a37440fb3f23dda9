"""`graphprep inspect`: what a store or a cache holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from graphprep.errors import UsageError
from pipelines.commands.common import common, html_option, print_line, show, topology_option, work_options
from pipelines.commands.options import names


@click.command()
@click.argument("store_or_cache", shell_complete=names.stores_and_caches)
@html_option
@topology_option("What a cache's parts would take on another machine of as many ranks.")
@click.option("--row-bytes", type=int, help="What a cache's parts would take with rows of so many bytes.")
@click.option("--compare-metis", is_flag=True, help="Partition a cache's graph by METIS as it is, and show both.")
@click.option(
    "--node",
    metavar="[TYPE:]NODE",
    help="Where one node of a cache lies, and its neighbours by part: a row number of the store, or an id of the "
    "source; row=NUMBER or id=ID where a number may be both.",
)
@work_options
@common
def inspect(
    store_or_cache: str,
    html: Path | None,
    memory_limit: int | None,
    dask: str | None,
    json_output: bool,
    **options: Any,
) -> None:
    """Show what a store or a cache holds: a path, a dataset's name, or NAME/LABEL.

    Of a store: counts, degrees, components, homophily, labels, splits, features, provenance, and warnings. Of a cache:
    parts, links with the bottleneck marked, what crosses, lower bounds. Of event stores and event caches: activity over
    time, split, load by rank and by snapshot.

    \b
    Examples:
      graphprep inspect digits
      graphprep inspect digits --html digits.html
      graphprep inspect digits/2x2
      graphprep inspect digits/2x2 --html report.html
      graphprep inspect digits/2x2 --topology mine.yaml --row-bytes 512
      graphprep inspect digits/2x2 --compare-metis
      graphprep inspect digits/2x2 --node 17 --json
      graphprep inspect college/snapshots-4 --html events.html
    """
    from graphprep.report.cache_tables import print_cache, print_node
    from graphprep.report.event_tables import print_event_cache, print_event_store
    from graphprep.report.store_tables import print_store
    from graphprep.system.executor import open_executor
    from graphprep.system.files.output_path import checked_file
    from pipelines.look import require_store, summarise, write_report

    if html is not None and options["node"] is not None:
        raise UsageError("--html shows a whole store or cache; leave out --node")
    target = None if html is None else checked_file(html, called="--html")
    of_stores = {"--dask": dask, "--memory": memory_limit}
    require_store(store_or_cache, [option for option, value in of_stores.items() if value is not None])
    with open_executor(dask, memory_limit=memory_limit) as executor:
        kind, summary = summarise(store_or_cache, executor=executor, **options)
    if target is not None:
        write_report(kind, summary, target)
        print_line(f"wrote {target}", err=True)
    if html is None or json_output:
        printers = {"cache": print_cache, "store": print_store, "node": print_node}
        printers |= {"event-store": print_event_store, "events": print_event_cache}
        show(summary, printers[kind], json_output)
