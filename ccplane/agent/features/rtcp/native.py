"""R-TCP's part of the native module; functions raise LoadError `load.no_native_module` without it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ccp_algs.rtcp.options import Options
from ccplane.base import native
from ccplane.datapath import ebpf


def trials() -> list[ebpf.Capability]:
    """Check that the kernel accepts the programs for ordinary sockets."""
    return [ebpf.tried("rtcp for sockets", native.rtcp_try_load(Options().to_bytes()))]


def attached(
    options: bytes,
    *,
    max_clients: int,
    records: bool,
    rules_json: bytes = b"[]",
    keep_in: str | os.PathLike[str] | None = None,
) -> native.RtcpAttached:
    """Register the kernel's CUBIC and BBR with R-TCP's limits, as separate congestion controls.

    Args:
        options: `Options.to_bytes()` of `ccp_algs.rtcp`.
        max_clients: Maximum clients; sockets of further clients are not limited.
        records: Whether to record each ACK.
        rules_json: Sockets to limit: an array of `Rule` of `native/ccp-rtcp`, the first match decides; if
            empty, all sockets.
        keep_in: Folder in a BPF file system that stores the table of clients across restarts. None: the table
            ends with the last socket that uses it.

    Raises:
        CcpError: `rtcp.not_permitted`, `rtcp.name_taken`, `rtcp.no_struct_ops`, `rtcp.no_original`,
            `rtcp.too_many_rules`, `rtcp.refused` or `trace.no_btf`.
    """
    return native.RtcpAttached(
        options, max_clients=max_clients, records=records, rules_json=rules_json, keep_in=keep_in
    )


def forget(kept_in: str | os.PathLike[str]) -> bool:
    """Delete the table of clients in a folder; return whether there was one.

    Raises:
        CcpError: `rtcp.refused`.
    """
    return native.rtcp_forget(kept_in)


def agent_summary(
    pin_dir: str | os.PathLike[str], bounds_bytes_per_s: Sequence[float]
) -> dict[str, Any] | None:
    """Return the summary of an agent's table of clients.

    Args:
        pin_dir: Pin directory of the agent's datapath.
        bounds_bytes_per_s: Upper bounds of rate buckets, ascending [bytes/s].

    Returns:
        As `RtcpAttached.summary`; None if no algorithm uses rate limits.

    Raises:
        CcpError: `rtcp.not_permitted` or `rtcp.refused`.
    """
    return native.rtcp_agent_summary(pin_dir, list(bounds_bytes_per_s))


def client_tables(
    now_us: int, pin_dir: str, kept_in: str | os.PathLike[str]
) -> list[tuple[str, int, int, list[dict[str, Any]] | None]]:
    """Return the tables of clients of attached congestion controls, current and earlier, and of an agent.

    Args:
        now_us: CLOCK_MONOTONIC [us].
        pin_dir: Pin directory of the agent's datapath.
        kept_in: Folder of the stored table.

    Returns:
        For each table: its owner (`attach`, `agent`, `earlier`), maximum of clients, connections for which it
        was full, and its clients; None instead of clients if the table has another version.

    Raises:
        CcpError: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
    """
    return native.rtcp_tables(now_us, pin_dir, kept_in)
