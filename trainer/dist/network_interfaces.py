"""Whether the network interfaces that the user named for gloo or NCCL are there and can be used.

A name that is wrong is found by the libraries only after the ranks have waited for each other, several time-outs long.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Mapping
from pathlib import Path

from trainer.base.errors import TrainingError

log = logging.getLogger("trainer")

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915
"""Linux's request for an interface's IPv4 address."""


def check_interfaces(environment: Mapping[str, str], *, on_gpu: bool) -> None:
    """Refuse an interface that is not there or has no address; say which one was named.

    Args:
        environment: GLOO_SOCKET_IFNAME counts between CPUs, NCCL_SOCKET_IFNAME between GPUs.
        on_gpu: whether NCCL joins the ranks, rather than gloo.

    Raises:
        TrainingError: no interface has such a name, or it has no address.
    """
    variable = NCCL if on_gpu else GLOO
    value = environment.get(variable, "")
    if not value or value.startswith("^"):  # NCCL's way to leave some out
        return
    here = sorted(name for _, name in socket.if_nameindex())
    is_exact = not on_gpu or value.startswith("=")
    for wanted in value.removeprefix("=").split(","):
        found = [name for name in here if name == wanted or (not is_exact and name.startswith(wanted))]
        if not found:
            raise TrainingError(
                f"{variable} is {value} and {socket.gethostname()} has no network interface {wanted!r}, only "
                f"{', '.join(here)}; correct {variable} on this machine, or unset it"
            )
        if not any(map(_has_address, found)):
            raise TrainingError(
                f"{variable} is {value} and network interface {wanted} of {socket.gethostname()} has no address; "
                f"bring it up, or name another in {variable}: {', '.join(here)}"
            )
    log.debug("the ranks talk by %s, as %s says", value, variable)


def named_interface(environment: Mapping[str, str], *, on_gpu: bool) -> str | None:
    """The first interface with an IPv4 address that the variable names; None if it names none.

    Args:
        environment: as for `check_interfaces`.
        on_gpu: likewise.
    """
    value = environment.get(NCCL if on_gpu else GLOO, "")
    if not value or value.startswith("^"):
        return None
    is_exact = not on_gpu or value.startswith("=")
    for wanted in value.removeprefix("=").split(","):
        for _, name in socket.if_nameindex():
            if (name == wanted or (not is_exact and name.startswith(wanted))) and address_of(name):
                return name
    return None


def address_of(name: str) -> str | None:
    """The IPv4 address of an interface; None if it has none, or where Linux's call is not."""
    try:
        import fcntl
    except ImportError:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, contextlib.suppress(OSError):
        found = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, name.encode()[:15].ljust(256, b"\0"))
        return socket.inet_ntoa(found[20:24])  # behind the name, the family and the port
    return None


def _has_address(name: str) -> bool:
    """Whether an interface has an IPv4 or IPv6 address; taken for granted where Linux's files and calls are not."""
    listed = Path("/proc/net/if_inet6")
    if not Path("/proc/net").exists():
        return True
    with contextlib.suppress(OSError, IndexError):
        if any(line.split()[5] == name for line in listed.read_text().splitlines()):
            return True
    return address_of(name) is not None
