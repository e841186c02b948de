"""The 22 test cases of draft-ietf-ccwg-bbr-06, appendix A: its order, its titles.

`experiments.conform.bbr_view` reads the states: of ccplane's BBR exactly, of the kernel's by what it does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ccp_algs.bbr3 import CRUISE, DOWN, DRAIN, PROBE_BW, PROBE_RTT, REFILL, STARTUP, UP
from experiments.conform import Lab, case
from experiments.conform.bbr_view import OwnView, SeenView, View
from experiments.conform.net import PAYLOAD_SHARE
from experiments.netlab.spec import Bernoulli, TokenBucket
from experiments.runs.check import is_own
from experiments.traffic.spec import Iperf3, OnOff

MSS = 1448
RATE_MBIT = 10.0
RATE = RATE_MBIT * 1e6 / 8
RTT_MS = 40.0
GOODPUT = RATE * PAYLOAD_SHARE
KERNEL_BBR = "kernel/bbr"
INFINITY = 1 << 62
"""Larger than any bound; an unset bound is larger still."""
NO_PROBE_RTT = {"probe_rtt_interval_s": 600}
LIMITED = Iperf3(rate_bytes_per_s=RATE)
"""An application that fills the usual path, and never one of twice its rate."""
BURSTY = str(Path(__file__).parent / "bursts.trace")
"""The usual rate, in bursts of 17 packets every 20 ms."""


class Bbr:
    """A BBR flow on a path, whose states can be awaited."""

    def __init__(self, lab: Lab, buffer_pkts: int = 10_000, rate: float = 1.0, **path: Any) -> None:
        """Begin; `rate` is relative to the usual one."""
        own = OwnView()
        if not is_own(lab.algorithm) and lab.algorithm != KERNEL_BBR:
            lab.undecided("it is no BBR, or none whose state can be read")
        path = {"rate_mbit": rate * RATE_MBIT, "rtt_ms": RTT_MS} | path
        self.lab = lab
        self.net = lab.path(buffer_pkts=buffer_pkts, exact=True, watch=own.watch, **path)
        self.view: View = own if is_own(lab.algorithm) else SeenView(self.net)

    def get(self, name: str) -> Any:
        """Return a quantity of the algorithm; None if it has none."""
        return self.view.get(name)

    @property
    def state(self) -> str:
        """The present state."""
        return self.view.history[-1][1] if self.view.history else ""

    @property
    def names(self) -> list[str]:
        """All states so far."""
        return [state for _, state in self.view.history]

    def run(self, seconds: float, until: Callable[[], object] | None = None) -> bool:
        """Let time pass."""

        def reached() -> object:
            self.view.update()
            return until is not None and until()

        done = self.net.run(seconds, reached)
        if not self.state:
            self.lab.undecided("no state of BBR can be read of this algorithm")
        return until is None or done

    def until(self, what: str, reached: Callable[[], object], seconds: float = 30) -> None:
        """Let time pass until something holds, which must happen."""
        self.lab.need(f"{what} within {seconds:g} s", self.run(seconds, lambda: self.state and reached()))

    def to(self, *states: str) -> None:
        """Let time pass until one of some states."""
        self.until(f"enters {' or '.join(states)}", lambda: self.state in states)

    def leave(self, seconds: float = 30) -> str:
        """Let time pass until the state changes; return the next one."""
        before = self.state
        self.until(f"leaves {before}", lambda: self.state != before, seconds)
        return self.state

    def share(self, seconds: float) -> float:
        """Let time pass, and return which share of the path the flow got."""
        began_s = self.net.now_s
        self.run(seconds)
        return self.net.flow.goodput_mbit(began_s, self.net.now_s) / self.net.payload_mbit

    def known(self, name: str) -> float:
        """Return a quantity, or NaN, with which no comparison holds."""
        value = self.get(name)
        return float("nan") if value is None else float(value)

    @property
    def filled(self) -> float:
        """Data in flight, relative to what fills the pipe."""
        return self.known("in_flight_bytes") / max(self.known("bdp_bytes"), self.known("budget_bytes"))


def quantity(bbr: Bbr, name: str) -> float | None:
    """Return a quantity for a comparison."""
    value = bbr.get(name)
    return None if value is None else float(value)


def limited_past_startup(lab: Lab) -> Bbr:
    """Return a flow whose STARTUP losses ended, and whose application limits it.

    Its bursts are shorter than the RTT, so that every sample is limited.
    """
    bbr = Bbr(lab, rate=2, rtt_ms=400, traffic=LIMITED, params=NO_PROBE_RTT)
    bbr.run(4)
    bbr.net.change(loss=Bernoulli(ratio=0.3))
    bbr.leave()
    bbr.net.change(loss=None)
    return bbr


def bound_in(bbr: Bbr, *states: str) -> None:
    """Let time pass until the long-term bound is set, in one of some states."""
    bbr.run(1)
    bbr.lab.need("bounds the data in flight", bbr.get("inflight_long_bytes") is not None)
    bbr.until(
        f"sets that bound, and is in {' or '.join(states)}",
        lambda: bbr.get("inflight_long_bytes") < INFINITY and bbr.state in states,
    )


@case("BBR draft A.1, section 5.3.1.2", "exiting STARTUP on bandwidth plateau")
def startup_plateau(lab: Lab) -> None:
    """Three rounds without 25 % more bandwidth mean that the pipe is full."""
    bbr = Bbr(lab)
    bbr.to(DRAIN)
    lab.compare("estimated / real bandwidth", bbr.known("max_bw_bytes_per_s") / GOODPUT, near=1, within=0.05)
    lab.check("states are startup, drain", bbr.names == [STARTUP, DRAIN])
    if bbr.get("pipe.rounds") is not None:
        lab.compare("rounds of the plateau", quantity(bbr, "pipe.rounds"), near=3)
        lab.check("the pipe is full", bbr.get("pipe.is_full") and bbr.get("pipe.now"))


@case("BBR draft A.2, section 5.3.1.3", "exiting STARTUP on loss when application-limited")
def startup_loss_limited(lab: Lab) -> None:
    """Bandwidth samples of a limited application show no plateau; loss must end STARTUP."""
    bbr = Bbr(lab, rate=2, traffic=LIMITED, params=NO_PROBE_RTT)
    bbr.run(2)
    lab.need("is in startup after 2 s", bbr.names == [STARTUP])
    if bbr.get("is_limited") is not None:
        lab.check("the flow is limited by its application", bbr.get("is_limited"))
    bbr.net.change(loss=Bernoulli(ratio=0.3))
    bbr.leave(5)  # through DRAIN: an application that limits the flow leaves no queue
    lab.compare(
        "lost / in flight", bbr.known("lost_since_pkts") / bbr.known("tx_in_flight_pkts"), at_least=0.02
    )
    lab.check("an undo would lead back to startup", bbr.get("undo.state") == STARTUP)
    lab.check("the pipe is full", bbr.get("pipe.is_full") and bbr.get("pipe.now"))
    lab.compare("rounds of a plateau", quantity(bbr, "pipe.rounds"), at_most=2)
    lab.compare("long-term bound [bytes]", quantity(bbr, "inflight_long_bytes"), at_most=INFINITY - 1)


@case("BBR draft A.3, section 5.3.2", "exiting DRAIN based on inflight")
def drain_inflight(lab: Lab) -> None:
    """DRAIN ends when the queue of STARTUP is gone."""
    bbr = Bbr(lab)
    bbr.to(DRAIN)
    lab.compare("pacing gain x 0.99, in thousandths", quantity(bbr, "pacing_permille"), near=495, within=0.01)
    rounds = bbr.known("round_count")
    lab.check("goes to probe_bw", bbr.leave() in PROBE_BW)
    lab.compare("in flight / what fills the pipe", bbr.filled, at_most=1)
    lab.compare("rounds in drain", bbr.known("round_count") - rounds, at_most=3)


@case("BBR draft A.4, section 5.3.2", "exiting DRAIN based on time")
def drain_time(lab: Lab) -> None:
    """If the path becomes slower, the queue stays; DRAIN ends after three rounds all the same."""
    bbr = Bbr(lab)
    bbr.to(DRAIN)
    bbr.net.change(rate_bytes_per_s=RATE / 2)  # with a tenth less, 3 rounds suffice
    rounds = (
        bbr.known("round_count") if bbr.get("drain_start_round") is None else bbr.known("drain_start_round")
    )
    lab.check("goes to probe_bw", bbr.leave() in PROBE_BW)
    lab.compare("in flight / what fills the pipe", bbr.filled, at_least=1)
    lab.compare("rounds in drain", bbr.known("round_count") - rounds, near=4)


@case("BBR draft A.5, section 5.3.3.6", "exiting PROBE_UP on bandwidth plateau")
def up_plateau(lab: Lab) -> None:
    """Without losses, a probe ends when it finds no more bandwidth in three rounds."""
    bbr = Bbr(lab, params=NO_PROBE_RTT)
    bbr.to(UP)
    lab.check("goes to down", bbr.leave() == DOWN)
    lab.check("the probe ended because of a plateau", bbr.get("pipe.now"))
    lab.compare("rounds of the plateau", quantity(bbr, "pipe.rounds"), near=3)
    lab.compare("packets dropped", bbr.net.counters()["dropped_queue_pkts"], at_most=0)


@case("BBR draft A.6, section 5.3.3.6", "exiting PROBE_UP on loss when application-limited")
def up_loss_limited(lab: Lab) -> None:
    """A probe that loses ends, but a limited flow's loss says nothing about the path's room."""
    bbr = Bbr(lab, traffic=LIMITED, params=NO_PROBE_RTT)
    bbr.to(REFILL)
    bbr.net.change(rate_bytes_per_s=2 * RATE)
    bbr.to(UP)
    bbr.run(0.3)
    lab.need("is in up after 0.3 s", bbr.state == UP)
    bbr.net.change(loss=Bernoulli(ratio=0.1))
    lab.check("goes to down", bbr.leave() == DOWN)
    lab.check(
        "the flow is limited, and its probe went too high", bbr.get("is_limited") and bbr.get("too_high")
    )
    lab.check("it keeps that in mind", bbr.get("was_too_high"))
    lab.compare("long-term bound [bytes]", quantity(bbr, "inflight_long_bytes"), at_least=INFINITY)


@case(
    "BBR draft A.7, sections 5.3.1 and 5.3.3.6",
    "never exiting PROBE_UP or STARTUP when application-limited with no loss",
)
def limited_without_loss(lab: Lab) -> None:
    """Nothing was learned of the path, so the search for bandwidth is not over."""
    in_startup = Bbr(lab, rate=2, traffic=LIMITED, params=NO_PROBE_RTT)
    stays(in_startup, STARTUP)
    stays(limited_past_startup(lab), UP)


def stays(bbr: Bbr, state: str) -> None:
    """Require that a flow stays in a state for 10 s."""
    bbr.until(f"is in {state}", lambda: bbr.state == state and not bbr.get("was_too_high"))
    bbr.run(10)
    bbr.lab.check(f"is still in {state} after 10 s", bbr.names[-1] == bbr.state == state)


@case("BBR draft A.8, section 5.3.3.6", "exiting PROBE_DOWN on inflight")
def down_inflight(lab: Lab) -> None:
    """DOWN ends when the queue of the probe is gone, and room for others is left."""
    bbr = Bbr(lab, 15, params=NO_PROBE_RTT)
    bound_in(bbr, UP)
    bbr.to(DOWN)
    lab.compare("pacing gain x 0.99, in thousandths", quantity(bbr, "pacing_permille"), near=891, within=0.01)
    lab.check("goes to cruise", bbr.leave() == CRUISE)
    lab.compare("in flight / what fills the pipe", bbr.filled, at_most=1)
    lab.compare(
        "in flight / long-term bound", bbr.known("in_flight_bytes") / bbr.known("long_bytes"), at_most=0.85
    )


@case("BBR draft A.9, section 5.3.3.8", "exiting PROBE_DOWN after maximum time")
def down_time(lab: Lab) -> None:
    """If the queue does not drain, the next probe begins in time all the same."""
    bbr = Bbr(lab, rtt_ms=200, params=NO_PROBE_RTT)  # so that Reno would need more than 3 s
    bbr.to(UP)
    bbr.to(DOWN)
    bbr.net.change(rate_bytes_per_s=RATE / 2)
    began_s = bbr.net.now_s
    lab.check("goes to refill, not through cruise", bbr.leave() == REFILL)
    late_s = bbr.net.now_s - began_s - bbr.known("probe_wait_us") / 1e6
    lab.compare("time in down beyond the wait that was drawn [s]", late_s, at_least=-0.5, at_most=0.5)


@case("BBR draft A.10, section 5.3.4", "entering and exiting PROBE_RTT")
def probe_rtt(lab: Lab) -> None:
    """Every 5 s, half of the BDP for 200 ms shows the RTT without a queue of its own."""
    bbr = Bbr(lab)
    bbr.to(*PROBE_BW)
    bbr.to(PROBE_RTT)
    lab.compare("time of the first probe_rtt [s]", bbr.net.now_s, near=5, within=0.02)
    lab.compare("window gain, in thousandths", quantity(bbr, "cwnd_permille"), near=500)
    began_s = bbr.net.now_s
    lab.check("goes to probe_bw", bbr.leave() in PROBE_BW)
    lab.compare("duration [s]", bbr.net.now_s - began_s, at_least=0.2, at_most=0.2 + 3 * RTT_MS / 1e3)
    lab.compare("share of the path in the next second", bbr.share(1), at_least=0.9)


@case("BBR draft A.11, section 5.3.4", "skipping PROBE_RTT due to application-limited sending")
def probe_rtt_skipped(lab: Lab) -> None:
    """Silence of the application has drained the queue already."""
    bbr = Bbr(lab, traffic=OnOff(on_s=3, off_s=6, distribution="fixed"))
    bbr.run(11)
    lab.check("is in probe_bw after 11 s", bbr.state in PROBE_BW)
    lab.check("was never in probe_rtt", PROBE_RTT not in bbr.names)


@case("BBR draft A.12, section 5.5.9", "achieving expected STARTUP bandwidth on a link with aggregation")
def startup_aggregation(lab: Lab) -> None:
    """ACKs that arrive in bursts need a larger window."""
    bbr = Bbr(lab, trace=BURSTY)
    bbr.to(DRAIN)
    bandwidth = bbr.known("max_bw_bytes_per_s") / GOODPUT
    lab.compare(
        "estimated / real bandwidth; a sample of whole bursts is larger", bandwidth, at_least=1, at_most=1.5
    )
    lab.compare("extra acknowledged [bytes]", quantity(bbr, "extra_acked_bytes"), at_least=8 * MSS)
    window = bbr.net.flow.cwnd_pkts * MSS / bbr.known("bdp_bytes")
    lab.compare("window / BDP", window, at_least=2)


@case("BBR draft A.13, section 5.5.9", "achieving expected CRUISE bandwidth on a link with aggregation")
def cruise_aggregation(lab: Lab) -> None:
    """The window includes what ACKs in bursts need."""
    bbr = Bbr(lab, trace=BURSTY, params=NO_PROBE_RTT)
    bbr.to(CRUISE)
    bbr.run(1)
    extra, bdp = bbr.known("extra_acked_bytes"), bbr.known("bdp_bytes")
    bbr.run(0.1)
    lab.compare("extra acknowledged [bytes]", extra, at_least=8 * MSS, at_most=40 * MSS)
    window = bbr.net.flow.cwnd_pkts * MSS / (2 * bdp + extra)
    lab.compare("window / (2 BDP + extra acknowledged)", window, near=1, within=0.1)
    began_s = bbr.net.now_s
    bbr.run(3)
    share = bbr.net.flow.goodput_mbit(began_s, bbr.net.now_s) * 1e6 / 8 / GOODPUT
    lab.compare("share of the path in the next 3 s", share, at_least=0.95)


@case("BBR draft A.14, section 5.6.4.2", "correctly managing sub-packet BDPs")
def tiny_bdp(lab: Lab) -> None:
    """Four packets keep a path busy whose BDP is smaller than a packet.

    A packet takes 120 or 12 ms. The ACKs of the first are delayed by 40 ms, which shortens the sample.
    """
    for rate_mbit, rtt_ms, too_much in ((0.1, 10.0, 0.7), (1.0, 8.0, 0.1)):
        bbr = Bbr(lab, rate_mbit=rate_mbit, rtt_ms=rtt_ms, params=NO_PROBE_RTT)
        bbr.to(*PROBE_BW)
        bbr.run(10)
        window = float(bbr.net.flow.between(bbr.net.now_s - 8)["cwnd_bytes"].min()) / MSS
        lab.compare("smallest window [segments]", window, at_least=4)
        lab.compare("share of the path", bbr.share(10), at_least=0.97)
        bandwidth = bbr.known("max_bw_bytes_per_s") / (rate_mbit * 1e6 / 8 * PAYLOAD_SHARE)
        lab.compare("estimated / real bandwidth", bandwidth, at_least=0.9, at_most=1 + too_much)


@case("BBR draft A.15, section 5.3.3.6", "increasing bandwidth 10x and ensuring full bandwidth is reached")
def ten_times_faster(lab: Lab) -> None:
    """Probes grow exponentially: tenfold bandwidth is found within seconds."""
    bbr = Bbr(lab, 15, params=NO_PROBE_RTT)
    if isinstance(bbr.view, OwnView):
        bound_in(bbr, *PROBE_BW)
    else:
        bbr.to(*PROBE_BW)
    bbr.net.change(rate_bytes_per_s=10 * RATE, buffer={"packets": 150})
    bbr.run(12)
    lab.compare("share of the path after 12 s", bbr.share(2), at_least=0.9)
    if isinstance(bbr.view, OwnView):
        bounds = [report["long_bytes"] for state, report in bbr.view.reports if state == UP]
        steps = [after - before for before, after in itertools.pairwise(bounds) if after > before]
        lab.compare("largest step of the bound [bytes]", max(steps, default=0), at_least=8 * MSS)
        lab.compare("smallest step of the bound [bytes]", min(steps, default=INFINITY), at_most=8 * MSS)


@case("BBR draft A.16, section 5.5.10", "decreasing bandwidth 10x and ensuring maximum bandwidth adapts down")
def ten_times_slower(lab: Lab) -> None:
    """Losses lower the bandwidth immediately, and two cycles forget the old maximum."""
    bbr = Bbr(lab, 30, params=NO_PROBE_RTT)
    bbr.to(CRUISE)
    bbr.net.change(rate_bytes_per_s=RATE / 10)
    short = "short.bw_bytes_per_s"
    lab.need("has a short-term bound of the bandwidth", bbr.get(short) is not None)
    bbr.until("halves that bound", lambda: bbr.get(short) < 0.5 * GOODPUT, seconds=3)
    cycle = bbr.get("cycle")
    bbr.until("passes two cycles", lambda: bbr.get("cycle") >= cycle + 2)
    bbr.run(2)
    lab.compare(
        "estimated / real bandwidth", bbr.known("max_bw_bytes_per_s") / GOODPUT * 10, near=1, within=0.1
    )


@case("BBR draft A.17, section 5.5.10", "handling token-bucket policers")
def policer(lab: Lab) -> None:
    """A policer lets a burst pass and then drops: the bounds must find its rate."""
    bucket = TokenBucket(rate_bytes_per_s=RATE, bucket_bytes=60_000)
    bbr = Bbr(lab, rate=10, token_bucket=bucket, params=NO_PROBE_RTT)
    bbr.to(*PROBE_BW)
    if isinstance(bbr.view, OwnView):
        bbr.until("sets short-term bounds", lambda: bbr.get("short.bw_bytes_per_s") < INFINITY)
        lab.compare("short-term bound [bytes]", quantity(bbr, "short.inflight_bytes"), at_most=INFINITY - 1)
    bbr.run(10)
    began_s = bbr.net.now_s
    bbr.run(10)
    goodput = bbr.net.flow.goodput_mbit(began_s, bbr.net.now_s) * 1e6 / 8 / GOODPUT
    lab.compare("goodput / rate of the policer", goodput, near=1, within=0.1)
    lost = bbr.net.flow.grown("lost_pkts", began_s) * MSS / (10 * RATE)
    lab.compare("lost / rate of the policer", lost, at_most=0.05)


@case("BBR draft A.18, section 5.5.11", "handling spurious fast recovery")
def spurious_recovery(lab: Lab) -> None:
    """A recovery that reordering caused must be taken back."""
    bbr = Bbr(lab, params=NO_PROBE_RTT)
    bbr.to(UP)
    # The packets of 5 ms are half an RTT late. RACK tolerates a quarter: they count as lost, and then arrive.
    bbr.net.change(reorder={"ratio": 1.0, "late_us": round(RTT_MS * 500)})
    taken_back(bbr, 0.005)
    lab.compare("packets overtaken", bbr.net.counters()["late_pkts"], at_least=3)
    lab.compare("packets dropped", bbr.net.counters()["dropped_queue_pkts"], at_most=0)


def taken_back(bbr: Bbr, seconds: float) -> None:
    """Restore the path after a time, and require that the reaction to its losses was taken back."""
    lab, net = bbr.lab, bbr.net
    began = len(bbr.view.reports) if isinstance(bbr.view, OwnView) else 0
    before = net.flow.cwnd_pkts
    bbr.run(seconds)
    net.change(reorder=None, delay_us=round(RTT_MS * 500))
    bbr.run(1)
    if not isinstance(bbr.view, OwnView):
        lab.compare("window 1 s later / before", net.flow.cwnd_pkts / before, at_least=0.9)
        return
    states = [state for state, report in bbr.view.reports[began:] if report["too_high"] or report["undone"]]
    lab.check("goes to down at the losses, and to refill at the undo", states == [DOWN, REFILL])
    lab.compare("short-term bound [bytes/s]", quantity(bbr, "short.bw_bytes_per_s"), at_least=INFINITY)
    lab.compare("long-term bound [bytes]", quantity(bbr, "inflight_long_bytes"), at_least=INFINITY)


@case("BBR draft A.19, section 5.5.11", "handling spurious RTO recovery")
def spurious_rto(lab: Lab) -> None:
    """A timeout that a late ACK disproves must be taken back."""
    bbr = Bbr(lab, params=NO_PROBE_RTT)
    bbr.to(UP)
    bbr.net.change(delay_us=600_000)
    taken_back(bbr, 0.1)


@case("BBR draft A.20, section 5.3.4", "entering and exiting PROBE_RTT during STARTUP")
def probe_rtt_in_startup(lab: Lab) -> None:
    """A flow that never left STARTUP returns to it."""
    bbr = Bbr(lab, rate=2, traffic=LIMITED, params={"probe_rtt_interval_s": 1})
    bbr.to(PROBE_RTT)
    lab.check("was only in startup before", bbr.names == [STARTUP, PROBE_RTT])
    lab.check("goes back to startup", bbr.leave() == STARTUP)


@case(
    "BBR draft A.21, section 5.5.10",
    "handling loss during PROBE_UP after inflight_longterm is set",
)
def up_loss_bound(lab: Lab) -> None:
    """A probe that loses lowers the long-term bound, by a bounded amount."""
    bbr = Bbr(lab, 15, params=NO_PROBE_RTT)
    bound_in(bbr, REFILL)
    bbr.to(UP)
    bound = bbr.known("inflight_long_bytes")
    bbr.net.change(loss=Bernoulli(ratio=0.2))
    lab.check("goes to down", bbr.leave() == DOWN)
    lab.check("keeps in mind that the probe went too high", bbr.get("was_too_high"))
    ratio = bbr.known("inflight_long_bytes") / bound
    lab.compare("long-term bound after / before", ratio, at_least=0.6, at_most=0.999)


@case("BBR draft A.22, section 5.3.3.5", "handling application-limited sending during PROBE_REFILL")
def refill_limited(lab: Lab) -> None:
    """Limited samples must not lower the maximum bandwidth."""
    bbr = limited_past_startup(lab)
    bbr.to(REFILL)
    rate = bbr.known("max_bw_bytes_per_s")
    lab.check("goes to up", bbr.leave() == UP)
    lab.check("the flow is limited by its application", bbr.get("is_limited"))
    lab.compare("bandwidth of the round / maximum", bbr.known("round_bw_bytes_per_s") / rate, at_most=0.999)
    lab.compare("maximum after / before", bbr.known("max_bw_bytes_per_s") / rate, near=1)
