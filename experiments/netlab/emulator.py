"""The process that emulates links: `python experiments/netlab/emulator.py CONTROL_FD [TUN_FD...]`.

`emulated()` starts it. The description of the network comes on standard input. The process exits on request
over the control channel, or when the other end of the channel is closed.
"""

from __future__ import annotations

import sys

from ccplane.base import _native
from ccplane.base.errors import CcpError


def main(arguments: list[str]) -> int:
    """Emulate until the request to stop.

    Returns:
        The exit status: 0, or 1 if the network could not be emulated; the reason is on standard error.
    """
    control_fd, *tun_fds = map(int, arguments)
    try:
        _native.emulate(sys.stdin.buffer.read(), tun_fds, control_fd)
    except CcpError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
