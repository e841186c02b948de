"""Errors of switching, in the shape of all ccplane errors."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "switch.no_congestion_control": "the kernel has no congestion control of this name, and none stands in",
    "switch.not_permitted": "the kernel does not let us",
    "switch.host_in_use": "another program switches the settings of this host",
    "switch.bad_rate": "a rate is one that cannot be set",
    "switch.bad_option": "an option of `ccp regime apply` cannot be",
    "switch.no_cgroup": "there is no cgroup v2 hierarchy through which new sockets can be seen",
    "switch.no_netns": "the network namespace cannot be entered",
}
"""What can go wrong -> what it means; each has a test that names it."""


class SwitchError(CcpError):
    """Sockets or a host cannot follow their regimes."""
