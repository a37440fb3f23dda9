"""Ranks, switches, links and routes: written by hand, taken from a preset, or flat."""

from graphprep.topology.network import MAX_RANKS, ROUTING_BYTES, Link, Rank, Topology
from graphprep.topology.presets import preset_names, resolve
from graphprep.topology.routing import Hop, Route

__all__ = ["MAX_RANKS", "ROUTING_BYTES", "Hop", "Link", "Rank", "Route", "Topology", "preset_names", "resolve"]
