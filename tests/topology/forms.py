"""The two topologies that the design spells out, as text."""

LONG = """\
name: two-sockets
ranks:
  - {name: gpu0, machine: m0, speed: 1.0, memory_gb: 32}
  - {name: gpu1, machine: m0}
  - {name: gpu2, machine: m0}
switches: [pcie0, pcie1]
links:
  - {ends: [gpu0, gpu1], type: nvlink, gbytes_per_s: 25, latency_us: 2}
  - {ends: [gpu0, pcie0], type: pcie, gbytes_per_s: 12, latency_us: 3}
  - {ends: [gpu1, pcie0], type: pcie, gbytes_per_s: 12, latency_us: 3}
  - {ends: [gpu2, pcie1], type: pcie, gbytes_per_s: 12, latency_us: 3}
  - {ends: [pcie0, pcie1], type: qpi, gbytes_per_s: 10, latency_us: 3}
routes: {"gpu0->gpu2": [gpu0, pcie0, pcie1, gpu2]}
"""

SHORT = """\
name: 2x4
machines:
  - {count: 2, gpus: 4, nvlink: {gbytes_per_s: 50, pairs: [[0, 1], [2, 3]]},
     pcie: {gbytes_per_s: 16, gpus_per_switch: 2}, network: {gbytes_per_s: 12.5, latency_us: 10}}
"""


def replaced(text: str, old: str, new: str) -> str:
    """`text` with its one `old` replaced."""
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)
