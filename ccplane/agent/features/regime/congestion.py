"""Names of congestion controls, with ccplane's replacements for missing ones."""

from __future__ import annotations

import errno
import socket

from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.names import derived


def stand_in(name: str) -> str:
    """Return the kernel's congestion control of this name, or else ccplane's algorithm of this name.

    The kernel loads the module of a congestion control if necessary.

    Raises:
        SwitchError: `switch.no_congestion_control`.
    """
    own = derived(name)
    found = next((one for one in (name, own) if _is_there(one)), None)
    if found is None:
        raise SwitchError(
            "switch.no_congestion_control",
            f"this kernel has no congestion control `{name}`",
            "/proc/sys/net/ipv4/tcp_available_congestion_control",
            f"ccplane's replacement `{own}` is not registered",
            f"load the module with `modprobe tcp_{name}`, or run ccplane's algorithm with `ccp run {name}`",
        )
    return found


def _is_there(name: str) -> bool:
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            # EPERM: it exists, but needs a privilege.
            return error.errno not in (errno.ENOENT, errno.EINVAL)
    return True
