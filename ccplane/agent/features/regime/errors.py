"""Errors of applying regimes."""

from __future__ import annotations

from typing import Final

from ccplane.base.errors import CcpError

SLUGS: Final[dict[str, str]] = {
    "switch.no_congestion_control": "neither the kernel nor ccplane has a congestion control of this name",
    "switch.not_permitted": "the kernel denied permission",
    "switch.host_in_use": "another program switches the settings of this host",
    "switch.bad_rate": "the rate is out of range",
    "switch.bad_option": "an option of `ccp regime apply` is not valid",
    "switch.no_cgroup": "no cgroup v2 hierarchy is mounted, so new sockets cannot be detected",
    "switch.no_netns": "the network namespace cannot be entered",
}
"""Slug -> meaning; each slug has a test that names it."""


class SwitchError(CcpError):
    """Regimes cannot be applied to sockets or to a host."""
