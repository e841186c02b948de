"""The simulated datapath: a thin wrapper around the native module.

A world is a network with hosts and TCP connections, in virtual time. A world needs no root and no kernel
programs, and the same seed gives identical results. The native class implements
`ccplane.datapath.protocol.Datapath`; `connect` creates flows. Time advances only in `poll` and `run_until`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ccplane.base import native

START_US = 1_000_000
"""Default start time of a world [us]; not 0, which some fields use for "never"."""

LATENCY_US = 100
"""Default delay until the agent receives events and answers [us]."""


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
    """Create a world; its `close()` writes its files.

    Args:
        spec: The network: `Spec` in `native/ccp-emu/src/spec.rs`. Samples of links are written to its
            `samples_path`.
        start_us: Start time [us].
        latency_us: Delay between the first event and the return of `poll` [us of virtual time].
        host_mtu_bytes: Maximum IP packet of hosts [bytes]; None for the network's.
        max_cwnd_bytes: Maximum window that agents can set [bytes].
        samples: Whether to sample sockets for `rows`, at the spec's interval.
        arrivals: Whether receivers count arrivals, for `arrivals`.

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
    """Return the lower bound of each of the `bins` of `arrivals()` [us]; the last bin is unbounded."""
    return native.SimDatapath.bin_bounds_us()
