"""Whose rates a plan is made with, and that it says so and draws no advice from those of another machine."""

from __future__ import annotations

import io
import json
import platform
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cli import main
from graphprep.errors import UsageError
from graphprep.plan import rates_file
from graphprep.plan.published_rates import published_rates
from graphprep.plan.rank_rates import ASSUMED, MOST_RANKS, rank_rates
from graphprep.plan.rates import Rates
from graphprep.plan.training import TrainingPlan, Work
from graphprep.report.plan_tables import print_plan
from graphprep.topology import Topology, resolve
from graphprep.topology.gpu_specs import GATHERED, GPUS, MULTIPLIED, STREAMED, gpu_called
from pipelines.planning import plan as plan_pipeline
from pipelines.planning.plan import plan_training
from tests.graphs import labelled_graph
from tests.pipelines.planning.test_plan import Any1
from tests.stores import make_cache, make_store

A100 = "NVIDIA A100-SXM4-40GB"


def never(_processes: int) -> Rates:
    """Measures nothing: a test that comes here has measured the wrong machine."""
    raise AssertionError("this machine was measured")


def local(processes: int, **known: Any) -> Rates:
    """This machine's rates."""
    rates = Any1()
    return Rates(
        edges=rates, products=rates, gradients=rates, masked=rates, passed=rates,
        **{"device": "cpu", "name": "CPU", "threads": 1, "processes": processes} | known,
    )  # fmt: skip


def on_host(topology: Topology, host: str, gpu: str | None = None) -> Topology:
    """The topology with a host, and what its ranks are."""
    return replace(topology, ranks=tuple(replace(rank, host=host, gpu=gpu) for rank in topology.ranks))


@pytest.mark.parametrize("name", ["2x2", "2x4-10gbe", "pcie-8", "workstation-4"])
def test_a_login_node_is_not_measured_for_gpus(name: str) -> None:
    """Guards against a CPU's rates that are quoted as those of GPUs which the topology does not name."""
    found = rank_rates(resolve(name), measure=never, gpus_here=list)
    assert found.source == "assumed"
    assert found.names == [ASSUMED]
    assert f"{name} names no GPU" in found.sentence


@pytest.mark.parametrize(
    ("name", "gpu"),
    [("dgx-a100", "A100-40GB"), ("dgx-1-v100", "V100-SXM-16GB"), ("dgx-h100", "H100-SXM"), ("g5.12xlarge", "A10G")],
)
def test_gpus_of_a_topology_have_published_rates(name: str, gpu: str) -> None:
    """Guards against presets that name GPUs of which nothing is known, and against measuring in their place."""
    found = rank_rates(resolve(name), measure=never, gpus_here=list)
    assert found.source == "published"
    assert found.names == [gpu]
    assert found.memory_gb == (gpu_called(gpu, where="a test").memory_gb,) * resolve(name).num_ranks
    assert "this machine was not measured" in found.sentence


def test_what_is_here_is_measured() -> None:
    """Guards against published rates where the ranks are this machine's own devices."""
    flat = rank_rates(Topology.flat(4), measure=local, gpus_here=list)
    assert (flat.source, flat.of_ranks[0].processes) == ("measured", 4)
    here = on_host(resolve("2x2"), platform.node())
    assert rank_rates(here, measure=local, gpus_here=list).of_ranks[0].processes == 2
    gpus = rank_rates(resolve("dgx-a100"), measure=local, gpus_here=lambda: [A100] * 8)
    assert gpus.source == "measured"
    assert rank_rates(resolve("pcie-8"), measure=local, gpus_here=lambda: ["x"] * 8).source == "measured"


