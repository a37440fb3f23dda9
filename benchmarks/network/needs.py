"""What namespaces need, asked before anything is built."""

from __future__ import annotations

import os
import shutil
import sys

TOOLS = ("ip", "tc", "unshare", "hostname", "sysctl")


def missing() -> str | None:
    """A sentence that says why namespaces cannot be had here; None where they can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    if os.geteuid():
        return "network namespaces and tc need root; run this as root on a machine that you may change"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} cannot be found; install iproute2, util-linux, hostname and procps"
    if not os.path.isdir("/proc/sys/net"):
        return "this kernel shows no network settings in /proc/sys/net; use one with network namespaces"
    return None


def require() -> None:
    """End the program with that sentence, if there is one."""
    problem = missing()
    if problem is not None:
        print(problem, file=sys.stderr)
        raise SystemExit(2)
