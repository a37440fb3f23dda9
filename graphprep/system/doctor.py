"""What this machine and this installation are like: versions, optional libraries, GPUs, disk, memory, threads.

Nothing here fails because something is absent: what cannot be had is said so, with what to do. GPUs are asked for from
the driver's own tool and from torch in a process of its own, since a broken CUDA set-up can end the process that asks.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from graphprep.system import home, memory
from graphprep.system.child_process import child_settings, python_command
from graphprep.system.packages import installed_version
from graphprep.system.threads import cores
from graphprep.version import __version__

NEEDED = ("numpy", "scipy", "numba", "zarr", "pyarrow", "pymetis", "torch", "torch-geometric", "ogb", "matplotlib")
OPTIONAL = {
    "mtkahypar": ("mtkahypar", "starts by Mt-KaHyPar: pip install 'graphprep[mtkahypar]'"),
    "kaminpar": ("kaminpar", "starts by KaMinPar, which takes less memory: pip install 'graphprep[kaminpar]'"),
    "dask": ("distributed", "work on a cluster, --dask: pip install 'graphprep[dask]'"),
    "pandas": ("pandas", "tables of cache.quality: pip install pandas"),
    "networkx": ("networkx", "to_networkx: pip install networkx"),
    "s3fs": ("s3fs", "stores at s3:// URLs: pip install s3fs"),
    "gcsfs": ("gcsfs", "stores at gs:// URLs: pip install gcsfs"),
}
THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
LEAST_DISK, LEAST_MEMORY = 5 * 10**9, 2 * 10**9
SECONDS = 60.0
"""That a question to another process may take."""
ASK_TORCH = """
from graphprep.system.child_process import end_with_parent
end_with_parent()
import json, warnings
warnings.filterwarnings("ignore")
import torch
cuda = torch.cuda.is_available()
gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())] if cuda else []
print(json.dumps({
    "cuda_built": torch.version.cuda,
    "cuda_available": cuda,
    "nccl": bool(torch.distributed.is_available() and torch.distributed.is_nccl_available()),
    "gloo": bool(torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    "gpus": [{"name": gpu.name, "memory_bytes": gpu.total_memory} for gpu in gpus],
    "threads": torch.get_num_threads(),
}))
"""


def examine() -> dict[str, Any]:
    """The findings as plain JSON values; `advice` holds a sentence for everything that a person may want to change."""
    report: dict[str, Any] = {
        "graphprep": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: installed_version(name) for name in NEEDED},
        "optional": {
            name: installed_version(name) if _is_here(module) else None for name, (module, _) in OPTIONAL.items()
        },
        "torch": _ask_torch(),
        "driver": _ask_driver(),
        "home": str(home.home()),
        "disk_free_bytes": _free_disk(home.home()),
        "memory_free_bytes": memory.available(),
        "cores": cores(),
        "cores_of_machine": os.cpu_count(),
        "threads": {name: os.environ.get(name) for name in THREAD_SETTINGS},
    }
    return report | {"advice": _advice(report)}


@functools.cache  # torch takes seconds to answer, and GPUs do not come and go within a command
def gpus_here() -> tuple[str, ...]:
    """Names of the GPUs that torch can use here; none where it cannot be asked."""
    return tuple(str(gpu["name"]) for gpu in _ask_torch().get("gpus", []))


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _ask_torch() -> dict[str, Any]:
    import json

    done = _asked(python_command("-c", ASK_TORCH))
    if isinstance(done, str):
        return {"problem": done}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"problem": _last_line(done.stderr) or f"it ended with status {done.returncode}"}
    return answer


def _ask_driver() -> dict[str, Any]:
    """What nvidia-smi says of GPUs; `gpus` is empty where there is no such tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {"gpus": [], "problem": None}
    done = _asked([tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    if isinstance(done, str):
        return {"gpus": [], "problem": done}
    if done.returncode:
        return {"gpus": [], "problem": _last_line(done.stdout + done.stderr)}
    return {"gpus": [line.strip() for line in done.stdout.splitlines() if line.strip()], "problem": None}


def _asked(command: list[str]) -> subprocess.CompletedProcess[str] | str:
    """What a command printed, or why it could not be asked."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            **child_settings(),
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS:.0f} s"
    except OSError as error:
        return str(error)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _free_disk(folder: Path) -> int | None:
    """Free bytes where a folder is or will be; None if that cannot be found out."""
    for place in (folder, *folder.parents):
        if place.is_dir():
            try:
                return shutil.disk_usage(place).free
            except OSError:
                return None
    return None


def _advice(report: dict[str, Any]) -> list[str]:
    advice = [
        f"{name} is not installed; install graphprep again"
        for name, is_at in report["packages"].items()
        if is_at is None
    ]
    torch, driver = report["torch"], report["driver"]
    if torch.get("problem"):
        advice.append(f"torch cannot be used: {torch['problem']}; install it again for this machine")
    elif driver["gpus"] and not torch["cuda_available"]:
        built = torch["cuda_built"] or "no CUDA"
        advice.append(
            f"the driver shows {len(driver['gpus'])} GPUs and torch, built for {built}, finds none; install a torch "
            "that the driver supports"
        )
    if driver["problem"]:
        advice.append(f"nvidia-smi does not work: {driver['problem']}")
    disk = report["disk_free_bytes"]
    if disk is not None and disk < LEAST_DISK:
        advice.append(f"only {disk / 1e9:.1f} GB are free in {report['home']}; set GRAPHPREP_HOME to a larger disk")
    if report["memory_free_bytes"] < LEAST_MEMORY:
        advice.append(f"only {report['memory_free_bytes'] / 1e9:.1f} GB of memory are free; give --memory to long runs")
    for name, value in report["threads"].items():
        if value is not None and not (value.isdecimal() and int(value) >= 1):
            advice.append(f"{name}={value} is no number of threads; unset it")
        elif value is not None and int(value) > report["cores"]:
            advice.append(f"{name}={value} is more than the {report['cores']} cores that this process may use")
    return advice
