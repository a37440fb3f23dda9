"""Which rows links are loaded with: those that the trainer sends, and a word on which they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.errors import UsageError
from graphprep.plan.model_widths import ModelWidths, take_widths
from graphprep.plan.training import TrainingPlan
from pipelines.run.config import read_pipeline
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_store

DEFAULTS = ["--topology", "2x2", "--method", "random", "--effort", "none"]


@pytest.mark.parametrize(
    ("hidden", "layers", "classes"), [(64, 2, 7), (256, 2, 40), (16, 4, 40), (16, 4, 3), (8, 3, 8)]
)
def test_widths_are_those_of_the_plan(hidden: int, layers: int, classes: int) -> None:
    """Guards against links that are loaded with rows which no exchange sends."""
    for wire in ("fp32", "bf16", "int8"):
        widths = ModelWidths(hidden=hidden, layers=layers, wire=wire)
        planned = TrainingPlan(hidden=hidden, layers=layers, wire=wire).row_bytes(1433, classes)[1:]
        assert widths.row_bytes(widths.exchanged(1433, classes)) == -(-sum(planned) // len(planned))


def test_other_models() -> None:
    """Guards against rows of no bytes where there are no labels, one layer, or several types."""
    assert ModelWidths().exchanged(10, 0) == [64]
    assert ModelWidths(layers=1).exchanged(10, 3) == [10]
    assert ModelWidths(layers=1).exchanged(0, 0) == [64]
    assert ModelWidths(layers=3).exchanged(10, 3, is_typed=True) == [64, 64]


def test_defaults_are_the_trainers() -> None:
    """Guards against a default that the trainer changes alone."""
    ask = "from trainer.config.options import Options; o = Options(cache=''); print(o.hidden, o.layers, o.wire)"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(ModelWidths().hidden), str(ModelWidths().layers), ModelWidths().wire]


def test_the_command_says_which_rows_and_why(graphprep_home: Path) -> None:
    """Guards against a width that is guessed in silence, or that is not what the links carry."""
    store = make_store(labelled_graph(np.random.default_rng(1), 90, 400, undirected=True))
    y = store.node_array("node", "y")
    assert y is not None
    classes = int(np.max(y[:])) + 1

    def made(*options: str) -> tuple[dict[str, object], str]:
        command = ["partition", "graph", *DEFAULTS, "--replace", "--json", *options]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        folder = Path(json.loads(done.stdout)["cache"])
        attributes = json.loads((folder / "zarr.json").read_text())["attributes"]
        link = attributes["quality"]["links"][0]
        assert link["bytes"] == link["rows"] * attributes["options"]["row_bytes"]
        return attributes["options"], done.stderr

    options, said = made()
    assert options["row_bytes"] == 4 * classes
    assert options["model_widths"] == {"hidden": 64, "layers": 2, "wire": "fp32"}
    assert f"rows of {4 * classes} bytes: {classes} values in fp32" in said
    assert "the trainer's defaults" in said
    options, said = made("--hidden", "32", "--layers", "3", "--wire", "bf16")
    assert options["row_bytes"] == 32 + classes
    assert f"2 exchanges of 32 and {classes} values in bf16" in said
    assert "defaults" not in said
    options, said = made("--row-bytes", "512")
    assert (options["row_bytes"], options["model_widths"]) == (512, None)
    assert "rows of 512 bytes" in said
    refused = CliRunner().invoke(main, ["partition", "graph", *DEFAULTS, "--row-bytes", "512", "--hidden", "8"])
    assert refused.exit_code == 2
    assert "give either --row-bytes or --hidden" in refused.stderr


def test_widths_decide_the_key(graphprep_home: Path) -> None:
    """Guards against a cache for other rows that passes for the one that was asked for."""
    make_store(labelled_graph(np.random.default_rng(1), 90, 400))
    first = ["partition", "graph", *DEFAULTS, "--hidden", "2"]
    assert CliRunner().invoke(main, first).exit_code == 0
    assert "up to date: " in CliRunner().invoke(main, first).stdout
    other = CliRunner().invoke(main, [*first[:-1], "1"])
    assert other.exit_code == 6
    assert "hidden 2 there, 1 now" in other.stderr


def test_several_types_have_the_hidden_width(graphprep_home: Path) -> None:
    """Guards against a width by the classes of one type, which rgcn does not exchange."""
    make_store(typed_graph(np.random.default_rng(3)), name="typed")
    done = CliRunner().invoke(main, ["partition", "typed", *DEFAULTS])
    assert done.exit_code == 0, done.output
    assert "rows of 256 bytes: 64 values in fp32" in done.stderr


def test_a_pipelines_file_gives_either(tmp_path: Path) -> None:
    """Guards against a file whose widths or row_bytes are dropped."""
    path = tmp_path / "run.yaml"
    text = "datasets: {{cora: }}\ntopologies: [2]\npartition: {{{}}}\n"
    path.write_text(text.format("hidden: [16, 32]"))
    cells = read_pipeline(path).cells
    assert [cell.widths for cell in cells] == [ModelWidths(hidden=16), ModelWidths(hidden=32)]
    path.write_text(text.format("row_bytes: 8"))
    [cell] = read_pipeline(path).cells
    assert (cell.widths, cell.request.row_bytes) == (None, 8)
    assert take_widths({}) == ModelWidths()
    with pytest.raises(UsageError, match="give either --row-bytes or --layers, --wire"):
        take_widths({"row_bytes": 4, "layers": 2, "wire": "fp16"})
