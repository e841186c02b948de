"""DCTCP: the window shrinks in proportion to the fraction of its bytes that ECN marked.

    alpha <- alpha (1 - g) + g M     once per window; M = marked fraction of the acknowledged bytes
    cwnd  <- cwnd (1 - alpha / 2)    on an ECN echo, once per window
    loss, growth, slow start         as Reno

The whole algorithm is in its fold program, because round trips in data centres are shorter than the delay to
Python and back. Exact marks arrive only if the receiver returns each of them: if it runs a DCTCP receiver
(the kernel's `dctcp` or ccplane's), or if both ends negotiated AccECN (RFC 9768). Sockets of this algorithm
ask for ECN when the connection is set up (`needs_ecn`); without ECN it behaves like Reno.

Source: RFC 8257 sections 3.3 to 3.5 and 4.2.

Parameters: `g` (1/16, section 4.2), `beta` (0.5, reaction to loss, section 3.5).

Deviations: those of `episodes.py` and `slow_start.py`. The window does not grow during the window of data
after an ECN reduction, as in Linux, where the flow is then in the state CWR; the RFC does not specify this.
alpha is an integer in millionths.
"""

from __future__ import annotations

from ccp_algs.avoidance import additive_increase, credit
from ccp_algs.configured import Configured
from ccp_algs.episodes import REDUCING, loss_episodes, regular_reports, reports
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Cwnd,
    Flow,
    FoldProgram,
    control,
    field,
    let,
    max_,
    min_,
    on,
    state,
    total,
)
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.slow_start import slow_start

MILLION = 1_000_000


class DctcpFold(FoldProgram):
    """The algorithm."""

    acked = total(Ack.bytes_acked)
    marked = total(Ack.ecn_bytes)
    alpha_ppm = field(MILLION, volatile=False)
    ecn_cuts = field()
    g_inverse = control(16)
    credit = credit()
    loss = loss_episodes(500, ecn_is_loss=False, also=credit.restart)

    # The observation window: RFC 8257 section 3.3, steps 1 to 8.
    window_acked_bytes = state()
    window_marked_bytes = state()
    window_end_bytes = state()
    count_acked = window_acked_bytes.add(Ack.bytes_acked)
    count_marked = window_marked_bytes.add(Ack.ecn_bytes)
    fraction_ppm = let(min_(window_marked_bytes, window_acked_bytes) * MILLION // window_acked_bytes)
    observe = on(
        Flow.delivered_bytes > window_end_bytes,
        fraction_ppm,
        alpha_ppm.set(alpha_ppm - alpha_ppm // g_inverse + fraction_ppm // g_inverse),
        window_end_bytes.set(Flow.delivered_bytes + Flow.bytes_in_flight),
        window_acked_bytes.set(0),
        window_marked_bytes.set(0),
    )

    # The reduction: step 9, once per window of data (RFC 3168 section 6.1.2).
    cut_end_bytes = state()
    ready = let((Flow.delivered_bytes > cut_end_bytes) & (loss.episode < REDUCING))
    excess_bytes = let(Cwnd * alpha_ppm // (2 * MILLION))
    reduce = on(
        (Ack.ecn_bytes > 0) & ready,
        excess_bytes,
        Cwnd.set(max_(Cwnd - excess_bytes, 2 * Flow.mss)),
        loss.ssthresh_bytes.set(Cwnd),
        cut_end_bytes.set(Flow.delivered_bytes + Flow.bytes_in_flight),
        credit.credit_bytes.set(0),
        ecn_cuts.add(1),
    )

    # Growth as in Reno, in windows that were not reduced.
    growing = let(loss.may_grow & (Flow.delivered_bytes > cut_end_bytes))
    avoidance = additive_increase(loss, credit, growing)
    start = slow_start(loss, growing)
    report_us = control(INFINITY)
    when = reports(loss, report_us)


@register("dctcp")
class Dctcp(Configured):
    """DCTCP of RFC 8257: the window shrinks by the share of bytes that ECN marked.

    Use it where switches mark. Both ends need DCTCP, or AccECN, so that every mark is echoed.
    Do not use it on the Internet. RFC 8257 restricts it to data centres, and without ECN it is Reno.
    Evidence: 1 ms of queue (docs/papers/r-hybrid.md). Alone on a link of 200 Mbit/s, it fills the link.
    """

    program = DctcpFold
    needs_ecn = True
    g = Param(1 / 16, min=0.001, max=1.0, doc="weight of the newest window in alpha")
    beta = Param(0.5, min=0.1, max=0.9, doc="window after a loss episode, as a fraction of that before")
    report_ms = regular_reports(0.0)

    def registers(self) -> dict[str, int]:
        """Return the registers that parameters determine."""
        return super().registers() | {
            "g_inverse": round(1 / self.g),
            "cut_permille": round(1000 * self.beta),
        }
