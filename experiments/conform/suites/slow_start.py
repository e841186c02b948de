"""The end of slow start before losses: HyStart++ (RFC 9406), SEARCH (draft-chung-ccwg-search).

An algorithm that offers neither ends slow start at the first loss, and fails the first case. The buffer is
deep, because HyStart++ may triple the window after the first sign (five rounds at a quarter of the speed).
"""

from __future__ import annotations

from experiments.conform import Lab, case
from experiments.conform.net import Net
from experiments.conform.situations import slow_start_ended


def started(lab: Lab, **more: object) -> Net:
    """Return a path with a buffer of ten BDP, in which a flow begins."""
    return lab.path(**{"rate_mbit": 20.0, "rtt_ms": 80.0, "buffer_bdp": 10.0} | more)  # type: ignore[arg-type]


def compare_with_bdp(lab: Lab, net: Net) -> None:
    """Let slow start end, and compare the window then with the BDP."""
    window_pkts = slow_start_ended(net)
    if window_pkts is None:
        lab.undecided("slow start did not end within 20 s")
    what = "window when slow start ends / BDP"
    lab.compare(what, window_pkts / net.bdp_pkts, at_least=0.4)


@case("RFC 9406 section 4.2, SEARCH section 2", "leaves slow start before the buffer overflows")
def leaves_before_losses(lab: Lab) -> None:
    """A growing RTT, or deliveries that fall behind, show a full path before anything is lost."""
    net = started(lab)
    lab.need("slow start ends within 20 s", slow_start_ended(net) is not None)
    dropped = net.counters()["dropped_queue_pkts"]
    lab.compare("packets dropped until its end", dropped, at_most=0)


@case("RFC 9406 section 4.2, SEARCH section 2", "does not leave slow start far too early")
def not_too_early(lab: Lab) -> None:
    """An exit that is too early costs seconds of linear growth."""
    net = started(lab)
    compare_with_bdp(lab, net)


@case("RFC 9406 section 4.2", "is not misled by jitter below 4 ms")
def small_jitter(lab: Lab) -> None:
    """The threshold for a rise of the RTT is at least 4 ms, because links vary without congestion."""
    net = started(lab, jitter_us=2_000)
    compare_with_bdp(lab, net)


@case("RFC 9406 section 4.2", "resumes slow start after a rise that was noise")
def resumes(lab: Lab) -> None:
    """HyStart++ slows growth for five rounds first; if the RTT falls again, slow start continues.

    HyStart, as in Linux, has no such second look, and fails.
    """
    net = started(lab, rate_mbit=100.0)
    net.run(3.2 * net.rtt_s)
    normal_us = round(net.rtt_s * 5e5)
    net.change(delay_us=normal_us + 15_000)
    net.run(1.5 * net.rtt_s)
    net.change(delay_us=normal_us)
    compare_with_bdp(lab, net)
