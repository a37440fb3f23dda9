"""Presets: all of them load, and the well-known ones are what their makers publish."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from graphprep.errors import TopologyError
from graphprep.topology import Topology, preset_names, presets, resolve
from tests.topology.forms import LONG, SHORT


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_under_its_name_and_survives_the_long_form(name: str) -> None:
    """Guards against a preset that is listed and broken, or that labels its cache with another name."""
    topology = resolve(name)
    assert topology.name == name
    assert Topology.from_text(topology.to_yaml()) == topology


def test_the_presets_that_other_parts_name() -> None:
    """Guards against a preset that is renamed while scripts and the documentation still use its name."""
    expected = {"2x2", "2x4", "4x8", "dgx-1-v100", "dgx-a100", "dgx-h100", "pcie-8", "workstation-2", "workstation-4"}
    expected |= {"p3.16xlarge", "g5.12xlarge"}
    expected |= {f"{c}-{n}" for c in ("2x4", "4x8") for n in ("10gbe", "25gbe", "100gbe", "ib-edr", "ib-hdr", "ib-ndr")}
    assert expected <= set(preset_names())


def test_2x4_is_the_design_s_example() -> None:
    """Guards against a preset that drifts from the documented text."""
    assert resolve("2x4") == Topology.from_text(SHORT)


def test_a_variant_differs_in_its_network_alone() -> None:
    """Guards against a variant whose network is not the one that its name says."""
    plain, variant = resolve("4x8"), resolve("4x8-25gbe")
    assert plain.routes == variant.routes
    changed = [(a, b) for a, b in zip(plain.links, variant.links, strict=True) if a != b]
    assert [(a.type, b.gbytes_per_s) for a, b in changed] == [("network", 3.125)] * 4


@pytest.mark.parametrize("name", ["dgx-1-v100", "p3.16xlarge"])
def test_the_hybrid_cube_mesh_has_six_links_a_gpu(name: str) -> None:
    """Guards against a slip in the table of pairs: each V100 has six links of 25 GB/s, to four neighbours."""
    topology = resolve(name)
    mesh = [link for link in topology.links if link.type == "nvlink"]
    bandwidth, neighbours = Counter[str](), Counter[str]()
    for link in mesh:
        for end in link.ends:
            bandwidth[end] += int(link.gbytes_per_s)
            neighbours[end] += 1
    assert set(bandwidth.values()) == {150}
    assert set(neighbours.values()) == {4}
    doubled = {tuple(end[-1] for end in link.ends) for link in mesh if link.gbytes_per_s == 50}
    assert doubled == {("0", "3"), ("0", "4"), ("1", "2"), ("1", "5"), ("2", "3"), ("4", "7"), ("5", "6"), ("6", "7")}
    assert {link.gbytes_per_s for link in mesh} == {25, 50}
    assert {link.gbytes_per_s for link in topology.links if link.type == "pcie"} == {12}


def test_dgx_1_has_two_gpus_a_switch_and_two_switches_a_socket() -> None:
    """Guards against traffic between the quads that passes a socket by, or a switch that four GPUs share."""
    topology = resolve("dgx-1-v100")
    assert topology.path(0, 7) == (
        "m0.gpu0", "m0.pcie0", "m0.socket0", "m0.socket1", "m0.pcie3", "m0.gpu7",
    )  # fmt: skip
    below = Counter(switch for link in topology.links if link.type == "pcie" for switch in link.ends)
    assert [below[f"m0.pcie{switch}"] for switch in range(4)] == [3] * 4  # two GPUs and the way up
    assert [link.ends for link in topology.links if link.type == "qpi"] == [("m0.socket0", "m0.socket1")]


@pytest.mark.parametrize(
    ("name", "type", "gbytes_per_s"),
    [
        ("dgx-a100", "nvlink", 300),
        ("dgx-h100", "nvlink", 450),
        ("p3.16xlarge", "network", 3.125),
        ("g5.12xlarge", "network", 5),
        ("g5.12xlarge", "pcie", 24),
        ("pcie-8", "pcie", 12),
        ("pcie-8", "qpi", 19.2),
        ("workstation-2", "pcie", 12),
        ("workstation-4", "pcie", 24),
        ("2x4-10gbe", "network", 1.25),
        ("2x4-25gbe", "network", 3.125),
        ("4x8-100gbe", "network", 12.5),
        ("4x8-ib-hdr", "network", 25),
        ("4x8-ib-ndr", "network", 50),
    ],
)
def test_bandwidths_that_vendors_publish(name: str, type: str, gbytes_per_s: float) -> None:
    """Guards against gigabits for gigabytes, and both directions together for one."""
    assert {link.gbytes_per_s for link in resolve(name).links if link.type == type} == {gbytes_per_s}


def test_pcie_machines_have_no_nvlink() -> None:
    """Guards against a preset that was copied from one with NVLink."""
    for name in ("g5.12xlarge", "pcie-8", "workstation-2", "workstation-4"):
        assert not [link for link in resolve(name).links if link.type == "nvlink"]


@pytest.mark.parametrize("path", sorted(Path(presets.__file__).parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_says_where_its_figures_are_from(path: Path) -> None:
    """Guards against figures that nobody can check."""
    comment = "".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    assert any(word in comment for word in ("NVIDIA", "AWS", "PCI-SIG", "made-up"))


def test_behind_nvswitch_no_pair_uses_pcie() -> None:
    """Guards against a switch that routing passes by."""
    for name in ("dgx-a100", "dgx-h100"):
        topology = resolve(name)
        assert {topology.path(p, q)[1] for p in range(8) for q in range(8) if p != q} == {"m0.nvswitch"}


def test_a_path_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a preset that shadows a file that was asked for by its path, and the other way round."""
    monkeypatch.chdir(tmp_path)
    Path("2x4").write_text(LONG, encoding="utf-8")
    assert resolve("2x4").name == "2x4"
    assert resolve("./2x4").name == "two-sockets"
    assert resolve(Path("2x4")).name == "two-sockets"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("2x5", "did you mean '2x4'"),
        ("4x8-100gb", "did you mean '4x8-100gbe'"),
        ("cluster.yaml", "topology list"),
        ("", "topology list"),
        ("x" * 5000, "topology list"),
        ("2x4\0", "did you mean"),
    ],
)
def test_what_is_neither_names_the_nearest(name: str, words: str) -> None:
    """Guards against an error that leaves the person to guess which names there are."""
    with pytest.raises(TopologyError, match="neither a topology preset nor a file that exists") as caught:
        resolve(name)
    assert words in str(caught.value)
