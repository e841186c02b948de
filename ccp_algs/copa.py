"""Copa: each flow keeps 1/delta packets in the queue, and competes like Reno with flows that fill the queue.

    target rate = 1 / (delta d_q),  d_q = RTT_standing - RTT_min
    each ACK: cwnd +- v / (delta cwnd), towards the target; v doubles while the direction stays

Flows with the same target oscillate around it together, so that the queue is nearly empty once in five round
trips. If the queue is never nearly empty, other flows keep it filled. Copa then gives up delta = 1/2 and
changes 1/delta as Reno changes a window, until the queue empties again.

    DEFAULT (delta = 1/2) <--(nearly empty in the last 5 RTTs)--> COMPETITIVE (1/delta: AIMD)

Source: V. Arun, H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI
2018, sections 2 (target rate), 2.1 (window update, velocity, slow start, pacing), 2.2 (competitive mode) and
3 (why the queue is nearly empty once in five round trips).

Parameters: `delta` (1/2; section 2.2), `competitive`, which enables the competitive mode, and `report_ms`.

Deviations:
* Extremes over a time window are kept in two halves, so they cover between half of the window and all of it:
  RTT_standing over srtt/2, RTT_min over 10 s, RTT_max over four round trips (sections 2.1 and 2.2).
* The queue also counts as nearly empty if the queueing delay is at most the time between two packets of the
  flow. A receiver that acknowledges every second packet lengthens RTTs by this time, which for slow flows
  exceeds a tenth of the RTT's range.
* Velocity is bounded so that a window at most doubles per round trip.
* Changes of the window are scaled by acknowledged bytes, so that one ACK for many packets has the same effect
  as many ACKs, and are applied in whole packets.
* The paper does not cover timeouts. Here the window stays as the kernel left it, and slow start begins again.
* A loss halves 1/delta at most once per round trip.

Limit: Copa flows can mistake each other for competing flows, and then fill the buffer together.
"""

from __future__ import annotations

from typing import Any

from ccp_algs.api import Algorithm, FlowInfo
from ccp_algs.episodes import REPORT_MS, regular_reports, report_interval_us
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Cwnd,
    Flow,
    FoldProgram,
    Rate,
    control,
    every,
    field,
    let,
    max_,
    min_,
    on,
    state,
)
from ccp_algs.params import Param
from ccp_algs.registry import register

UNIT = 16
"""1/delta is stored in units of one packet divided by this number."""
DELTA = 0.5
MIN_WINDOW_US = 10_000_000
EMPTY_RTTS = 5
MAX_WINDOW_RTTS = 4
EMPTY_PART = 10
"""A queueing delay of less than this fraction of the RTT's range counts as nearly empty."""
STEADY_RTTS = 3
"""Round trips in the same direction before velocity doubles."""
_MAX_US = 1 << 24
_MAX_VELOCITY = 1 << 16
_MAX_INVERSE = UNIT << 16
_SECOND_US = 1_000_000

DOWN, UP = 1, 2


