"""`graphprep import`: a user's own files become a store."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from graphprep.datasets.importing.event_options import EventOptions
from graphprep.datasets.importing.options import ImportOptions
from graphprep.errors import UsageError
from graphprep.system.options import take_options
from pipelines.commands.common import anyway_option, common, make_store, store_options
from pipelines.commands.event_stores import make_event_store
from pipelines.commands.options import names
from pipelines.commands.options.from_dataclass import options_of


@click.command("import")
@click.option("--name", required=True, help="What to call the dataset.")
@click.option(
    "--extend",
    metavar="NAME_OR_STORE",
    shell_complete=names.stores,
    help="A store whose nodes and edges the new store has too; files give new ones, and name nodes by the ids there.",
)
@options_of(ImportOptions)
@options_of(EventOptions)
@store_options
@anyway_option
@common
def import_files(extend: str | None, **options: Any) -> None:
    """Convert your own files to a graph store.

    Edges: text (SNAP, csv, tsv; .gz and .zst too), Parquet, npy, npz, METIS .graph, MatrixMarket .mtx, DIMACS .gr and
    .col, or a whole graph: PyTorch Geometric's .pt, GraphML, GEXF, GML, Pajek .net, node-link .json. Weights and times
    are read if asked for. Ids with gaps, and words, are numbered in ascending order (in a whole graph in its own order)
    and kept in the store as original_id, unless --num-nodes, --features or --labels say that they are row numbers.
    Labels without --train, --val and --test get --splits seeded splits: 20 and 30 nodes a class (with several labels or
    numbers a node, 60 % and 20 % of all nodes), the rest to test. What was taken as what is printed, and each guess has
    an option that overrules it. A schema also reads tables whose columns are named by role (ids, ends, labels, splits,
    times, features), from CSV, Parquet, Arrow, folders of them, SQLite and DuckDB, and tables with foreign keys.
    --events makes an event store, for temporal models: every edge with its time, in the order of time.

    \b
    Examples:
      graphprep import ego-twitter.txt.gz --name ego-twitter --undirected
      graphprep import edges.csv --name mine --features x.npy --labels y.npy
      graphprep import messages.txt --name messages --edge-times
      graphprep import rides.csv --name rides --source from_station --target to_station --weight minutes
      graphprep import mesh.graph --name mesh
      graphprep import karate.graphml --name karate --label club
      graphprep import --schema acm.yaml --name acm
      graphprep import CollegeMsg.txt --name college --events edges
      graphprep import --extend mine --name mine-june june.csv --features june-nodes.csv --id-column id
    """
    from graphprep.datasets.importing.import_request import request_of
    from pipelines.ingest import import_files as run_import

    request = request_of(take_options(ImportOptions, options))
    events = take_options(EventOptions, options)
    if events.events is not None:
        make_event_store(request, events, extend, **options)
        return
    if events.time_unit != EventOptions().time_unit:
        raise UsageError("--time-unit is for events; give --events too, or leave it out")
    if events.changing_features is not None:
        raise UsageError("--changing-features is for events; give --events too, or leave it out")
    if extend is None:
        make_store(run_import, request, **options)
        return
    from pipelines.extend import extend_store

    make_store(partial(extend_store, extend), request, **options)
