"""The topology of one machine as nvidia-smi describes it.

What nvidia-smi prints is read by `smi_matrix` (the matrix of `topo -m`) and `smi_gpus` (names, PCI buses and memory);
`smi` gets the text, from the tool or from a saved file; `machine` makes a topology of it.
"""

from graphprep.topology.detect.machine import Detected, detected
from graphprep.topology.detect.smi import Seen, read_saved, run_here

__all__ = ["Detected", "Seen", "detected", "read_saved", "run_here"]
