"""Behaviour that every congestion control must have, whatever its principle.

The documents give rules; RFC 9743 gives criteria without thresholds. The thresholds here are therefore
ccplane's: generous, so that Reno and CUBIC hold them on all paths, and a defect is far outside.
"""

from __future__ import annotations

import numpy as np

from experiments.conform import Lab, case
from experiments.conform.net import Net
from experiments.netlab.spec import Bernoulli, DropTail
from experiments.traffic.spec import Http, Iperf3, OnOff

INITIAL_PKTS = 10
"""Initial window (RFC 6928)."""
HANDSHAKE_PKTS = 2
"""SYN, and the ACK of the answer."""
BURST_PKTS = 2 * INITIAL_PKTS
"""What may leave within a millisecond: the initial window, and as much for ACKs that arrive together."""


def settled(lab: Lab, seconds: float = 15.0, **path: object) -> Net:
    """Return a path after some time of a bulk transfer."""
    net = lab.path(**path)  # type: ignore[arg-type]
    net.run(seconds)
    return net


@case("RFC 6928 section 2")
def starts_with_at_most_ten_segments(lab: Lab) -> None:
    """A connection knows nothing of its path at its start; ten segments are what the Internet agreed on."""
    net = lab.path(rate_mbit=100, rtt_ms=100, traffic=Http(objects=(10_000_000,)))
    net.run(1.9 * net.rtt_s)
    sent_pkts = net.counters()["arrived_pkts"] - HANDSHAKE_PKTS
    lab.compare("segments sent in the first round trip", sent_pkts, at_least=1, at_most=INITIAL_PKTS)


@case("RFC 9743 section 5.1")
def fills_an_empty_path(lab: Lab) -> None:
    """A path that is the flow's alone, with a buffer of one BDP, must be used."""
    net = settled(lab)
    share = net.flow.goodput_mbit(5, 15) / net.payload_mbit
    lab.compare("goodput / capacity, from 5 to 15 s", share, at_least=0.7, since_s=5)


@case("RFC 5681 section 3.1")
def leaves_slow_start(lab: Lab) -> None:
    """Exponential growth must end at the first congestion; otherwise each round trip overflows the buffer."""
    net = settled(lab, 20)
    lab.compare("retransmitted share, from 5 to 20 s", net.flow.retransmitted(5, 20), at_most=0.03, since_s=5)


@case("RFC 9743 section 5.1.3")
def keeps_losses_low_in_a_shallow_buffer(lab: Lab) -> None:
    """With a buffer of a tenth of the BDP, losses are the only sign of a full path: they must be heeded."""
    net = settled(lab, 20, rate_mbit=40, rtt_ms=50, buffer_bdp=0.1)
    lab.compare("retransmitted share, from 5 to 20 s", net.flow.retransmitted(5, 20), at_most=0.05, since_s=5)


@case("RFC 9743 section 5.1.3")
def keeps_losses_low_among_several(lab: Lab) -> None:
    """Five flows share half a BDP of buffer: this is where BBRv1 keeps a queue overflowing."""
    net = lab.path(rate_mbit=40, rtt_ms=40, buffer_bdp=0.5, flows=5)
    net.run(20)
    sent = sum(one.grown("bytes_sent", 5, 20) for one in net.flows)
    again = sum(one.grown("bytes_retrans", 5, 20) for one in net.flows)
    lab.compare(
        "retransmitted share of all flows, from 5 to 20 s", again / max(sent, 1), at_most=0.05, since_s=5
    )


@case("RFC 9743 section 5.1.3")
def slows_down_under_heavy_loss(lab: Lab) -> None:
    """If every fifth packet is lost, the path may be overloaded by others: the flow must slow down."""
    net = lab.path(rate_mbit=20, rtt_ms=40)
    net.run(5)
    net.change(loss=Bernoulli(ratio=0.2))
    net.run(15)
    rate = net.flow.grown("bytes_sent", 10, 20) * 8e-6 / 10 / net.payload_mbit
    lab.compare("rate of sending / capacity, 5 to 15 s after the loss began", rate, at_most=0.5, since_s=10)


