"""Westwood+: Reno that reduces its window to the measured capacity of the path, instead of to half.

    slow start, congestion avoidance: as Reno
    loss, timeout: threshold = bandwidth estimate x minimum RTT

The bandwidth estimate is the data acknowledged in a round trip (at least 50 ms), through two low-pass filters
that each keep seven eighths of their old value, as in Linux. Random losses therefore cost less than half of
the window while the path is full, and next to nothing while there is a queue; growth is unchanged.

Source: L. A. Grieco, S. Mascolo, "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP
congestion control", ACM SIGCOMM CCR 34(2), 2004, sections 2.1 and 2.2; tcp_westwood.c of Linux for the
filters.

Parameters: only `report_ms` (0: a flow reports events only).

Deviations: those of `episodes.py` and `slow_start.py`. A reduction never enlarges the window; in the sources
    a reduction enlarges the window if the estimate is larger. Until there is an estimate, a loss leaves two
    segments, as in Linux.
"""

from __future__ import annotations

from ccp_algs.avoidance import additive_increase, credit
from ccp_algs.configured import Configured
from ccp_algs.episodes import loss_episodes, regular_reports, reports
from ccp_algs.fold import INFINITY, Ack, Flow, FoldProgram, control, field, let, max_, min_, on, state, total
from ccp_algs.registry import register
from ccp_algs.slow_start import slow_start

MIN_US = 50_000
"""Minimum duration of a bandwidth sample [us]."""
_SECOND_US = 1_000_000
_MAX_BYTES_PER_S = 1 << 40


class WestwoodFold(FoldProgram):
    """The algorithm; reports each event."""

    acked = total(Ack.bytes_acked)
    since_us = state()
    since_bytes = state()
    sample = let(
        min_(
            (Flow.delivered * Flow.mss - since_bytes) * _SECOND_US // (Ack.now - since_us), _MAX_BYTES_PER_S
        ),
        "sample",
    )
    once_filtered_bytes_per_s = state()
    bandwidth_bytes_per_s = field(volatile=False)
    is_first = let(once_filtered_bytes_per_s == 0, "is_first")
    begin = on(since_us == 0, since_us.set(Ack.now), since_bytes.set(Flow.delivered * Flow.mss))
    measure = on(
        Ack.now >= since_us + max_(Flow.srtt_us, MIN_US),
        sample,
        is_first,
        once_filtered_bytes_per_s.set((7 * once_filtered_bytes_per_s + sample) // 8),
        once_filtered_bytes_per_s.set(sample, when=is_first),
        bandwidth_bytes_per_s.set((7 * bandwidth_bytes_per_s + once_filtered_bytes_per_s) // 8),
        bandwidth_bytes_per_s.set(sample, when=is_first),
        since_us.set(Ack.now),
        since_bytes.set(Flow.delivered * Flow.mss),
    )
    credit = credit()
    loss = loss_episodes(
        0,
        also=credit.restart,
        min_bytes=bandwidth_bytes_per_s * min_(Flow.min_rtt_us, 10_000_000) // _SECOND_US,
    )
    avoidance = additive_increase(loss, credit)
    start = slow_start(loss)
    report_us = control(INFINITY)
    when = reports(loss, report_us)


@register("westwood")
class Westwood(Configured):
    """Westwood+: Reno that reduces its window to the measured capacity of the path.

    Use it for rare random losses.
    Do not use it as default. It was compared with few others.
    Evidence: tests only. On the cellular link of `ccp evaluate` (simulated), it has kernel CUBIC's goodput
        with 0.30 times its median RTT.
    """

    program = WestwoodFold
    report_ms = regular_reports(0.0)
