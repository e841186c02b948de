"""Hyvar's fold program: CUBIC on each ACK, intervals whose length Python sets, and the policy's factor.

* `mtp_us` is the length of the interval (MTP). The first ACK after the end of the interval triggers a report
  with `due`. An interval is evaluated by totals, so neither an additional report for CUBIC nor a report that
  found no room loses data.
* `gain_ppm` is the factor that the policy requests, in millionths. The next ACK multiplies the window by the
  factor and clears the register. No factor is applied while a loss is repaired. A factor above 1 is applied
  only while the window is used up; a factor of 1 has no effect. CUBIC then begins a new, flat epoch, in which
  W_max is the policy's window. A factor below 1 ends slow start.
* `learned` leaves the window to the policy alone: CUBIC does not grow it, and a loss does not reduce it (see
  *spared* in `episodes.py`); ECN echoes and full queues on this host still reduce it. A timeout collapses the
  window, because the kernel does that; slow start leads back to the threshold.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ccp_algs.cubic_core import BETA, CubicState, cubic_growth, cubic_state
from ccp_algs.episodes import OPEN, Episodes, Evidence, loss_episodes
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    FoldProgram,
    Part,
    Register,
    Statement,
    control,
    field,
    let,
    max_,
    on,
    state,
)
from ccp_algs.hyvar.trains import Trains, trains
from ccp_algs.slow_start import hystart

PPM: Final = 1_000_000
"""`gain_ppm` for a factor of 1."""
FIRST_MTP_US: Final = 20_000
"""Length of the interval until Python sets one [us]."""


@dataclasses.dataclass(frozen=True)
class Intervals(Part):
    """The state of an interval; reported fields are totals of the flow.

    Attributes:
        mtp_us: Length of an interval [us].
        due: Reported: 1 if an interval is over.
        delivered_pkts: Reported: packets delivered until the end of the interval.
        lost_pkts: Reported: packets marked lost until then.
        rtt_sum_us: Reported: sum of the RTT samples [us].
        rtt_samples: Reported: number of RTT samples.
        rtt_min_us: Reported: minimum RTT [us].
        srtt_us: Reported: smoothed RTT [us].
        in_slow_start: Reported: 1 in slow start.
    """

    mtp_us: Register
    interval_began_us: Register
    due: Register
    delivered_pkts: Register
    lost_pkts: Register
    rtt_sum_us: Register
    rtt_samples: Register
    rtt_min_us: Register
    srtt_us: Register
    in_slow_start: Register
    add_rtt: Statement
    count_rtt: Statement
    close: Block


def intervals(loss: Episodes) -> Intervals:
    """Build the registers and lines of intervals."""
    mtp_us, began_us = control(FIRST_MTP_US), state()
    due = field()
    delivered_pkts, lost_pkts = field(volatile=False), field(volatile=False)
    rtt_sum_us, rtt_samples = field(volatile=False), field(volatile=False)
    rtt_min_us, srtt_us = field(volatile=False), field(volatile=False)
    in_slow_start = field()
    return Intervals(
        mtp_us=mtp_us,
        interval_began_us=began_us,
        due=due,
        delivered_pkts=delivered_pkts,
        lost_pkts=lost_pkts,
        rtt_sum_us=rtt_sum_us,
        rtt_samples=rtt_samples,
        rtt_min_us=rtt_min_us,
        srtt_us=srtt_us,
        in_slow_start=in_slow_start,
        add_rtt=rtt_sum_us.add(Flow.rtt_sample_us),
        count_rtt=rtt_samples.set(rtt_samples + 1, when=Flow.rtt_sample_us > 0),
        close=on(
            Ack.now >= began_us + mtp_us,
            due.set(1),
            began_us.set(Ack.now),
            delivered_pkts.set(Flow.delivered),
            lost_pkts.set(Flow.lost),
            rtt_min_us.set(Flow.min_rtt_us),
            srtt_us.set(Flow.srtt_us),
            in_slow_start.set(1, when=Cwnd < loss.ssthresh_bytes),
        ),
    )


@dataclasses.dataclass(frozen=True)
class Gain(Part):
    """The lines that apply the policy's factor; they go after the loss episodes and before growth."""

    gain_ppm: Register
    before_bytes: Register
    apply: Block


def gain(cubic: CubicState, loss: Episodes, train: Trains) -> Gain:
    """Build the lines that apply the policy's factor."""
    gain_ppm, before_bytes = control(), state()
    lowers = let(gain_ppm < PPM, "lowers")
    acts = let((loss.episode == OPEN) & (lowers | (Flow.cwnd_limited & (gain_ppm > PPM))), "acts")
    ends_slow_start = acts & (lowers | (Cwnd >= loss.ssthresh_bytes))
    return Gain(
        gain_ppm=gain_ppm,
        before_bytes=before_bytes,
        apply=on(
            gain_ppm > 0,
            lowers,
            acts,
            before_bytes.set(Cwnd),
            # Cwnd < 2^30 and gain_ppm <= 16 * 10^6: the product fits.
            Cwnd.set(max_(Cwnd * gain_ppm // PPM, 2 * Flow.mss), when=acts),
            loss.ssthresh_bytes.set(Cwnd, when=ends_slow_start),
            # For CUBIC this is like a loss: the path is known, so slow start ends.
            loss.prior_bytes.set(before_bytes, when=acts & lowers),
            cubic.w_max_bytes.set(0, when=acts),
            cubic.epoch.set(0, when=acts),
            train.begin(acts & (gain_ppm > PPM)),
            gain_ppm.set(0),
        ),
    )


_learned = control()
_is_learned = _learned > 0
_cubic = cubic_state()
_loss = loss_episodes(
    round(1000 * BETA),
    also=_cubic.restart,
    evidence=Evidence(weigh=(), congestion=_learned == 0),
)
_trains = trains()
_intervals = intervals(_loss)


class HyvarFold(FoldProgram):
    """CUBIC's program, with intervals and the policy's factor."""

    learned = _learned
    cubic = _cubic
    loss = _loss
    trains = _trains
    gain = gain(_cubic, _loss, _trains)
    growth = cubic_growth(_cubic, _loss, _loss.may_grow & ~_is_learned)
    start = hystart(_loss, growing=_loss.may_grow & (~_is_learned | (_loss.ssthresh_bytes < INFINITY)))
    intervals = _intervals
    when = (_intervals.due > 0) | (_loss.event > 0)
