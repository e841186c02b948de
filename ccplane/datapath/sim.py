"""The simulated datapath: the thin Python face of the native module.

A world has a network, hosts and their TCP connections, in virtual time: it needs no root and no kernel part,
and gives the same bytes for the same seed. The native class implements `ccplane.datapath.protocol.Datapath`
as it is; flows come by `connect`. Time passes only in `poll` and `run_until`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ccplane.base import native

START_US = 1_000_000
"""When a world begins, unless told otherwise [us]: 0 means "never" to some."""

LATENCY_US = 100
"""What an agent takes to hear and to answer, unless told otherwise [us]."""


def open_world(
    spec: Mapping[str, Any],
    *,
    start_us: int = START_US,
    latency_us: int = LATENCY_US,
    host_mtu_bytes: int | None = None,
    max_cwnd_bytes: int = 1 << 30,
    samples: bool = True,
    arrivals: bool = False,
) -> native.SimDatapath:
    """Make a world in which nothing has happened yet.

    Args:
        spec: The network, as the emulator reads it: `Spec` in `native/ccp-emu/src/spec.rs`. Samples of links
            go to its `samples_path`.
        start_us: When it begins [us].
        latency_us: How long after the first record `poll` returns [us of virtual time].
        host_mtu_bytes: Largest IP packet of hosts [bytes]; the network's, if None.
        max_cwnd_bytes: Agents set no larger window [bytes].
        samples: Whether sockets are sampled for `rows`, at the spec's interval.
        arrivals: Whether receivers count what comes, for `arrivals`.

    Returns:
        The world; `close()` writes its files.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `emulator.bad_spec` or `emulator.cannot_write`.
    """
    return native.SimDatapath(
        json.dumps(spec, default=os.fspath).encode(),
        start_us=start_us,
        latency_us=latency_us,
        host_mtu_bytes=host_mtu_bytes,
        max_cwnd_bytes=max_cwnd_bytes,
        samples=samples,
        arrivals=arrivals,
    )


def arrival_bins_us() -> list[int]:
    """Return the least delay of each of the `bins` of `arrivals()` [us]; the last bin has no end.

    Raises:
        LoadError: `load.no_native_module`.
    """
    return native.SimDatapath.bin_bounds_us()
