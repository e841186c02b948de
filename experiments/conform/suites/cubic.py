"""CUBIC by section: RFC 9438."""

from __future__ import annotations

import math

import numpy as np

from experiments.conform import Lab, case
from experiments.conform.net import Net
from experiments.conform.situations import (
    Reduction,
    grown_to,
    growth_per_round,
    in_avoidance,
    reduced,
    slow_start_ended,
    timed_out,
)
from experiments.traffic.spec import OnOff

BETA = 0.7
C_PER_S3 = 0.4
ALPHA = 3 * (1 - BETA) / (1 + BETA)
LONG = {"rate_mbit": 100.0, "rtt_ms": 100.0}
"""A path whose windows are in CUBIC's own region, beyond the Reno-friendly one."""


@case("RFC 9438 section 4.6", "reduces its window to 0.7 after a loss")
def multiplicative_decrease(lab: Lab) -> None:
    """The threshold becomes 0.7 of the data in flight, and the window follows."""
    net = in_avoidance(lab, 80, rate_mbit=50, rtt_ms=40)
    net.run(1)
    lab.compare("window after a loss / before", reduced(lab, net).ratio, near=BETA, within=0.07)


@case("RFC 9438 sections 4.2, 4.4, 4.5", "follows the cubic curve after a loss")
def curve(lab: Lab) -> None:
    """K is the time back to W_max: concave before it, convex after it.

    The window is compared with the curve for 1.3 K after a loss at 400 segments.
    """
    net = grown_to(lab, 400, **LONG)
    lost = reduced(lab, net)
    follows(lab, net, lost, lost.before_pkts)


@case("RFC 9438 section 4.7", "aims lower if it did not reach its last maximum")
def fast_convergence(lab: Lab) -> None:
    """A second loss below W_max means that a new flow needs room: W_max becomes 0.85 of the window."""
    net = grown_to(lab, 400, **LONG)
    first = reduced(lab, net)
    net.run(1)
    lost = reduced(lab, net)
    if lost.before_pkts > 0.95 * first.before_pkts:
        lab.undecided("the window was back at its maximum after a second")
    follows(lab, net, lost, lost.before_pkts * (1 + BETA) / 2)


def follows(lab: Lab, net: Net, lost: Reduction, w_max_pkts: float) -> None:
    """Compare the window after a reduction with the curve."""
    k_s = math.cbrt((w_max_pkts - BETA * lost.before_pkts) / C_PER_S3)
    net.run(1.3 * k_s)
    rows = net.flow.between(lost.at_s)
    t_s = (rows["t_us"] - rows["t_us"][0]) / 1e6
    # Growth aims at the curve a round trip later.
    wanted = w_max_pkts + C_PER_S3 * (t_s + rows["srtt_us"] / 1e6 - k_s) ** 3
    off = np.abs(rows["cwnd_bytes"] / net.flow.mss_bytes / wanted - 1)
    worst = int(off.argmax())
    what = f"largest distance of the window from the curve, K = {k_s:.2f} s"
    lab.compare(what, float(off[worst]), at_most=0.08, at_s=lost.at_s + float(t_s[worst]))


@case("RFC 9438 section 4.3", "is as fast as Reno where the windows are small")
def reno_friendly(lab: Lab) -> None:
    """On short paths the curve is slower than Reno; growth is then 0.53 segments per round trip."""
    net = in_avoidance(lab, 30, rate_mbit=30, rtt_ms=20)
    grown = growth_per_round(net, 0.7)
    lab.compare("growth per round trip [segments]", grown, at_least=0.8 * ALPHA, at_most=1.25)


@case("RFC 9438 section 4.8", "starts from one segment after a timeout")
def timeout(lab: Lab) -> None:
    """The threshold after a timeout is 0.7 of the window."""
    net = in_avoidance(lab, 80, rate_mbit=50, rtt_ms=40)
    net.run(1)
    before, after = timed_out(lab, net)
    lab.compare("window on the first ACK after a timeout [segments]", after, at_most=2)
    ratio = (slow_start_ended(net) or 0) / before
    lab.compare("window when slow start ends / before", ratio, near=BETA, within=0.15)


@case("RFC 9438 section 4.2", "does not grow while the application limits it")
def limited(lab: Lab) -> None:
    """The time in which the window was not used up does not count for the curve."""
    traffic = OnOff(on_s=4, off_s=4, distribution="fixed", rate_bytes_per_s=1.25e6)
    net = lab.path(rate_mbit=100, rtt_ms=40, traffic=traffic)
    net.run(20)
    rows = net.flow.between(1)
    ratio = float(rows["cwnd_bytes"].max() / rows["bytes_in_flight"].max())
    lab.compare("largest window / largest amount in flight", ratio, at_most=3)