def test_what_is_not_here_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a machine that is taken for another by its number of ranks, its host or its kind of GPU."""
    elsewhere = on_host(Topology.flat(2), "some-other-host")
    assert rank_rates(elsewhere, measure=never, gpus_here=lambda: [A100] * 8).source == "assumed"
    fewer = rank_rates(resolve("dgx-a100"), measure=never, gpus_here=lambda: [A100] * 7)
    assert fewer.source == "published"
    others = rank_rates(resolve("dgx-a100"), measure=never, gpus_here=lambda: ["Tesla T4"] * 8)
    assert others.source == "published"
    monkeypatch.setattr("graphprep.plan.rank_rates.cores", lambda: 2)
    many = rank_rates(Topology.flat(MOST_RANKS + 1), measure=never, gpus_here=list)
    assert many.source == "assumed"


def test_a_person_has_the_last_word() -> None:
    """Guards against --gpu that is overruled by what is here, and against two answers to one question."""
    found = rank_rates(Topology.flat(2), measure=never, gpus_here=lambda: [A100] * 8, gpu="L4")
    assert (found.source, found.names) == ("published", ["L4"])
    with pytest.raises(UsageError, match="either --gpu or --rates"):
        rank_rates(Topology.flat(2), measure=never, gpus_here=list, gpu="L4", file=Path("x"))
    with pytest.raises(UsageError, match="--gpu names the GPU 'abacus', whose rates are not known"):
        rank_rates(Topology.flat(2), measure=never, gpus_here=list, gpu="abacus")
    with pytest.raises(UsageError, match="did you mean 'H100-SXM'"):
        rank_rates(Topology.flat(2), measure=never, gpus_here=list, gpu="H10-SXM")
    own = on_host(Topology.flat(2), "elsewhere", "NVIDIA RTX 4000")
    with pytest.raises(UsageError, match="the topology flat-2 names the GPU 'NVIDIA RTX 4000'"):
        rank_rates(own, measure=never, gpus_here=list)


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A40", "A40"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-SXM-16GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM-32GB"),
        ("Tesla V100-PCIE-32GB", "V100-PCIe-32GB"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 5090", "RTX-5090"),
        ("AMD Instinct MI250X", "MI250X"),
        ("AMD Instinct MI300X", "MI300X"),
        *((gpu.name, gpu.name) for gpu in GPUS),
    ],
)
def test_names_of_drivers(driver: str, name: str) -> None:
    """Guards against a GPU that is taken for one whose name begins alike: L4 for L40, A10 for A100."""
    assert gpu_called(driver, where="a test").name == name


@pytest.mark.parametrize(
    "driver", ["NVIDIA RTX A4000", "NVIDIA T400", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H20"]
)
def test_other_gpus_are_not_known(driver: str) -> None:
    """Guards against rates of a far quicker GPU of a similar name."""
    with pytest.raises(UsageError, match="not known"):
        gpu_called(driver, where="a test")


def test_published_seconds_are_shares_of_the_peaks() -> None:
    """Guards against seconds that are not bytes over bandwidth, or operations over rate, whichever is more."""
    gpu = gpu_called("A100-40GB", where="a test")
    rates = published_rates(gpu)
    assert rates.edges["64"] == pytest.approx((4 * 64 + 8) / (1555e9 * GATHERED))
    assert rates.passed["64"] == pytest.approx(12 * 64 / (1555e9 * STREAMED))
    assert rates.products["1024,1024"] == pytest.approx(2 * 1024**2 / (19.5e12 * MULTIPLIED))
    assert rates.products["1024,2"] == pytest.approx(4 * 1026 / (1555e9 * STREAMED))
    quicker = published_rates(gpu_called("H100-SXM", where="a test"))
    for kind in ("edges", "passed", "masked"):
        assert getattr(quicker, kind)["64"] < getattr(rates, kind)["64"]


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of `doctor --rates`, whose seconds are 1e-9 times the product of the widths."""

    def measured(_sample: Any, work: Work, *, processes: int) -> Rates:
        one = {str(width): 1e-9 * width for width in work.edges}
        pair = {f"{a},{b}": 1e-9 * a * b for a, b in work.products}
        return local(
            processes, edges=one, products=pair, gradients=pair, masked=one, passed=one, name="ABC", memory_gb=1e-6
        )

    def local(processes: int, **known: Any) -> Rates:
        return Rates(device="cuda", threads=1, processes=processes, **known)

    monkeypatch.setattr(rates_file, "measured_rates", measured)
    monkeypatch.setattr("graphprep.system.doctor.gpus_here", list)
    path = tmp_path / "rates.json"
    done = CliRunner().invoke(main, ["doctor", "--rates", str(path), "--ranks", "3", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(path.read_text())
    return path


def test_rates_of_a_file(saved: Path) -> None:
    """Guards against a file that is read as something else than was measured, between its widths and beyond."""
    rates = rates_file.read(saved)
    work = Work(edges=Counter({64: 10}), products=Counter({(100, 7): 3}), passed=Counter({1000: 2}))
    seconds = rates.seconds(work)
    assert seconds["sums over edges"] == pytest.approx(1e-9 * 640)
    assert seconds["dense products"] == pytest.approx(1e-9 * 2100)
    assert seconds["other passes"] == pytest.approx(1e-9 * 2000)
    found = rank_rates(resolve("2x2"), measure=never, gpus_here=list, file=saved)
    assert (found.source, found.names, found.memory_gb[0]) == ("file", ["ABC"], 1e-6)
    assert f"rates: from {saved}, measured on ABC with 3 ranks side by side" in found.sentence
    assert CliRunner().invoke(main, ["doctor", "--rates", str(saved)]).exit_code == 2
    assert CliRunner().invoke(main, ["doctor", "--ranks", "2"]).exit_code == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "cannot be read"),
        ("no json", "is not JSON"),
        ("{}", "holds no rates of format 1"),
        ({"graphprep_rates": 2}, "holds no rates of format 1"),
        ({"edges": {"8": 1e-9}}, "is damaged"),
        ({"edges": {"8": 1e-9, "32": -1}}, "is damaged"),
        ({"products": {"8,8": 1e-9, "32,32": 1e-9}}, "is damaged"),
        ({"ranks": "x"}, "is damaged"),
        ({"masked": 3}, "is damaged"),
    ],
)
def test_a_file_that_is_none(saved: Path, change: Any, words: str) -> None:
    """Guards against a traceback, and against a plan from half a file."""
    if change is None:
        saved.unlink()
    elif isinstance(change, dict):
        saved.write_text(json.dumps(json.loads(saved.read_text()) | change))
    else:
        saved.write_text(change)
    with pytest.raises(UsageError, match=words) as caught:
        rates_file.read(saved)
    assert "doctor --rates FILE" in str(caught.value)


