"""Reno by section: RFC 5681 (slow start, congestion avoidance, recovery, timeout) and RFC 6582 (NewReno)."""

from __future__ import annotations

from experiments.conform import Lab, case
from experiments.conform.situations import (
    ROOM_BDP,
    grown_to,
    growth_per_round,
    in_avoidance,
    reduced,
    slow_start_ended,
    timed_out,
)
from experiments.traffic.spec import Http


@case("RFC 5681 section 3.1", "doubles its window per round trip in slow start")
def slow_start_doubles(lab: Lab) -> None:
    """In slow start, each acknowledged segment adds one."""
    traffic = Http(objects=(100_000_000,))
    net = lab.path(rate_mbit=200, rtt_ms=100, buffer_bdp=ROOM_BDP, traffic=traffic)
    net.run(1.9 * net.rtt_s)
    rounds = net.arrivals_pkts(4 * net.rtt_s, net.rtt_s)
    lab.compare("packets sent in the fourth round / in the second", rounds[3] / rounds[1], near=4, within=0.2)


@case("RFC 5681 section 3.1, equation 3", "adds a segment per round trip in congestion avoidance")
def avoidance_adds_one(lab: Lab) -> None:
    """Linear growth is what makes Reno's flows converge."""
    net = in_avoidance(lab, 60, rate_mbit=50, rtt_ms=40)
    lab.compare("growth per round trip [segments]", growth_per_round(net, 4), near=1, within=0.2)


@case("RFC 5681 section 3.1, equation 4", "halves its window after a loss")
def loss_halves(lab: Lab) -> None:
    """The threshold becomes half of the data in flight, and the window follows."""
    net = in_avoidance(lab, 80, rate_mbit=50, rtt_ms=40)
    net.run(1)
    lab.compare("window after a loss / before", reduced(lab, net).ratio, near=0.5, within=0.1)


@case("RFC 6582 section 3.2", "reduces once for all losses of a window")
def one_reduction_per_window(lab: Lab) -> None:
    """Partial ACKs repair the other losses of the same window, without another reduction."""
    net = in_avoidance(lab, 80, rate_mbit=50, rtt_ms=40)
    net.run(1)
    ratio = reduced(lab, net, 0, 5, 10, 15).ratio
    lab.compare("window after four losses of one window / before", ratio, near=0.5, within=0.1)


@case("RFC 5681 section 3.1", "starts from one segment after a timeout")
def timeout_restarts(lab: Lab) -> None:
    """After a timeout nothing is known to be in flight: the ACK clock must start again."""
    net = in_avoidance(lab, 80, rate_mbit=50, rtt_ms=40)
    net.run(1)
    before, after = timed_out(lab, net)
    lab.compare("window on the first ACK after a timeout [segments]", after, at_most=2)
    lab.compare(
        "window when slow start ends / before", (slow_start_ended(net) or 0) / before, near=0.5, within=0.2
    )


@case("RFC 5681 section 3.1, equation 4", "keeps a threshold of at least two segments")
def threshold_has_a_floor(lab: Lab) -> None:
    """Repeated losses must not stop a flow."""
    net = grown_to(lab, 20, rate_mbit=20, rtt_ms=40)
    for _ in range(4):
        timed_out(lab, net)
    net.run(1)
    lab.compare("window 1 s after four timeouts [segments]", net.flow.cwnd_pkts, at_least=4)
