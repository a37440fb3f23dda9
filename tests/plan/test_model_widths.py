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
from graphprep.partition.request import PartitionRequest
from graphprep.plan.model_widths import ModelWidths, take_widths, width_mismatch
from graphprep.plan.training import TrainingPlan
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, run_partition
from pipelines.planning.plan import plan_training
from pipelines.run.config import read_pipeline
from tests.graphs import labelled_graph, typed_graph
from tests.stores import make_store
from trainer.config.options import Options
from trainer.data.cache import open_cache
from trainer.startup.row_width import remark_on_row_width

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


@pytest.mark.slow
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


@pytest.mark.slow
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


def slowest_link(seconds_a_byte: float, latency: float, row_bytes: int) -> list[dict[str, float]]:
    """Links of which the first is the slowest: 1000 rows at this bandwidth, and this latency."""
    carried, gbytes_per_s = 1000 * row_bytes, 1e-9 / seconds_a_byte
    slow = {"bytes": carried, "gbytes_per_s": gbytes_per_s, "seconds": carried * seconds_a_byte + latency}
    return [slow, slow | {"bytes": 0, "seconds": 0.0}]


def test_other_rows_matter_where_latency_does() -> None:
    """Guards against a warning where the result only scales, and silence where other parts would be better."""
    for latency in (1e-9, 10.0):  # nothing beside the bytes; all there is
        assert width_mismatch(slowest_link(1e-9, latency, 1024), 1024, 28) is None
    said = width_mismatch(slowest_link(1e-9, 100e-6, 1024), 1024, 28)
    assert said is not None
    assert "rows of 1024 bytes and the model sends rows of 28" in said
    assert "latency is 9 % of the slowest link's time with those and 78 % with these" in said
    assert width_mismatch(slowest_link(1e-9, 100e-6, 1024), 1024, 900) is None
    assert width_mismatch([], 1024, 28) is None


@pytest.mark.slow
def test_trainer_and_plan_agree_on_other_rows(tmp_path: Path) -> None:
    """Guards against a rule of which one program knows only half, and a warning after a partition by the defaults."""
    store = make_store(labelled_graph(np.random.default_rng(1), 4000, 40_000, undirected=True))
    topology = Topology.flat(2)

    def remarks(target: Path, widths: ModelWidths | None, hidden: int) -> tuple[str | None, list[str]]:
        request = PartitionRequest(method="random", effort="none", row_bytes=100_000)
        plan = PartitionPlan(store=store, topology=topology, request=request, widths=widths, target=target)
        run_partition(plan)
        options = Options(cache=str(target), hidden=hidden, layers=3)
        training = TrainingPlan(hidden=hidden, layers=3)
        planned = plan_training(str(target), training, gpu="T4")["advice"]
        return remark_on_row_width(options, open_cache(str(target))), [text for text in planned if "rows of" in text]

    assert remarks(tmp_path / "same", ModelWidths(hidden=8, layers=3), 8) == (None, [])
    by_trainer, [by_plan] = remarks(tmp_path / "other", None, 1)
    assert by_trainer is not None
    begin = by_plan.index("latency is"), by_trainer.index("latency is")
    end = by_plan.index("so other parts"), by_trainer.index("so other parts")
    assert by_plan[begin[0] : end[0]] == by_trainer[begin[1] : end[1]]
    assert by_trainer.endswith("partition with --hidden 1 --layers 3 --wire fp32")


def test_measured_rates_decide_the_step_and_the_key(graphprep_home: Path, tmp_path: Path) -> None:
    """Guards against a file of rates that changes nothing, or the figures of a cache that is said to be up to date."""
    make_store(labelled_graph(np.random.default_rng(1), 90, 400))
    kinds = {"edges": 2e-3, "masked": 1.0, "passed": 5e-3}
    pairs = {kind: {f"{a},{b}": 7e-3 for a in (8, 64) for b in (8, 64)} for kind in ("products", "gradients")}
    rates = {kind: dict.fromkeys(("8", "64"), seconds) for kind, seconds in kinds.items()} | pairs
    known = {"graphprep_rates": 1, "device": "cpu", "name": "CPU", "memory_gb": None, "threads": 1, "ranks": 1}
    file = tmp_path / "rates.json"
    file.write_text(json.dumps(known | rates))
    command = ["partition", "graph", *DEFAULTS, "--rates", str(file), "--row-bytes", "128", "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    for rank in found["quality"]["ranks"]:
        assert rank["node_seconds"] == pytest.approx(7e-3 * rank["nodes"])
        assert rank["packing_seconds"] == pytest.approx(5e-3 * rank["sent_rows"])
        assert rank["unpacking_seconds"] == pytest.approx(5e-3 * rank["halo_rows"])
        assert rank["local_seconds"] + rank["halo_seconds"] == pytest.approx(2e-3 * rank["edges"])
    assert "by measured rates" in found["beside_metis"]["verdict"][1]
    other = CliRunner().invoke(main, [*command[:-5], "--row-bytes", "128"])
    assert other.exit_code == 6
    assert "rates" in other.stderr
    assert CliRunner().invoke(main, [*command[:-4], str(tmp_path / "none.json"), *command[-3:]]).exit_code == 2
