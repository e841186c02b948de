"""R-TCP's part of the native module; each function raises `load.no_native_module` if that is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ccp_algs.rtcp.options import Options
from ccplane.base import native
from ccplane.datapath import ebpf


def trials() -> list[ebpf.Capability]:
    """Load the programs for ordinary sockets and take them away again.

    Raises:
        LoadError: `load.no_native_module`.
    """
    return [ebpf.tried("rtcp for sockets", native.rtcp_try_load(Options().to_bytes()))]


def attached(
    options: bytes,
    *,
    max_clients: int,
    records: bool,
    rules_json: bytes = b"[]",
    keep_in: str | os.PathLike[str] | None = None,
) -> native.RtcpAttached:
    """Register the kernel's CUBIC and BBR, bounded by R-TCP, as congestion controls of their own.

    Args:
        options: `Options.to_bytes()` of `ccp_algs.rtcp`.
        max_clients: Sockets of further clients are not bounded.
        records: Whether each ACK makes a row.
        rules_json: Which sockets are bounded: an array of `Rule` of `native/ccp-rtcp`, the first that matches
            decides; empty: all.
        keep_in: Folder in a BPF file system where the table of clients outlives this process; one that is
            there is taken over. None: it ends with the last socket that has it.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_permitted`, `rtcp.name_taken`, `rtcp.no_struct_ops`, `rtcp.no_original`,
            `rtcp.too_many_rules`, `rtcp.refused` or `trace.no_btf`.
    """
    return native.RtcpAttached(
        options, max_clients=max_clients, records=records, rules_json=rules_json, keep_in=keep_in
    )


def forget(kept_in: str | os.PathLike[str]) -> bool:
    """Forget the table of clients that is kept in a folder.

    Returns:
        Whether there was one.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.refused`.
    """
    return native.rtcp_forget(kept_in)


def agent_summary(
    pin_dir: str | os.PathLike[str], bounds_bytes_per_s: Sequence[float]
) -> dict[str, Any] | None:
    """Return the table of clients of an agent in numbers.

    Args:
        pin_dir: Directory of its datapath.
        bounds_bytes_per_s: Upper bounds of the rates to count limited clients by, in rising order [bytes/s].

    Returns:
        `RtcpAttached.summary`; None if no algorithm wants rate limits.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_permitted` or `rtcp.refused`.
    """
    return native.rtcp_agent_summary(pin_dir, list(bounds_bytes_per_s))


def client_tables(
    now_us: int, pin_dir: str, kept_in: str | os.PathLike[str]
) -> list[tuple[str, int, int, list[dict[str, Any]] | None]]:
    """Return what these congestion controls, also those attached earlier, and an agent know of clients.

    Args:
        now_us: The time, of CLOCK_MONOTONIC [us].
        pin_dir: Directory of the agent's datapath.
        kept_in: Folder of the table that is kept.

    Returns:
        Of each table whose it is (`attach`, `agent`, `earlier`), for how many clients there is room,
        connections that it had no room for, and its clients; None: it is another version's, not readable.

    Raises:
        LoadError: `load.no_native_module`.
        CcpError: `rtcp.not_attached`, `rtcp.not_permitted` or `rtcp.refused`.
    """
    return native.rtcp_tables(now_us, pin_dir, kept_in)
