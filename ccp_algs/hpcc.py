"""HPCC: the window follows the inflight of the busiest link, as reported by echoes of the path, on each ACK.

    U = queue / (link rate * T) + arrivals / link rate      of the bottleneck; T: round trip without queues

    U >= eta, or `max_stage` rounds of increase are over:   W = W_ref * eta / U + W_AI
    else:                                                   W = W_ref + W_AI

W_ref is the window one round trip ago, so each measurement changes the window only once. The flow paces at W
/ T. The fold program uses every echo in an ACK (`Int.*`); Python only follows the result.

Without echoes, with a hop that does not report, or with a bottleneck that does not report its rate, this
algorithm is CUBIC, from the same code (`cubic.py`). The report field `steered` says whether HPCC or CUBIC is
in control, and an event is emitted when that changes. A loss that an echo classifies as congestion, and one
that no echo explains, reduces the window by CUBIC's beta; a loss on a link changes nothing (`echoes.py`).

Source: Y. Li, R. Miao, H. H. Liu et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, section 3
and algorithm 1.

Parameters: `eta` (0.95) and `max_stage` (5), section 3.3; `packet_bytes` (1500), the size of a full packet on
the wire with all its headers, because queues and arrivals are reported in full packets and link rates in
bytes; `stale_ms` (1000).

Deviations, with reasons:

* The sink selects the hop with the longest queueing delay; HPCC takes the largest U of all hops. If
  queues are empty, the selected hop is the slowest link.
* HPCC has counters of bytes sent; nodes here report a rate, an exponential mean (docs/inband.md). To
  compensate the lag of this mean, RATE_TIME_US * change of the mean is added to it.
* W_AI is the paper's, W_init (1 - eta) / N, with the link's W_init and the number of flows that the node
  counts.
* The window starts at the kernel's initial window, not at W_init of the link, as slow paths have small
  buffers; it is at most the data that fills the link, plus W_AI.
* The window grows to at most twice the measured delivery rate * T. It doubles at most once per round trip, as
  in slow start, because echoes come from the receiver, which may lie. The bound is here and not in `Int`,
  because a link is rightly faster than what one of many flows delivers.
* HPCC assumes lossless links; the reaction to loss is CUBIC's.
"""

from __future__ import annotations

from typing import Final, Protocol

from ccp_algs.cubic_control import CubicControl
from ccp_algs.cubic_core import BETA, CubicReport, cubic_growth, cubic_state
from ccp_algs.echoes import echoes
from ccp_algs.episodes import (
    AFTER_TIMEOUT,
    REPORT_MS,
    Evidence,
    Verdict,
    loss_episodes,
    regular_reports,
    report_interval_us,
    reports,
)
from ccp_algs.fold import (
    Ack,
    Cwnd,
    Flow,
    FoldProgram,
    Int,
    Rate,
    Statement,
    control,
    distance,
    field,
    latest,
    let,
    max_,
    min_,
    on,
    state,
    total,
)
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.slow_start import hystart

RATE_TIME_US: Final = 100_000
"""Time constant of the nodes' arrival rate [us]: RATE_TIME_NS in native/ccp-int/src/meter.rs."""
MILLION: Final = 1_000_000
ETA: Final = 0.95
MAX_STAGE: Final = 5
PACKET_BYTES: Final = 1500
STALE_MS: Final = 1000.0
MAX_GROWTH: Final = 2
"""Limit of window growth, as a multiple of (measured delivery rate * T)."""

_cubic = cubic_state()
_echoes = echoes()
_reference_bytes = state()


def _also(verdict: Verdict) -> list[Statement]:
    reduced = verdict.cut | verdict.timeout
    return [
        *_cubic.restart(verdict),
        *_echoes.account(verdict),
        _reference_bytes.set(min_(_reference_bytes, verdict.ssthresh_bytes), when=reduced),
    ]


