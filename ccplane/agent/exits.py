"""Texts for users: why and since when the fallback controls a flow or a socket, or last controlled it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ccplane.base.flows import FlowStats

CAUSES: Final = {
    "new": "no program yet",
    "silent": "agent silent",
    "unanswered": "report unanswered",
    "uninstalled": "program uninstalled",
    "no_program": "its algorithm gave it no program",
    "failed": "its algorithm raised",
}
"""Text for each `FlowStats.fallback_cause`."""


def stay(stats: FlowStats, now_us: int) -> str | None:
    """Describe why and for how long the fallback controls a flow, or last took it over from an agent.

    Args:
        stats: The flow's totals.
        now_us: CLOCK_MONOTONIC [us].

    Returns:
        A few words, such as `agent silent for 3.2 s`; None if no agent lost the flow to the fallback.
    """
    cause = CAUSES[stats.fallback_cause]
    if stats.fallback:
        return f"{cause} for {_seconds(now_us - stats.fallback_entered_us)}"
    if not stats.fallback_entries:
        return None
    lasted_us = stats.fallback_left_us - stats.fallback_entered_us
    return f"{cause} for {_seconds(lasted_us)}, {_seconds(now_us - stats.fallback_left_us)} ago"


def slotless(counters: Mapping[str, int]) -> str | None:
    """Describe the sockets that run the fallback because they have no slot, and slots that were taken away.

    Args:
        counters: The datapath's.

    Returns:
        A few words, such as `4 sockets found no slot (--max-flows); without one now: 1 for the limit`;
        None if all sockets found a slot.
    """
    limit, quota = counters.get("flows_over_limit", 0), counters.get("flows_over_quota", 0)
    said = []
    if limit:
        said.append(f"{_sockets(limit)} found no slot (--max-flows)")
    if quota:
        said.append(f"{_sockets(quota)} over a user's or cgroup's quota")
    if said:
        now = {why: counters.get(f"without_slot_{why}", 0) for why in ("limit", "quota")}
        without = ", ".join(f"{number} for the {why}" for why, number in now.items() if number)
        said.append(f"without one now: {without or 'none'}")
    if reaped := counters.get("flows_reaped", 0):
        said.append(f"slots taken from silent flows: {reaped}")
    return "; ".join(said) or None


def _sockets(number: int) -> str:
    return "1 socket" if number == 1 else f"{number} sockets"


def _seconds(duration_us: int) -> str:
    seconds = max(0, duration_us) / 1e6
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
