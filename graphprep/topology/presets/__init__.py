"""Topologies by name: one YAML file each, beside this one.

The three made-up clusters (`2x2`, `2x4`, `4x8`: machines x GPUs) also come with their network replaced: `2x4-25gbe`.
Bandwidths are what standards and vendors publish for one direction; the files name the source. PCIe counts as three
quarters of its line rate (`graphprep.topology.link_rates`), except in the made-up clusters, which are the design's
example. Latencies are round figures of ours, as no standard fixes them: measure with `graphprep topology probe` where
they matter.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from graphprep.errors import TopologyError
from graphprep.system.nearest import nearest
from graphprep.system.progress import say
from graphprep.topology.network import Topology

CLUSTERS = ("2x2", "2x4", "4x8")
NETWORKS = {
    "10gbe": (1.25, 10.0),  # IEEE 802.3ae: 10 Gbit/s
    "25gbe": (3.125, 10.0),  # IEEE 802.3by: 25 Gbit/s
    "100gbe": (12.5, 10.0),  # IEEE 802.3ba: 100 Gbit/s
    "ib-edr": (12.5, 1.0),  # InfiniBand Trade Association's roadmap, 4 lanes: EDR 100 Gbit/s
    "ib-hdr": (25.0, 1.0),  # HDR 200 Gbit/s
    "ib-ndr": (50.0, 1.0),  # NDR 400 Gbit/s
}
"""Gigabytes a second in each direction, and microseconds from a machine to the switch."""


def preset_names() -> tuple[str, ...]:
    """All names that `resolve` knows."""
    own = [file.name.removesuffix(".yaml") for file in files(__package__).iterdir() if file.name.endswith(".yaml")]
    return tuple(sorted([*own, *(f"{cluster}-{network}" for cluster in CLUSTERS for network in NETWORKS)]))


def resolve(name_or_path: str | Path | Topology) -> Topology:
    """The preset of that name, else the file.

    A path object, or a text with a folder in it (`./2x4`), is always a file. A text of several lines is what such a
    file holds, and a topology is given back.

    Raises:
        TopologyError: there is neither, or the file is wrong.
    """
    if isinstance(name_or_path, Topology):
        return name_or_path
    names = preset_names()
    name = str(name_or_path)
    if "\n" in name and not isinstance(name_or_path, Path):
        return Topology.from_text(name)
    if name in names and not isinstance(name_or_path, Path):
        if os.path.isfile(name):
            say(f"{name} is taken for the topology preset; give ./{name} for the file in the current folder")
        return _preset(name)
    if not os.path.exists(name):
        known = nearest(name, names) or "; 'graphprep topology list' shows the presets"
        raise TopologyError(f"{name!r} is neither a topology preset nor a file that exists{known}")
    return Topology.from_file(name)


def _preset(name: str) -> Topology:
    cluster, _, network = name.partition("-")
    if cluster in CLUSTERS and network:
        return _with_network(cluster, network)
    return Topology.from_text(_text(name), origin=f"preset {name}")


def _with_network(cluster: str, network: str) -> Topology:
    import yaml

    form = yaml.safe_load(_text(cluster))
    gbytes_per_s, latency_us = NETWORKS[network]
    for machine in form["machines"]:
        machine["network"] = {"gbytes_per_s": gbytes_per_s, "latency_us": latency_us}
    text = yaml.safe_dump(form | {"name": f"{cluster}-{network}"})
    return Topology.from_text(text, origin=f"preset {cluster}-{network}")


def _text(name: str) -> str:
    return files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
