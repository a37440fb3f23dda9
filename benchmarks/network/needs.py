"""What namespaces need, asked before anything is built."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from benchmarks.network.namespaces import namespaces, tool

TOOLS = ("ip", "tc", "unshare", "hostname", "sysctl")


def missing() -> str | None:
    """A sentence that says why namespaces cannot be had here; None where they can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    if os.geteuid():
        return "network namespaces and tc need root; run this as root on a machine that you may change"
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} cannot be found; install iproute2, util-linux, hostname and procps"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun, which cables with delay or loss need; load the kernel module tun"
    try:
        with namespaces(["trial"]) as (trial,):
            tool(*f"tc -n {trial} qdisc add dev lo root tbf rate 1mbit burst 4096 limit 65536".split())
    except RuntimeError as problem:
        return f"this kernel or container allows no throttled namespaces ({problem}); use one that does"
    return None


def require() -> None:
    """End the program with that sentence, if there is one."""
    problem = missing()
    if problem is not None:
        print(problem, file=sys.stderr)
        raise SystemExit(2)