@case("RFC 2914 section 5, RFC 8085 section 3.1")
def stays_slower_after_a_loss(lab: Lab) -> None:
    """If a reduction is undone within a few round trips, the next loss follows immediately."""
    net = settled(lab, 40, rate_mbit=40, rtt_ms=40)
    kept = kept_shares(net)
    if not kept:
        lab.undecided("the path lost no packet that the flow recovered from")
    what = "window 5 round trips after a recovery / before it, median"
    lab.compare(what, float(np.median(kept)), at_most=0.8)


def kept_shares(net: Net, round_trips: float = 5.0) -> list[float]:
    """Return the window some round trips after each recovery, relative to the window before it."""
    rows = net.flow.between(1.0)
    t_us, cwnd = rows["t_us"].astype(float), rows["cwnd_bytes"].astype(float)
    recovering = rows["ca_state"] >= 2
    begins = np.flatnonzero(~recovering[:-1] & recovering[1:])
    ends = np.flatnonzero(recovering[:-1] & ~recovering[1:]) + 1
    found = []
    for begin in begins:
        later = ends[ends > begin]
        if not len(later):
            break
        end = later[0]
        at = np.searchsorted(t_us, t_us[end] + round_trips * rows["srtt_us"][end])
        if at < len(cwnd) and not recovering[end:at].any():
            found.append(float(cwnd[at] / cwnd[begin]))
    return found


@case("RFC 5681 section 4.1, RFC 9002 section 7.7")
def sends_no_burst_after_idle(lab: Lab) -> None:
    """After an idle period the window is old knowledge: sent in one burst, it overflows a queue."""
    net = after_idle(lab)
    began_s = net.now_s
    arrivals = net.arrivals_pkts(0.2)
    at_s = began_s + 0.001 * int(arrivals.argmax())
    what = "most packets within a millisecond after 3 s of silence"
    lab.compare(what, int(arrivals.max()), at_most=BURST_PKTS, at_s=at_s)


@case("RFC 5681 section 4.1")
def grows_again_after_idle(lab: Lab) -> None:
    """The window that an idle period shrank must grow as at the start of a connection."""
    net = after_idle(lab)
    began_s = net.now_s
    net.run(5)
    share = net.flow.goodput_mbit(began_s + 2, began_s + 5) / net.payload_mbit
    lab.compare("goodput / capacity, 2 to 5 s after the silence", share, at_least=0.6, since_s=began_s + 2)


def after_idle(lab: Lab) -> Net:
    """Return a path whose flow sent for 5 s, was silent for 3 s, and is about to send again."""
    traffic = OnOff(on_s=5, off_s=3, distribution="fixed")
    net = lab.path(rate_mbit=50, rtt_ms=40, traffic=traffic)
    net.run(7)
    sent_pkts = net.counters()["arrived_pkts"]
    if not net.run(2, lambda: net.counters()["arrived_pkts"] > sent_pkts, step_s=0.001):
        lab.undecided("the flow sent nothing after its silence")
    return net


@case("RFC 7661 section 4, RFC 9438 section 4.2")
def does_not_grow_while_the_application_limits_it(lab: Lab) -> None:
    """A window that is not used says nothing about the path; if it grows, a burst may follow."""
    net = lab.path(rate_mbit=100, rtt_ms=40, traffic=Iperf3(rate_bytes_per_s=1.25e6))
    net.run(20)
    rows = net.flow.between(5)
    used = max(float(rows["bytes_in_flight"].max()), INITIAL_PKTS * net.flow.mss_bytes)
    lab.compare("window / largest amount in flight", float(rows["cwnd_bytes"][-1]) / used, at_most=4)


@case("RFC 3168 section 6.1.2", "reacts to ECN")
def reacts_to_ecn(lab: Lab) -> None:
    """A flow that agreed on ECN must treat a mark as a loss; this path marks, and loses nothing."""
    net = lab.path(rate_mbit=20, rtt_ms=40, buffer_bdp=20, ecn=True, queue=DropTail(ce_threshold_us=5_000))
    net.run(20)
    if not net.counters()["marked_pkts"]:
        lab.undecided("no packet was marked")
    queue_ms = net.flow.mean_rtt_ms(10, 20) - 1e3 * net.rtt_s
    lab.compare(
        "mean queue above the marking threshold of 5 ms [ms], from 10 to 20 s",
        queue_ms,
        at_most=20 + 1e3 * net.rtt_s,
        since_s=10,
    )