class HpccFold(FoldProgram):
    """HPCC, and CUBIC where echoes are missing."""

    acked = total(Ack.bytes_acked)
    srtt_us = latest(Flow.srtt_us)
    queue_bytes = latest(Int.queue_bytes)
    utilization_ppm = field(volatile=False)
    cubic = _cubic
    echoes = _echoes
    reference_bytes = _reference_bytes
    loss = loss_episodes(
        round(1000 * BETA),
        also=_also,
        evidence=Evidence(
            weigh=_echoes.weigh(Ack.now),
            congestion=(_echoes.congested > 0) | (_echoes.received == 0),
        ),
    )

    # Does HPCC or CUBIC control the window?
    steered = field(volatile=False)
    was_steered = state()
    last_left_us = state()
    note = was_steered.set(steered)
    cease = steered.set(0)
    reported = let((Int.age_us < _echoes.stale_us) & Int.all_known & (Int.link_bytes_per_s > 0))
    steer = steered.set(1, when=reported)
    leave = on(
        was_steered > steered,
        loss.ssthresh_bytes.set(min_(loss.ssthresh_bytes, Cwnd)),
        Rate.set(0),
        last_left_us.set(0),
    )

    # MeasureInflight, in bytes of payload, the unit of the window.
    eta_ppm = control(round(ETA * MILLION))
    max_stage = control(MAX_STAGE)
    packet_bytes = control(PACKET_BYTES)
    last_queue_bytes, last_arrival_ppm = state(), state()
    stage, round_end_bytes = state(), state()
    base_us = let(max_(Flow.min_rtt_us, 1))
    first = let(last_left_us == 0)
    left_us = let(Ack.now - Int.age_us)
    link = let(Int.link_bytes_per_s * Flow.mss // packet_bytes)
    bdp_bytes = let(link * base_us // MILLION)
    arrival_ppm = let(Int.arrival_bytes_per_s * MILLION // link)
    queue_ppm = let(min_(Int.queue_bytes, last_queue_bytes) * MILLION // bdp_bytes)
    passed_us = let(min_(distance(left_us, last_left_us), base_us))
    lag_ppm = let(distance(arrival_ppm, last_arrival_ppm) * RATE_TIME_US // base_us)
    mean_ppm = let(
        (utilization_ppm * (base_us - passed_us) + (queue_ppm + arrival_ppm) * passed_us) // base_us
    )
    increase_bytes = let(bdp_bytes * (MILLION - eta_ppm) // MILLION // max_(Int.flow_count, 1))
    is_due = let(first | (Flow.delivered_bytes >= round_end_bytes))
    adjusts = let((utilization_ppm >= eta_ppm) | (stage >= max_stage))
    next_bytes = state()
    # Bounds what a receiver that lies about the path can gain.
    measured = let(min_(Flow.rate_incoming, Flow.rate_outgoing))
    ceiling_bytes = let(max_(Cwnd, MAX_GROWTH * measured * base_us // MILLION))
    follow = on(
        Int.fresh & (steered > 0) & (loss.episode <= AFTER_TIMEOUT),
        base_us,
        first,
        left_us,
        link,
        bdp_bytes,
        arrival_ppm,
        last_arrival_ppm.set(arrival_ppm, when=first),
        last_queue_bytes.set(Int.queue_bytes, when=first),
        queue_ppm,
        passed_us,
        lag_ppm,
        mean_ppm,
        utilization_ppm.set(mean_ppm + lag_ppm),
        utilization_ppm.set(mean_ppm - lag_ppm, when=arrival_ppm < last_arrival_ppm),
        utilization_ppm.set(queue_ppm + arrival_ppm, when=first),
        last_arrival_ppm.set(arrival_ppm),
        last_queue_bytes.set(Int.queue_bytes),
        last_left_us.set(left_us),
        # ComputeWind
        increase_bytes,
        is_due,
        reference_bytes.set(Cwnd, when=is_due),
        adjusts,
        next_bytes.set(reference_bytes),
        next_bytes.set(reference_bytes * eta_ppm // utilization_ppm, when=adjusts),
        next_bytes.set(min_(next_bytes, bdp_bytes) + increase_bytes),
        measured,
        ceiling_bytes,
        next_bytes.set(min_(next_bytes, ceiling_bytes)),
        Cwnd.set(max_(next_bytes, 2 * Flow.mss)),
        Rate.set(Cwnd * MILLION // base_us),
        stage.set(stage + 1, when=is_due),
        stage.set(0, when=is_due & adjusts),
        round_end_bytes.set(Flow.delivered_bytes + Flow.bytes_in_flight, when=is_due),
    )

    # CUBIC
    growing = let(loss.may_grow & (steered == 0))
    growth = cubic_growth(cubic, loss, growing)
    start = hystart(loss, growing=growing)
    report_us = control(report_interval_us(REPORT_MS))
    when = reports(loss, report_us) | (steered > was_steered) | (was_steered > steered)


class HpccReport(CubicReport, Protocol):
    """The fields of a report; see `HpccFold`."""

    steered: int


@register("hpcc")
class Hpcc(CubicControl):
    """HPCC: the window follows the data in flight at the bottleneck, as in-band telemetry reports it.

    Use it where each hop reports telemetry.
    Do not use it next to CUBIC. It yields to any queue, and gets little of the link.
    Evidence: a queue of 0.3 packets (docs/hpcc.md). CUBIC's has 37 packets on the same simulated path.
    More: docs/hpcc.md
    """

    program = HpccFold
    report_ms = regular_reports(REPORT_MS)
    eta = Param(ETA, min=0.5, max=0.99, doc="target utilization of the bottleneck")
    max_stage = Param(
        MAX_STAGE,
        min=0,
        max=100,
        unit="rounds",
        doc="rounds of additive increase before the utilisation U decides again",
    )
    packet_bytes = Param(
        PACKET_BYTES,
        min=576,
        max=65_535,
        unit="bytes",
        doc="size of a full packet on the wire, with all its headers",
    )
    stale_ms = Param(
        STALE_MS,
        min=10.0,
        max=60_000.0,
        unit="ms",
        doc="maximum age of an echo; with older ones the flow is CUBIC",
    )

    _steered = 0

    def on_report(self, report: HpccReport) -> None:
        """Answer as CUBIC does; emit an event when control passes between HPCC and CUBIC."""
        if report.steered != self._steered:
            self._steered = report.steered
            self.flow.emit("hpcc:steers" if report.steered else "hpcc:rests")
        super().on_report(report)

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        return super().registers(mss_bytes) | {
            "eta_ppm": round(self.eta * MILLION),
            "max_stage": self.max_stage,
            "packet_bytes": self.packet_bytes,
            "stale_us": round(1000 * self.stale_ms),
            "spares": 1,
        }
