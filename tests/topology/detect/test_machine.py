"""What is made of saved outputs of real kinds of machines."""

from __future__ import annotations

import pytest

from graphprep.errors import TopologyError
from graphprep.topology import Topology, resolve
from graphprep.topology.detect import Seen, detected
from graphprep.topology.to_yaml import as_text
from tests.topology.detect.saved_files import NAMES, links_of, text_of, topology_of


def seen(text: str) -> Topology:
    return detected(Seen(text=text, origin="s.txt"), name="x").topology


def all_joined_by(cell: str, num_gpus: int) -> str:
    """A matrix in which every two GPUs are joined alike."""
    header = "\t" + "\t".join(f"GPU{gpu}" for gpu in range(num_gpus)) + "\tCPU Affinity\tNUMA Affinity\n"
    rows = ["\t".join(" X " if a == b else cell for b in range(num_gpus)) for a in range(num_gpus)]
    return header + "".join(f"GPU{gpu}\t{row}\t0-31\t0\n" for gpu, row in enumerate(rows))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_reads_back(name: str) -> None:
    """Guards against a file that the next command refuses, comments and all."""
    found = detected(Seen(text=text_of(name), origin=name), name=name)
    assert Topology.from_text(as_text(found.topology, found.comments)) == found.topology
    assert [rank.device for rank in found.topology.ranks] == list(range(found.topology.num_ranks))


def test_dgx_1_is_its_preset() -> None:
    """Guards against links or switches of the hybrid cube mesh that only one of file and preset has."""
    found, preset = topology_of("dgx-1"), resolve("dgx-1-v100")

    def bare(topology: Topology) -> list[tuple[tuple[str, ...], str, float]]:
        return [
            (tuple(end.removeprefix("m0.") for end in link.ends), link.type, link.gbytes_per_s)
            for link in topology.links
        ]

    assert bare(found) == bare(preset)


def test_numa_nodes_stand_for_what_nvlink_hides() -> None:
    """Guards against GPUs without a NIC between them that end up on one socket, or each on its own."""
    found = topology_of("p3-16xlarge")
    assert links_of(found, "nvlink") == links_of(topology_of("dgx-1"), "nvlink")
    assert found.path(0, 7) == ("gpu0", "socket0", "socket1", "gpu7")


def test_dgx_a100_is_behind_nvswitch() -> None:
    """Guards against NV12 between all pairs that is taken for 84 cables a GPU."""
    found = topology_of("dgx-a100")
    assert links_of(found, "nvlink") == {(f"gpu{gpu}", "nvswitch"): 300.0 for gpu in range(8)}
    assert {found.path(p, q)[1] for p in range(8) for q in range(8) if p != q} == {"nvswitch"}
    # NICs show which GPUs share switches: below the NVLink there are four pairs, each on a NUMA node of its own.
    assert [end for link in found.links if link.type == "qpi" for end in link.ends if end != "host"] == [
        "socket0", "socket1", "socket2", "socket3",
    ]  # fmt: skip
    assert {link.gbytes_per_s for link in found.links if link.type == "pcie"} == {24.0}


@pytest.mark.parametrize(
    ("cell", "num_gpus", "model", "gbytes_per_s"),
    [
        ("NV18", 8, "NVIDIA H100 80GB HBM3", 450.0),
        ("NV18", 4, "NVIDIA H200", 450.0),
        ("NV18", 8, "NVIDIA B200", 900.0),
        ("NV8", 8, "NVIDIA A800-SXM4-80GB", 200.0),
        ("NV6", 16, "Tesla V100-SXM3-32GB", 150.0),
        ("NV18", 8, "", 450.0),
        ("NV12", 4, "", 300.0),
    ],
)
def test_nvswitch(cell: str, num_gpus: int, model: str, gbytes_per_s: float) -> None:
    """Guards against switches that are only known by the A100's twelve links."""
    query = "".join(f"{model}, 00000000:{gpu:02X}:00.0, 81920 MiB\n" for gpu in range(num_gpus)) if model else ""
    found = seen(all_joined_by(cell, num_gpus) + query)
    assert links_of(found, "nvlink") == {(f"gpu{gpu}", "nvswitch"): gbytes_per_s for gpu in range(num_gpus)}


