"""`graphprep doctor`: what is installed on this machine, and its rates."""

from __future__ import annotations

from pathlib import Path

import click

from graphprep.errors import UsageError
from pipelines.commands.common import FILE, common, print_json, print_line, show


@click.command()
@click.option(
    "--rates",
    "rates_file",
    type=FILE,
    metavar="FILE",
    help="Measure for a minute what training does here, and write it for `graphprep plan --rates FILE` elsewhere.",
)
@click.option("--ranks", type=click.IntRange(1, 64), help="With --rates: ranks side by side; by default one a GPU.")
@click.option("--replace", is_flag=True, help="With --rates: replace the file if it is there.")
@common
def doctor(rates_file: Path | None, ranks: int | None, replace: bool, json_output: bool) -> None:
    """Say what is installed here, which GPUs there are, and how much room; with advice where something is amiss.

    \b
    Examples:
      graphprep doctor
      graphprep doctor --json > doctor.json       # to go with a report of a fault
      graphprep doctor --rates node.json          # on the machine that trains; then plan --rates node.json anywhere
    """
    if rates_file is not None:
        _measure(rates_file, ranks, replace, json_output)
        return
    if ranks is not None or replace:
        raise UsageError(f"{'--ranks' if ranks is not None else '--replace'} is about --rates FILE; give that too")
    from graphprep.report.doctor_tables import print_doctor
    from graphprep.system.doctor import examine

    show(examine(), print_doctor, json_output)


def _measure(out: Path, ranks: int | None, replace: bool, json_output: bool) -> None:
    """Write this machine's rates to a file."""
    from graphprep.plan.rates_file import measure_machine, save
    from graphprep.system import progress
    from graphprep.system.doctor import gpus_here
    from graphprep.system.files.output_path import checked_file

    target = checked_file(out, replace=replace, called="--rates")
    processes = ranks or max(1, len(gpus_here()))
    with progress.task(f"measuring the rates of {processes} rank(s) side by side, some 30 to 90 s"):
        rates = measure_machine(processes)
    save(rates, target)
    print_line(f"wrote {target}", err=True)
    if json_output:
        print_json(rates)