@case("RFC 9002 section 7.7")
def sends_without_bursts(lab: Lab) -> None:
    """Packets that leave together arrive together: a burst needs a buffer of its size."""
    net = lab.path(rate_mbit=50, rtt_ms=40)
    net.run(3)
    arrivals = net.arrivals_pkts(12)
    share = arrivals[arrivals > BURST_PKTS].sum() / max(arrivals.sum(), 1)
    lab.compare(
        f"share of packets in bursts of more than {BURST_PKTS} within a millisecond",
        share,
        at_most=0.005,
        since_s=3,
        at_s=15,
    )


@case("RFC 9002 section 7.7")
def paces_at_a_rate_that_fits_the_path(lab: Lab) -> None:
    """A pacing rate far above what arrives paces nothing; one below it starves the flow."""
    net = settled(lab)
    rows = net.flow.between(5)
    rates = rows["pacing_rate_bytes_per_s"].astype(float)
    rates = rates[(rates > 0) & (rates < 1 << 60)]
    if not len(rates):
        lab.undecided("the algorithm sets no pacing rate")
    capacity = net.payload_mbit * 1e6 / 8
    lab.compare(
        "median pacing rate / capacity, from 5 to 15 s",
        float(np.median(rates)) / capacity,
        at_least=0.5,
        at_most=2.5,
        since_s=5,
    )


@case("RFC 9743 section 7.8.1")
def continues_after_an_outage(lab: Lab) -> None:
    """Two seconds without a path are answered by timeouts; afterwards the flow must find its rate again."""
    net = lab.path()
    net.run(5)
    net.change(loss=Bernoulli(ratio=1.0))
    net.run(2)
    net.change(loss=None)
    net.run(10)
    share = net.flow.goodput_mbit(12, 17) / net.payload_mbit
    lab.compare("goodput / capacity, 5 to 10 s after the outage", share, at_least=0.6, since_s=12)


@case("RFC 9743 section 7.8.1")
def adapts_to_a_path_that_becomes_slower(lab: Lab) -> None:
    """A fifth of the rate is left: the old rate must not last."""
    net = lab.path(rate_mbit=50, rtt_ms=40)
    net.run(10)
    net.change(rate_bytes_per_s=net.rate_mbit * 1e6 / 8 / 5)
    net.run(20)
    lab.compare(
        "retransmitted share, 5 to 20 s after the change",
        net.flow.retransmitted(15, 30),
        at_most=0.05,
        since_s=15,
    )
    share = net.flow.goodput_mbit(15, 30) / net.payload_mbit
    lab.compare("goodput / capacity, 5 to 20 s after the change", share, at_least=0.6, since_s=15)


@case("RFC 9743 section 5.1.4")
def shares_with_itself(lab: Lab) -> None:
    """Two flows of the algorithm start together: neither may starve."""
    net = lab.path(rate_mbit=20, rtt_ms=40, flows=2)
    net.run(40)
    goodputs = [one.goodput_mbit(10, 40) for one in net.flows]
    lab.compare(
        "smaller / larger goodput of two flows, from 10 to 40 s",
        min(goodputs) / max(goodputs),
        at_least=0.2,
        since_s=10,
    )


@case("RFC 9743 section 5.2.1", "leaves Reno a share")
def leaves_reno_a_share(lab: Lab) -> None:
    """Next to the algorithm, on a path with a buffer of one BDP, Reno must not starve."""
    net = lab.path(rate_mbit=20, rtt_ms=40, against=["kernel/reno"])
    net.run(60)
    share = net.flows[1].goodput_mbit(15, 60) / net.payload_mbit
    lab.compare("Reno's goodput / capacity, from 15 to 60 s", share, at_least=0.1, since_s=15)
