"""DCTCP by section: RFC 8257."""

from __future__ import annotations

from experiments.conform import Lab, case
from experiments.conform.net import Net
from experiments.conform.situations import ROOM_BDP, in_avoidance, reduced
from experiments.netlab.spec import DropTail


def calm(lab: Lab) -> Net:
    """Return a flow in congestion avoidance without marks for 100 round trips, so that alpha is 0."""
    net = in_avoidance(lab, 60, rate_mbit=100, rtt_ms=10, ecn=True)
    net.run(1.5)
    return net


def marking(net: Net, seconds: float) -> None:
    """Mark every packet for some time."""
    net.change(queue=DropTail(ce_threshold_us=0, ce_threshold_bytes=1))
    net.run(seconds)
    net.change(queue=DropTail())


@case("RFC 8257 section 3.3", "reduces little after few marks")
def proportional_reduction(lab: Lab) -> None:
    """Three marked windows after a long calm make alpha 0.18: reductions of 0, 3 and 6 %."""
    net = calm(lab)
    before = net.flow.cwnd_pkts
    began_s = net.now_s
    marking(net, 3 * net.rtt_s)
    net.run(1.5 * net.rtt_s)
    if not net.flow.grown("delivered_ce", began_s):
        lab.undecided("no mark reached the flow")
    rows = net.flow.between(began_s)
    ratio = float(rows["cwnd_bytes"].min()) / net.flow.mss_bytes / before
    lab.compare("smallest window after three marked round trips / before", ratio, at_least=0.8, at_most=0.999)


@case("RFC 8257 section 3.3", "reduces much after persistent marks")
def persistent_marks(lab: Lab) -> None:
    """If all packets are marked, alpha becomes 1: the window is halved in each round trip."""
    net = calm(lab)
    marking(net, 1.5)
    lab.compare("window after 1.5 s of marks [segments]", net.flow.cwnd_pkts, at_most=6)


@case("RFC 8257 section 3.5", "halves its window after a loss")
def loss_halves(lab: Lab) -> None:
    """A loss is answered as by Reno, whatever the marks say."""
    net = calm(lab)
    lab.compare("window after a loss / before", reduced(lab, net).ratio, near=0.5, within=0.1)


@case("RFC 8257 section 4.1", "keeps queues short and links busy")
def short_queues(lab: Lab) -> None:
    """Marks above a threshold of 65 packets hold the queue there, without idle time."""
    queue = DropTail(ce_threshold_bytes=65 * 1500)
    net = lab.path(rate_mbit=100, rtt_ms=5, buffer_bdp=ROOM_BDP, ecn=True, queue=queue)
    net.run(10)
    lab.compare(
        "goodput / capacity", net.flow.goodput_mbit(2, 10) / net.payload_mbit, at_least=0.95, since_s=2
    )
    queue_pkts = (net.flow.mean_rtt_ms(2, 10) / 1e3 - net.rtt_s) * net.rate_mbit * 1e6 / 8 / 1500
    lab.compare("mean queue [packets], from 2 to 10 s", queue_pkts, at_most=100, since_s=2)
