"""Checks the network interfaces that the user named for gloo or NCCL.

The libraries notice a wrong name only after the ranks have waited for each other, several time-outs long.
"""

from __future__ import annotations

import contextlib
import itertools
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
    named = _named(environment, on_gpu=on_gpu)
    for name, matches in named.items():
        here = ", ".join(sorted(name for _, name in socket.if_nameindex()))
        if not matches:
            raise TrainingError(
                f"{variable} is {environment[variable]} and {socket.gethostname()} has no network interface {name!r}, "
                f"only {here}; correct {variable} on this machine, or unset it"
            )
        if not any(map(_has_address, matches)):
            raise TrainingError(
                f"{variable} is {environment[variable]} and network interface {name} of {socket.gethostname()} has no "
                f"address; bring it up, or name another in {variable}: {here}"
            )
    if named:
        log.debug("the ranks use %s, as %s says", environment[variable], variable)


def named_interface(environment: Mapping[str, str], *, on_gpu: bool) -> str | None:
    """The first interface with an IPv4 address that the variable names; None if it names none.

    Args:
        environment: as for `check_interfaces`.
        on_gpu: likewise.
    """
    matches = itertools.chain.from_iterable(_named(environment, on_gpu=on_gpu).values())
    return next((name for name in matches if address_of(name)), None)


def _named(environment: Mapping[str, str], *, on_gpu: bool) -> dict[str, list[str]]:
    """The interfaces that each name of the variable matches; NCCL's are prefixes unless `=` comes first."""
    value = environment.get(NCCL if on_gpu else GLOO, "")
    if not value or value.startswith("^"):  # NCCL's way to exclude some
        return {}
    here = [name for _, name in socket.if_nameindex()]
    is_prefix = on_gpu and not value.startswith("=")
    return {
        name: [one for one in here if one == name or (is_prefix and one.startswith(name))]
        for name in value.removeprefix("=").split(",")
    }


def address_of(name: str) -> str | None:
    """The IPv4 address of an interface; None if it has none, or where there is no such call as Linux's."""
    try:
        import fcntl
    except ImportError:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, contextlib.suppress(OSError):
        answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, name.encode()[:15].ljust(256, b"\0"))
        return socket.inet_ntoa(answer[20:24])  # behind the name, the family and the port
    return None


def _has_address(name: str) -> bool:
    """Whether an interface has an IPv4 or IPv6 address; assumed on systems without Linux's files and calls."""
    listed = Path("/proc/net/if_inet6")
    if not Path("/proc/net").exists():
        return True
    with contextlib.suppress(OSError, IndexError):
        if any(line.split()[5] == name for line in listed.read_text().splitlines()):
            return True
    return address_of(name) is not None