@pytest.mark.slow
def test_this_machine_is_measured_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a file that the reader refuses; the real process measures a small graph at two widths."""
    monkeypatch.setattr(rates_file, "WIDTHS", (4, 8))
    monkeypatch.setattr(rates_file, "ROWS", 50)
    monkeypatch.setattr(rates_file, "EDGES", 200)
    monkeypatch.setattr("graphprep.plan.rates_process.SECONDS_EACH", 0.0)
    found = rates_file.measure_machine(1)
    assert {kind: set(found[kind]) for kind in ("edges", "products")} == {
        "edges": {"4", "8"},
        "products": {"4,4", "4,8", "8,4", "8,8"},
    }
    assert found["device"] in ("cpu", "cuda")
    assert found["ranks"] == 1


@pytest.mark.slow
def test_the_first_line_says_whose_rates(graphprep_home: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a plan on a login node that advises fewer ranks, by the rates of the login node's CPU."""
    store = make_store(labelled_graph(np.random.default_rng(1), 900, 7000, undirected=True))
    make_cache(store, resolve("2x2"), graphprep_home / "cache")
    monkeypatch.setattr(plan_pipeline, "gpus_here", list)
    monkeypatch.setattr(plan_pipeline, "measured_rates", None)
    training = TrainingPlan(hidden=8)
    assumed = plan_training(str(graphprep_home / "cache"), training)
    assert assumed["rates"]["source"] == "assumed"
    [about_rates] = [text for text in assumed["advice"] if "the parts were made" not in text]
    assert "--gpu NAME or --rates FILE" in about_rates
    by_name = plan_training(str(graphprep_home / "cache"), training, gpu="T4")
    assert by_name["rates"] == {
        "source": "published",
        "names": ["T4"],
        "text": "rates: published for T4 (NVIDIA T4 data sheet), as --gpu says",
    }
    assert by_name["compute_seconds"] > assumed["compute_seconds"]
    from_file = plan_training(str(graphprep_home / "cache"), training, rates_from=saved)
    assert from_file["device"] == "cuda"
    assert any("3 rank(s) side by side and a machine has 2" in text for text in from_file["unknown"])
    for found in (assumed, by_name, from_file):
        shown = io.StringIO()
        print_plan(found, shown)
        assert shown.getvalue().splitlines()[0] == found["rates"]["text"]


def test_ranks_of_several_gpus_have_their_own_rates(graphprep_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against one GPU's rates for all ranks, and against a speed that counts the difference twice."""
    flat = Topology.flat(2)
    gpus = ((A100, 1.0), ("Tesla T4", 0.2))
    mixed = replace(
        flat, name="mixed", ranks=tuple(replace(r, gpu=g, speed=s) for r, (g, s) in zip(flat.ranks, gpus, strict=True))
    )
    store = make_store(labelled_graph(np.random.default_rng(1), 900, 7000, undirected=True))
    make_cache(store, mixed, graphprep_home / "cache")
    monkeypatch.setattr(plan_pipeline, "gpus_here", list)
    found = plan_training(str(graphprep_home / "cache"), TrainingPlan(hidden=8))
    assert found["rates"]["names"] == ["A100-40GB", "T4"]
    for row in found["ranks"]:
        assert row["compute_seconds"] == pytest.approx(sum(row["seconds_by_kind"].values()))
