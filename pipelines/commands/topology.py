"""`graphprep topology`: presets, files, detection and measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from graphprep.errors import UsageError
from graphprep.system.options import take_options
from graphprep.system.printable import printable
from graphprep.topology.probe.options import DEFAULT_NAME, ProbeOptions
from pipelines.commands.common import PATH, common, print_json, print_line, show
from pipelines.commands.options import names
from pipelines.commands.options.from_dataclass import options_of


@click.group()
def topology() -> None:
    """Machines to partition for: presets and your own YAML files.

    \b
    Examples:
      graphprep topology list
      graphprep topology show 2x4 > mine.yaml
    """


@topology.command("list")
@common
def list_topologies(json_output: bool) -> None:
    """The presets.

    \b
    Example:
      graphprep topology list
    """
    from graphprep.report.tables import print_topologies
    from graphprep.topology import preset_names, resolve

    presets = [resolve(name) for name in preset_names()]
    rows = [
        {
            "name": preset.name,
            "ranks": preset.num_ranks,
            "machines": len({rank.machine for rank in preset.ranks}),
            "gpu": ", ".join(dict.fromkeys(rank.gpu for rank in preset.ranks if rank.gpu)) or None,
        }
        for preset in presets
    ]
    show(rows, print_topologies, json_output)


@topology.command("show")
@click.argument("file_or_preset", shell_complete=names.topologies)
@click.option("--table", is_flag=True, help="A table of the links instead of YAML.")
@common
def show_topology(file_or_preset: str, table: bool, json_output: bool) -> None:
    """A topology in its long form, as YAML that can be edited and given to --topology.

    \b
    Examples:
      graphprep topology show 2x4 > mine.yaml
      graphprep topology show mine.yaml --table
    """
    from graphprep.report.tables import print_topology
    from graphprep.topology import resolve

    if table and json_output:
        raise UsageError("give either --table or --json")
    machine = resolve(file_or_preset)
    if json_output or table:
        show(machine.to_long_form(), print_topology, json_output)
    else:
        click.echo(printable(machine.to_yaml()), nl=False)


topology_name = click.option("--name", help="Of the topology, and so of caches made for it; by default the file's.")


@topology.command("detect")
@click.option("--file", "saved", type=PATH, help="Saved output of `nvidia-smi topo -m`, instead of asking the driver.")
@click.option("--out", type=PATH, help="Write the topology here instead of to standard output.")
@click.option("--replace", is_flag=True, help="Replace the file if it is there.")
@topology_name
@common
def detect_topology(saved: Path | None, out: Path | None, replace: bool, name: str | None, json_output: bool) -> None:
    """This machine's GPUs, switches and NVLinks, as nvidia-smi shows them; bandwidths are defaults by generation.

    A saved file may also hold what `nvidia-smi --query-gpu=name,pci.bus_id,memory.total --format=csv,noheader` prints.

    \b
    Examples:
      graphprep topology detect --out mine.yaml
      graphprep topology detect --file saved.txt > mine.yaml
    """
    from graphprep.system.files.output_path import checked_file
    from graphprep.topology.detect import detected, read_saved, run_here
    from graphprep.topology.to_yaml import as_text, chosen_name, save

    target = None if out is None else checked_file(out, replace=replace)
    seen = run_here() if saved is None else read_saved(saved)
    result = detected(seen, name=chosen_name(name, out, "detected"))
    if target is not None:
        save(result.topology, result.comments, target)
        print_line(f"wrote {target}", err=True)
    if json_output:
        print_json(result.topology.to_long_form())
    elif target is None:
        click.echo(printable(as_text(result.topology, result.comments)), nl=False)


@topology.command("probe")
@options_of(ProbeOptions)
@click.option("--nproc", type=int, help="Ranks on this machine; by default one a GPU.")
@topology_name
@common
def probe_topology(out: Path, nproc: int | None, name: str | None, json_output: bool, **options: Any) -> None:
    """Measure the links between the ranks of this machine with torch, and write them as a topology.

    On several machines: torchrun ... -m graphprep.topology.probe --out FILE, with the same options.

    \b
    Examples:
      graphprep topology probe --out mine.yaml
      graphprep topology probe --out cpu.yaml --nproc 4 --backend gloo --seconds 20
    """
    from graphprep.system.files.output_path import checked_file
    from graphprep.topology import Topology
    from graphprep.topology.probe.launch import start
    from graphprep.topology.to_yaml import chosen_name

    context = click.get_current_context()
    options["out"] = target = checked_file(out, replace=options["replace"])
    flags = {flag: context.params[flag] for flag in ("quiet", "debug")}
    status = start(take_options(ProbeOptions, options, name=chosen_name(name, out, DEFAULT_NAME), **flags), nproc)
    if status:
        context.exit(status)
    if json_output:
        print_json(Topology.from_file(target).to_long_form())
    print_line(f"wrote {target}", err=True)
