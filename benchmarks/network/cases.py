"""What is measured: graphs, machines with their links, and the caches of the one for the other.

Links are slow, 2 to 20 Mbit/s, so that two processor cores that play all machines keep up with them and the tenth of a
second that a busy machine takes to start an exchange stays small beside it. What partitions depend on are the ratios.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.command import graphprep
from graphprep import open_store
from graphprep.partition.request import PartitionRequest
from graphprep.system import progress
from graphprep.topology import Topology
from pipelines.partition import PartitionPlan, run_partition

CLASSES = 8
GRAPHS: dict[str, tuple[int, str]] = {
    "sbm": (32, "generate sbm --nodes 20000 --edges 200000 --features 16 --classes 8"),
    "wing": (128, "import {data}/graphs/wing.graph"),
    "cit-hep-ph": (16, "import {data}/edges/cit-hep-ph.txt --undirected --self-loops drop"),
    "amazon-photo": (64, "fetch amazon-photo --mirror {data}/mirror"),
    "cora": (64, "fetch cora --mirror {data}/mirror"),
    "rmat": (32, "generate rmat --scale 15 --edges 300000 --features 16 --classes 8"),
    "ego-twitter": (32, "import {data}/edges/ego-twitter.txt.gz --undirected --self-loops drop"),
    "coauthor-cs": (64, "fetch coauthor-cs --mirror {data}/mirror"),
}
"""The width of the layers between, and the words after `graphprep` that make the store."""
UNLABELLED = ("wing", "cit-hep-ph", "ego-twitter")
FEATURES_OF_REAL = 8
"""Columns of the random features that graphs without any get, with random classes."""
UNEQUAL = {2: (20, 5), 3: (20, 10, 4), 4: (20, 20, 5, 2)}
EQUAL = {2: (5, 5), 4: (5, 5, 5, 5)}
"""Mbit/s of each machine's cable, by the number of machines."""
INSIDE_GBYTES_PER_S = 2.0
"""Between ranks of one machine, which is what loopback of a busy processor carries, more or less."""
LATENCY_US = 100
"""Of a cable: what a veth and a switch take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Machines of equally many ranks, each on its own cable to one switch."""

    name: str
    ranks_each: int
    mbits: tuple[float, ...]
    """Of each machine's cable."""

    @property
    def topology(self) -> Topology:
        ranks = f"gpus: {self.ranks_each}, pcie: {{gbytes_per_s: {INSIDE_GBYTES_PER_S}}}"
        machines = "".join(
            f"  - {{{ranks}, network: {{gbytes_per_s: {rate / 8000}, latency_us: {LATENCY_US}}}}}\n"
            for rate in self.mbits
        )
        return Topology.from_text(f"name: {self.name}\nmachines:\n{machines}")


def links_of(machines: int, ranks: int, kind: str) -> Links:
    """The machines of a case; `kind` is `unequal` or `equal`."""
    mbits = (UNEQUAL if kind == "unequal" else EQUAL)[machines]
    return Links(name=f"{machines}x{ranks // machines}-{kind}", ranks_each=ranks // machines, mbits=mbits)


def store_of(graph: str, folder: Path) -> str:
    """The name of a graph's store in `folder`, made when it is not there."""
    os.environ["GRAPHPREP_HOME"] = str(folder)
    if not (folder / "stores" / f"{graph}.zarr").exists():
        data, words = os.environ.get("GRAPHPREP_TEST_DATA"), GRAPHS[graph][1]
        if data is None and "{data}" in words:
            raise SystemExit(f"the graph {graph} is read from the folder that GRAPHPREP_TEST_DATA names")
        command = words.format(data=data).split()
        if graph in UNLABELLED:
            graphprep(*command, "--name", f"{graph}-bare", "-q")
            command += _invented(f"{graph}-bare", folder)
        graphprep(*command, *([] if command[0] == "fetch" else ["--name", graph]), "-q")
    return graph


def _invented(store: str, folder: Path) -> list[str]:
    """Options that give a graph random features and classes, which its exchanges do not depend on."""
    num_nodes, rng = open_store(store).num_nodes["node"], np.random.default_rng(0)
    x_path, y_path = folder / f"{store}-x.npy", folder / f"{store}-y.npy"
    np.save(x_path, rng.standard_normal((num_nodes, FEATURES_OF_REAL), np.float32))
    np.save(y_path, rng.integers(0, CLASSES, num_nodes))
    return ["--features", str(x_path), "--labels", str(y_path)]


def cache_of(store: str, links: Links, request: PartitionRequest, label: str, folder: Path) -> Path:
    """The cache of a store for some machines, made when it is not there.

    Args:
        store: its name in `folder`.
        links: the machines.
        request: how it is cut.
        label: a word for that.
        folder: where stores and caches lie.
    """
    out = folder / "caches" / store / f"{links.name}-{label}"
    if not out.exists():
        progress.configure(quiet=True)
        found = open_store(store)
        run_partition(PartitionPlan(store=found, topology=links.topology, request=request, target=out))
    return out
