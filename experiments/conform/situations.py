"""Situations that several suites need: a flow in congestion avoidance, a reduction, a timeout."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from experiments.conform.lab import Lab
from experiments.conform.net import Net
from experiments.netlab.spec import Bernoulli

ROOM_BDP = 50.0
"""A buffer that never overflows in a case."""
_START_ROUNDS = 4
"""Round trips in which a window may stand still at the start: for the handshake, and the first ACKs."""
RECOVERY = 3
"""Smallest `ca_state` in which lost packets are being repaired."""


@dataclasses.dataclass(frozen=True)
class Reduction:
    """One reduction of the window.

    Attributes:
        before_pkts: Window before it.
        after_pkts: Window when the recovery has ended.
        at_s: End of the recovery, time of the run [s].
    """

    before_pkts: float
    after_pkts: float
    at_s: float

    @property
    def ratio(self) -> float:
        """Window after / before."""
        return self.after_pkts / self.before_pkts


def grown_to(lab: Lab, pkts: float, **path: Any) -> Net:
    """Return a path whose flow's window has reached some segments, without a loss."""
    net = lab.path(**{"buffer_bdp": ROOM_BDP} | path)
    if not net.run(60, lambda: net.flow.cwnd_pkts >= pkts, step_s=0.001):
        lab.undecided(f"the window never reached {pkts:g} segments")
    return net


def reduced(lab: Lab, net: Net, *numbers: int) -> Reduction:
    """Lose one of the next packets, or those of these numbers, and return the reduction."""
    net.run(net.rtt_s)
    began_s = net.now_s
    net.drop(*numbers)
    if not net.run(10, lambda: net.flow.last["ca_state"] >= RECOVERY, step_s=0.001):
        lab.undecided("the flow did not notice the loss within 10 s")
    before = net.flow.between(began_s)
    at = int(np.flatnonzero(before["ca_state"] >= RECOVERY)[0])
    before_pkts = float(before["cwnd_bytes"][: max(at, 1)].max()) / net.flow.mss_bytes
    if not net.run(10, lambda: net.flow.last["ca_state"] < 2, step_s=0.001):
        lab.undecided("the recovery did not end within 10 s")
    return Reduction(before_pkts, net.flow.cwnd_pkts, net.now_s)


def in_avoidance(lab: Lab, pkts: float, **path: Any) -> Net:
    """Return a path whose flow is in congestion avoidance, after one reduction from about some segments."""
    net = grown_to(lab, pkts, **path)
    reduced(lab, net)
    return net


def timed_out(lab: Lab, net: Net) -> tuple[float, float]:
    """Lose everything until a timeout; return the window before it and after it [segments]."""
    before_pkts = net.flow.cwnd_pkts
    began_s = net.now_s
    net.change(loss=Bernoulli(ratio=1.0))
    net.run(1.2)
    net.change(loss=None)
    if not net.run(5, lambda: len(net.flow.between(began_s + 1.0)), step_s=0.001):
        lab.undecided("no ACK came within 5 s after the outage")
    return before_pkts, float(net.flow.between(began_s + 1.0)["cwnd_bytes"][0]) / net.flow.mss_bytes


def slow_start_ended(net: Net, seconds: float = 20.0) -> float | None:
    """Let time pass until slow start ends, and return the window then [segments]; None if it does not end.

    It has ended when the window grew by less than 15 % in a round trip. The kernel's `ssthresh` says nothing
    of ccplane's algorithms, which keep their own.
    """
    end_s = net.now_s + seconds
    window_pkts: list[float] = []
    while net.now_s < end_s:
        net.run(max(float(net.flow.last["srtt_us"]) / 1e6 if net.flow.last is not None else 0.0, net.rtt_s))
        window_pkts.append(net.flow.cwnd_pkts)
        grew = len(window_pkts) > 1 and window_pkts[-1] > 1.15 * window_pkts[-2]
        if len(window_pkts) > _START_ROUNDS and not grew:
            return window_pkts[-1]
    return None


def growth_per_round(net: Net, seconds: float) -> float:
    """Let time pass, and return the growth of the window in a round trip [segments]."""
    began_s = net.now_s
    net.run(seconds)
    rows = net.flow.between(began_s)
    grown_pkts = (float(rows["cwnd_bytes"][-1]) - float(rows["cwnd_bytes"][0])) / net.flow.mss_bytes
    rounds = seconds / (float(rows["srtt_us"].mean()) / 1e6)
    return grown_pkts / rounds
