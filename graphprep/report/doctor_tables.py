"""What `graphprep.system.doctor` finds, on a terminal."""

from __future__ import annotations

from typing import Any

from graphprep.report.cited import Cited
from graphprep.report.table import Column, Table
from graphprep.report.tables import Report
from graphprep.report.terminal import printer
from graphprep.system.doctor import OPTIONAL
from graphprep.system.progress import format_bytes

PACKAGES = (
    Column("package", lambda version: version.last_key),
    Column("version", lambda version: version if version else "absent"),
    Column("optional", lambda version: f"for {OPTIONAL[version.last_key][1]}" if version.path[0] == "optional" else ""),
)


@printer
def print_doctor(report: dict[str, Any]) -> Report:
    """Print versions, GPUs, disk, memory and threads, and the advice last."""
    yield f"graphprep {report['graphprep']}, Python {report['python']}, {report['platform']}"
    cited = Cited(report)
    yield Table("packages", PACKAGES, [*cited["packages"], *cited["optional"]])
    yield from _gpus(report["torch"], report["driver"])
    disk = "an unknown amount" if report["disk_free_bytes"] is None else format_bytes(report["disk_free_bytes"])
    threads = ", ".join(f"{name}={value}" for name, value in report["threads"].items() if value is not None)
    yield f"GRAPHPREP_HOME {report['home']}: {disk} free"
    yield f"memory: {format_bytes(report['memory_free_bytes'])} free"
    yield f"cores: {report['cores']} of {report['cores_of_machine']}; thread settings: {threads or 'none'}"
    yield from (f"advice: {text}" for text in report["advice"])
    if not report["advice"]:
        yield "no advice for this machine"


def _gpus(torch: dict[str, Any], driver: dict[str, Any]) -> Report:
    if torch.get("problem"):
        yield f"torch: {torch['problem']}"
        return
    backends = ", ".join(name for name in ("gloo", "nccl") if torch[name]) or "none"
    yield f"torch: built for CUDA {torch['cuda_built'] or 'none'}, backends {backends}"
    yield from (f"GPU {gpu['name']}, {format_bytes(gpu['memory_bytes'])}" for gpu in torch["gpus"])
    if not torch["gpus"]:
        yield f"no GPU that torch can use; the driver shows {len(driver['gpus'])}; training runs on the CPU"
