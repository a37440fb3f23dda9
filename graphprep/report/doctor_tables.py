"""What `graphprep.system.doctor` found, as lines on a terminal."""

from __future__ import annotations

from typing import IO, Any

from graphprep.report.tables import line, table
from graphprep.system.doctor import OPTIONAL
from graphprep.system.progress import format_bytes


def print_doctor(found: dict[str, Any], file: IO[str]) -> None:
    """Print versions, GPUs, room and threads, and the advice last."""
    line(file, f"graphprep {found['graphprep']}, Python {found['python']}, {found['platform']}")
    rows = [[name, is_at or "absent", ""] for name, is_at in found["packages"].items()]
    rows += [[name, is_at or "absent", f"for {OPTIONAL[name][1]}"] for name, is_at in found["optional"].items()]
    table(file, "packages", ["package", "version", "optional"], rows)
    for text in (*_gpu_lines(found), *_room_lines(found)):
        line(file, text)
    for text in found["advice"]:
        line(file, f"look at this: {text}")
    if not found["advice"]:
        line(file, "nothing calls for attention")


def _gpu_lines(found: dict[str, Any]) -> list[str]:
    torch, driver = found["torch"], found["driver"]
    if torch.get("problem"):
        return [f"torch: {torch['problem']}"]
    backends = [name for name in ("gloo", "nccl") if torch[name]]
    lines = [f"torch: built for CUDA {torch['cuda_built'] or 'none'}, backends {', '.join(backends) or 'none'}"]
    lines += [f"GPU {gpu['name']}, {format_bytes(gpu['memory_bytes'])}" for gpu in torch["gpus"]]
    if not torch["gpus"]:
        lines.append(f"no GPU that torch can use; the driver shows {len(driver['gpus'])}; training runs on the CPU")
    return lines


def _room_lines(found: dict[str, Any]) -> list[str]:
    disk = found["disk_free_bytes"]
    free = "an unknown amount" if disk is None else format_bytes(disk)
    threads = ", ".join(f"{name}={value}" for name, value in found["threads"].items() if value is not None)
    return [
        f"GRAPHPREP_HOME {found['home']}: {free} free",
        f"memory: {format_bytes(found['memory_free_bytes'])} free",
        f"cores: {found['cores']} of {found['cores_of_machine']}; thread settings: {threads or 'none'}",
    ]