@pytest.mark.parametrize(
    ("cell", "model"), [("NV4", "NVIDIA A100-SXM4-40GB"), ("NV6", "NVIDIA H100 80GB HBM3"), ("NV4", "")]
)
def test_four_gpus_cabled_to_each_other(cell: str, model: str) -> None:
    """Guards against a board without NVSwitch whose pairs would share one port a GPU."""
    query = "".join(f"{model}, 00000000:{gpu:02X}:00.0, 81920 MiB\n" for gpu in range(4)) if model else ""
    found = seen(all_joined_by(cell, 4) + query)
    assert set(links_of(found, "nvlink").values()) == {25.0 * int(cell[2:])}
    assert len(links_of(found, "nvlink")) == 6


def test_a_broken_link_slows_its_gpu_only() -> None:
    """Guards against one GPU with 16 of 18 links that makes the whole machine a mesh."""
    text = all_joined_by("NV18", 4).splitlines()
    text[4] = text[4].replace("NV18", "NV16")
    text[1:4] = ["NV16".join(line.rsplit("NV18", 1)) for line in text[1:4]]
    found = seen("\n".join(text))
    assert list(links_of(found, "nvlink").values()) == [450.0, 450.0, 450.0, 400.0]


def test_two_sockets_of_pcie() -> None:
    """Guards against switches that are merged or lost: PIX pairs, on one socket below a second switch (PXB)."""
    found = topology_of("pcie-2-sockets")
    assert found.switches == ("pcie0", "pcie1", "pcie2", "pcie3", "bridge0", "socket0", "socket1")
    assert found.path(0, 1) == ("gpu0", "pcie0", "gpu1")
    assert found.path(0, 3) == ("gpu0", "pcie0", "bridge0", "pcie1", "gpu3")
    assert found.path(4, 7) == ("gpu4", "pcie2", "socket1", "pcie3", "gpu7")
    assert found.path(0, 4) == ("gpu0", "pcie0", "bridge0", "socket0", "socket1", "pcie2", "gpu4")


def test_each_gpu_has_its_port_at_a_single_socket() -> None:
    """Guards against a switch that four GPUs share and the machine does not have."""
    found = topology_of("g5-12xlarge")
    assert links_of(found, "pcie") == {(f"gpu{gpu}", "socket0"): 24.0 for gpu in range(4)}
    assert len(found.links) == 4


def test_one_gpu_needs_no_links() -> None:
    """Guards against a workstation that is an error."""
    found = topology_of("single")
    assert (found.links, found.switches) == ((), ())
    assert found.ranks[0].memory_gb == 85.5


def test_gpus_are_ordered_by_pci_bus() -> None:
    """Guards against rank 0 on another GPU than CUDA's first; the bridge of two A6000 has to follow them."""
    found = topology_of("odd-rows")
    assert [rank.memory_gb for rank in found.ranks] == [51.5, 51.5, None]
    assert links_of(found, "nvlink") == {("gpu0", "gpu1"): 56.25}


def test_another_number_of_names_than_rows() -> None:
    """Guards against names of one machine beside the matrix of another."""
    with pytest.raises(TopologyError, match=r"lists 1 GPUs by name and 4 in its matrix"):
        seen(all_joined_by("PHB", 4) + "NVIDIA A10G, 00000000:00:1B.0, 23028 MiB\n")


def test_comments_say_what_was_assumed() -> None:
    """Guards against defaults that look like measurements."""
    known = "\n".join(detected(Seen(text=text_of("dgx-a100"), origin="s.txt"), name="x").comments)
    assert "defaults by generation" in known
    assert "NVIDIA A100-SXM4-40GB: NVLink 25 a link, PCIe 4.0 x16 24 (NVIDIA A100 architecture white paper)." in known
    assert "NIC mlx5_0: shares PCIe switches with gpu0, gpu1." in known
    unknown = "\n".join(detected(Seen(text=text_of("p3-16xlarge"), origin="s.txt"), name="x").comments)
    assert "GPUs of unknown name: NVLink 25 a link, PCIe 3.0 x16 12 (assumed)." in unknown
