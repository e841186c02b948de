"""Names of congestion controls, and what stands for those that a kernel lacks."""

from __future__ import annotations

import errno
import socket

from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.names import derived


def stand_in(name: str) -> str:
    """Return the congestion control for a name: itself, or ccplane's algorithm where the kernel has none.

    The kernel loads its module, if that is how it has it.

    Raises:
        SwitchError: `switch.no_congestion_control`.
    """
    ours = derived(name)
    found = next((one for one in (name, ours) if _is_there(one)), None)
    if found is None:
        raise SwitchError(
            "switch.no_congestion_control",
            f"no congestion control `{name}`",
            "/proc/sys/net/ipv4/tcp_available_congestion_control",
            f"this kernel comes without, and `{ours}` is not registered",
            f"`modprobe tcp_{name}`, or let ccplane's take its place: `ccp run {name}`",
        )
    return found


def _is_there(name: str) -> bool:
    with socket.socket() as sock:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            # EPERM: it is there, and not for everybody.
            return error.errno not in (errno.ENOENT, errno.EINVAL)
    return True