class CopaFold(FoldProgram):
    """All of Copa; reports its state once per round trip."""

    default_inverse = control(round(UNIT / DELTA))
    may_compete = control(1)
    report_us = control(report_interval_us(REPORT_MS))

    # RTTs over time windows, in halves (sections 2.1 and 2.2).
    sample_us = let(max_(min_(Flow.rtt_sample_us, _MAX_US), 1), "sample_us")
    srtt_us = let(max_(Flow.srtt_us, 1), "srtt_us")
    standing_began_us = state()
    standing_now_us, standing_before_us = state(INFINITY), state(INFINITY)
    min_began_us = state()
    min_now_us, min_before_us = state(INFINITY), state(INFINITY)
    max_began_us = state()
    max_now_us, max_before_us = state(), state()
    last_empty_us = state()

    # State.
    starting = field()
    competitive = field(volatile=False)
    inverse = field(round(UNIT / DELTA), volatile=False)
    queueing_us = field(volatile=False)
    standing_us = field(volatile=False)
    velocity = field(1, volatile=False)
    is_alive = state()
    direction = state()
    steady_rtts = state()
    slow_start = state(1)
    round_end_bytes = state()
    round_cwnd_bytes = state()
    cut_until_us = state()
    credit = state()

    begin = on(
        is_alive == 0,
        is_alive.set(1),
        starting.set(1),
        inverse.set(default_inverse),
        standing_began_us.set(Ack.now),
        min_began_us.set(Ack.now),
        max_began_us.set(Ack.now),
        last_empty_us.set(Ack.now),
        round_cwnd_bytes.set(Cwnd),
    )
    again = on(Flow.was_timeout, slow_start.set(1), velocity.set(1), direction.set(0), credit.set(0))

    roll_standing = on(
        Ack.now >= standing_began_us + srtt_us // 4,
        standing_before_us.set(standing_now_us),
        standing_now_us.set(INFINITY),
        standing_began_us.set(Ack.now),
    )
    roll_min = on(
        Ack.now >= min_began_us + MIN_WINDOW_US // 2,
        min_before_us.set(min_now_us),
        min_now_us.set(INFINITY),
        min_began_us.set(Ack.now),
    )
    roll_max = on(
        Ack.now >= max_began_us + srtt_us * (MAX_WINDOW_RTTS // 2),
        max_before_us.set(max_now_us),
        max_now_us.set(0),
        max_began_us.set(Ack.now),
    )
    take_standing = standing_now_us.set(min_(standing_now_us, sample_us))
    take_min = min_now_us.set(min_(min_now_us, sample_us))
    take_max = max_now_us.set(max_(max_now_us, sample_us))
    min_us = let(min_(min_now_us, min_before_us), "min_us")
    known = let(min_us < INFINITY, "known")
    stand = standing_us.set(min_(standing_now_us, standing_before_us), when=known)
    queue = queueing_us.set(standing_us - min_us, when=known)

    # Are there competing flows? (section 2.2)
    max_us = let(max_(max_now_us, max_before_us), "max_us")
    packet_us = let(standing_us * Flow.mss // Cwnd, "packet_us")
    nearly_us = let(max_((max_us - min_us) // EMPTY_PART, packet_us), "nearly_us")
    see_empty = last_empty_us.set(Ack.now, when=known & (queueing_us <= nearly_us))
    compete = competitive.set(1, when=(may_compete > 0) & (Ack.now > last_empty_us + EMPTY_RTTS * srtt_us))
    be_alone = on(
        Ack.now <= last_empty_us + EMPTY_RTTS * srtt_us, competitive.set(0), inverse.set(default_inverse)
    )
    lose = on(
        (competitive > 0) & (Ack.lost_pkts_sample > 0) & (Ack.now >= cut_until_us),
        inverse.set(max_(inverse // 2, default_inverse)),
        cut_until_us.set(Ack.now + srtt_us),
    )

    # Once per window: velocity (section 2.1), and 1/delta of the competitive mode (section 2.2).
    went_up = let(Cwnd > round_cwnd_bytes, "went_up")
    went_down = let(Cwnd <= round_cwnd_bytes, "went_down")
    stays = let((went_up & (direction == UP)) | (went_down & (direction == DOWN)), "stays")
    once = on(
        Flow.delivered_bytes >= round_end_bytes,
        went_up,
        went_down,
        stays,
        steady_rtts.set(steady_rtts + 1, when=stays),
        steady_rtts.set(0, when=~stays),
        velocity.set(1, when=~stays),
        velocity.set(min_(2 * velocity, _MAX_VELOCITY), when=stays & (steady_rtts >= STEADY_RTTS)),
        velocity.set(max_(min_(velocity, Cwnd * UNIT // (inverse * Flow.mss)), 1)),
        direction.set(DOWN),
        direction.set(UP, when=went_up),
        inverse.set(min_(inverse + UNIT, _MAX_INVERSE), when=(competitive > 0) & (Ack.now >= cut_until_us)),
        round_cwnd_bytes.set(Cwnd),
        round_end_bytes.set(Flow.delivered_bytes + Flow.bytes_in_flight),
    )

    # Towards the target: cwnd / RTT_standing <= 1 / (delta d_q).
    target_us = let(inverse * Flow.mss * standing_us // UNIT // Cwnd, "target_us")
    leave_slow_start = slow_start.set(0, when=known & (queueing_us > target_us))
    grow_fast = Cwnd.add(Ack.bytes_acked, when=(slow_start > 0) & Flow.cwnd_limited)
    per_pkt = let(UNIT * max_(Cwnd, Flow.mss), "per_pkt")
    step = let(velocity * inverse * Ack.bytes_acked, "step")
    owed_pkts = let((step - credit) // per_pkt + 1, "owed_pkts")
    rise = on(
        known & (slow_start == 0) & (queueing_us <= target_us) & Flow.cwnd_limited,
        per_pkt,
        step,
        credit.add(step),
        Cwnd.add(credit // per_pkt * Flow.mss),
        credit.set(credit - credit // per_pkt * per_pkt),
    )
    fall = on(
        known & (slow_start == 0) & (queueing_us > target_us),
        per_pkt,
        step,
        owed_pkts,
        Cwnd.set(max_(Cwnd - owed_pkts * Flow.mss, 2 * Flow.mss), when=step > credit),
        credit.add(owed_pkts * per_pkt, when=step > credit),
        credit.set(credit - step),
    )
    pace = Rate.set(2 * Cwnd * _SECOND_US // standing_us, when=known)
    when = every(max_(Flow.srtt_us, report_us)) | (starting > 0)


@register("copa")
class Copa(Algorithm):
    """Copa: each flow keeps 1/delta packets in the queue, and competes with flows that fill it.

    Use it for short queues. All flows of the path should run Copa.
    Do not use it in production. Copa flows can mistake each other for competing flows, and then fill the
        buffer. Without `competitive` they ignore losses, and flood a buffer that is smaller than `delta` asks
        for.
    Evidence: tests only.
    """

    program = CopaFold
    delta = Param(DELTA, min=0.01, max=2.0, doc="inverse of the number of packets a flow keeps in the queue")
    competitive = Param(True, doc="compete with flows that fill the queue, at the cost of delay")
    report_ms = regular_reports(REPORT_MS)

    def on_create(self, info: FlowInfo) -> None:
        """Hand the parameters to the fold program."""
        self._configure()

    def on_report(self, report: Any) -> None:
        """Hand the parameters over again after a restart of the program."""
        if report.starting:
            self._configure()

    def on_params(self, names: frozenset[str]) -> None:
        """Hand the changed parameters over."""
        self._configure()

    def _configure(self) -> None:
        self.flow.set(
            default_inverse=round(UNIT / self.delta),
            may_compete=int(self.competitive),
            report_us=report_interval_us(self.report_ms),
        )
