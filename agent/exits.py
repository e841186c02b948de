"""Why and when the fallback law has a flow, or had it last: what `ccp flows` and `ccp top` say of it."""

from __future__ import annotations

from typing import Final

from ccp_base.flows import FlowStats

CAUSES: Final = {
    "new": "no program yet",
    "silent": "agent silent",
    "uninstalled": "program uninstalled",
    "no_program": "its algorithm gave it no program",
    "failed": "its algorithm raised",
}
"""What is shown for `FlowStats.law_cause`."""


def stay(stats: FlowStats, now_us: int) -> str | None:
    """Describe the law's hold on a flow, or the last one that an agent lost it to.

    Args:
        stats: The flow's totals.
        now_us: CLOCK_MONOTONIC [us].

    Returns:
        A few words, such as `agent silent for 3.2 s`; None if the law has not taken the flow from any agent.
    """
    cause = CAUSES[stats.law_cause]
    if stats.law:
        return f"{cause} for {_seconds(now_us - stats.law_entered_us)}"
    if not stats.law_entries:
        return None
    lasted_us = stats.law_left_us - stats.law_entered_us
    return f"{cause} for {_seconds(lasted_us)}, {_seconds(now_us - stats.law_left_us)} ago"


def _seconds(duration_us: int) -> str:
    seconds = max(0, duration_us) / 1e6
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
