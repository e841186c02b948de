"""BBR of draft-06: pacing rate and window follow from a model of the path, its bottleneck rate and its RTT.

The flow paces at the maximum delivery rate that it measured and keeps about one bandwidth-delay product in
flight. From time to time it sends faster to find more bandwidth, or drains the queue to measure the RTT
without it. If a probe causes a loss rate above 2 %, the data in flight is bounded. Other losses bound rate
and inflight until the next probe. Random loss of 2 % and more therefore costs most of the rate of a path that
holds many packets, unlike in version 1; on such paths raise `loss_thresh` (docs/bbr.md).

    STARTUP --(rate stops growing, or loss)--> DRAIN --(queue gone, or 3 rounds)--> DOWN
    DOWN --(queue gone)--> CRUISE --(2 to 3 s, or as many rounds as Reno)--> REFILL --(a round)--> UP
    UP --(rate stops growing, loss, bound of a probe that went too high)--> DOWN
    any --(5 s without a smaller RTT)--> PROBE_RTT --(200 ms and a round)--> CRUISE, or STARTUP again

The fold program (`bbr_model.py`) measures, and sets rate and window on every ACK. This class runs the state
machine, and uses the parts of the model that are in `bbr_bounds.py`. A state transition reaches the fold
program as an update, some tens of microseconds after the ACK that caused it.

Source: draft-ietf-ccwg-bbr-06 (July 2026), section 5, which specifies BBR version 3; variables have the
draft's names where possible.

Parameters: `loss_thresh` (2 %), `beta` (0.7) and `headroom` (0.15) of section 2.8, `probe_rtt_interval_s` (5,
section 5.3.4.2; required on shared networks), `seed` of the random waits (section 5.3.3.8.3).

Deviations, with reasons:

* P.lost and P.tx_in_flight, which Linux does not keep for a packet, are estimated (`bbr_model.py`). The
  packets that an ACK shows as lost are handled as one offload burst, sent with the newest delivered packet.
* Rounds are reported at most once per millisecond, which matters for smaller RTTs. Several lossy rounds in a
  report lower the short-term bounds once.
* Loss events are ACKs that show a loss, not ranges of sequence numbers.
* ECN marks count as losses. Section 3.7 says to treat marks as congestion, and leaves open how.
* A restart from idle is noticed only on its first ACK. Until that ACK, rate and window stay unchanged, and
  the ACK starts no ProbeRTT.
* The initial window is not paced: the rate is set on the first ACK.
* The data in flight is considered to have reached the long-term bound if it is less than a send quantum below
  it.
* Drain obeys the long-term bound, as the table in section 5.6.1 says (the code in 5.6.4.7 does not).
* State for an undo is saved at the first reaction of a recovery, not in each of its rounds.
* Spurious recoveries are those that the kernel undoes. A tail loss that the kernel repairs by a probe is not
  seen.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Final

from ccp_algs.api import Algorithm, FlowInfo
from ccp_algs.bbr_bounds import FullPipe, ShortBounds, Undo
from ccp_algs.bbr_model import (
    DEFAULT_CWND_PERMILLE,
    MIN_PIPE_PKTS,
    SECOND_US,
    STARTUP_PACING_PERMILLE,
    Bbr3Fold,
)
from ccp_algs.episodes import STARTED
from ccp_algs.fold import INFINITY
from ccp_algs.params import Param
from ccp_algs.registry import register

STARTUP: Final = "startup"
DRAIN: Final = "drain"
DOWN: Final = "down"
CRUISE: Final = "cruise"
REFILL: Final = "refill"
UP: Final = "up"
PROBE_RTT: Final = "probe_rtt"

PROBING_BW: Final = (STARTUP, REFILL, UP)
"""States that probe for bandwidth; in these states losses do not lower the short-term bounds."""
PROBE_BW: Final = (DOWN, CRUISE, REFILL, UP)

PACING_PERMILLE: Final = {
    STARTUP: STARTUP_PACING_PERMILLE,
    DRAIN: 495,
    DOWN: 891,
    CRUISE: 990,
    REFILL: 990,
    UP: 1238,
    PROBE_RTT: 990,
}
"""Pacing gains (section 5.6.1) less the margin of 1 % (section 5.6.2)."""
CWND_PERMILLE: Final = {UP: 2250, PROBE_RTT: 500}
"""Window gains (section 5.6.1); DEFAULT_CWND_PERMILLE in the other states."""

DRAIN_ROUNDS: Final = 3
STARTUP_LOSS_EVENTS: Final = 6
PROBE_RTT_DURATION_US: Final = 200_000
RENO_ROUNDS: Final = 63
EXTRA_ACKED_ROUNDS: Final = 5
"""Half of the window of 10 rounds (section 2.12), because the fold program keeps two halves."""


@register("bbr3")
class Bbr3(Algorithm):
    """BBR of draft-ietf-ccwg-bbr-06 (version 3): paces at the measured rate, with about one BDP in flight.

    Use it for goodput without full queues.
    Do not use it above 2 % random loss. Each probe then loses too much; raise `loss_thresh` there.
    Evidence: 56 simulated cases (docs/evaluate.md). With 1 BDP of buffer, it has 97 % of kernel CUBIC's
        goodput with 60 % of its RTT. Next to it, kernel CUBIC keeps 67 % of the goodput that it has next to
        another CUBIC flow, and 20 % next to version 1.
    More: docs/bbr.md
    """

    program = Bbr3Fold
    loss_thresh = Param(0.02, min=0.001, max=0.5, doc="loss rate of a round trip that ends a bandwidth probe")
    beta = Param(0.7, min=0.3, max=0.95, doc="minimum fraction of the bounds kept after a round with losses")
    headroom = Param(0.15, min=0.0, max=0.5, doc="share of the long-term bound left to others while cruising")
    probe_rtt_interval_s = Param(5.0, min=0.1, max=600.0, unit="s", doc="interval between PROBE_RTT phases")
    seed = Param(1, min=0, max=1 << 31, doc="seed of the random waits between probes, with the flow's id")

    state: str

    def on_create(self, info: FlowInfo) -> None:
        """Begin in STARTUP."""
        self._random = random.Random(self.seed << 64 | info.flow_id)
        self._begin()
        self._send(self._registers(None))

    def on_report(self, report: Bbr3Fold) -> None:
        """Follow the state machine, in the order of UpdateModelAndState (section 5.2.3)."""
        if report.event == STARTED:
            self._begin()
        self.inflight_long_bytes = int(report.long_bytes)
        self.round_count += report.rounds
        self.rounds_since_up += report.rounds
        if report.undone:
            self._take_back(report)
        elif report.loss_rounds and self.state not in PROBING_BW:
            self._save(report)
            self.short.lower(report, self.beta)
        self.pipe.check(report)
        self._check_startup_loss(report)
        if self.state == STARTUP and self.pipe.is_full:
            self.state = DRAIN
            self.drain_start_round = self.round_count
        if self.state == DRAIN and self._is_drained(report):
            self._start_down(report)
        if self.pipe.is_full and not self._adapt_long_bound(report):
            self._follow_cycle(report)
        self._check_probe_rtt(report)
        self._send(self._registers(report))

    def on_reload(self, old: Any) -> None:
        """Continue in the previous version's state: its registers replace those of `on_create`."""
        super().on_reload(old)
        self.flow.set(**self._sent)

    def start_up(self) -> None:
        """Probe for bandwidth as at the start of the connection, and forget the long-term bound."""
        self.state = STARTUP
        self.pipe = FullPipe()
        self.short.reset()
        self._set_long(INFINITY)
        self._send(self._registers(None))

    def _begin(self) -> None:
        self._sent: dict[str, int] = {}
        self._orders: dict[str, int] = {}
        self.state = STARTUP
        self.pipe = FullPipe()
        self.short = ShortBounds()
        self.inflight_long_bytes = INFINITY
        self.undo: Undo | None = None
        self.round_count = 0
        self.rounds_since_up = 0
        self.drain_start_round = 0
        self.cycle = 0
        self.cycle_start_us = 0
        self.probe_wait_us = 0
        self.is_stopping = False
        self.is_probe_sample = False
        self.was_too_high = False
        self.was_precautionary = False
        self.probe_rtt_done_us = 0
        self.probe_rtt_round_done = False

    def _bdp_bytes(self, report: Bbr3Fold) -> int:
        bw_bytes_per_s = min(report.max_bw_bytes_per_s, self.short.bw_bytes_per_s)
        return int(bw_bytes_per_s * report.min_rtt_us // SECOND_US)

    def _inflight_bytes(self, report: Bbr3Fold) -> int:
        """Return Inflight(1.0) of section 5.6.4.2: what fills the pipe, with an allowance for offloads."""
        return max(self._bdp_bytes(report), int(report.budget_bytes))

    def _target_bytes(self, report: Bbr3Fold) -> int:
        """Return TargetInflight() of section 5.3.3.8.3."""
        return min(self._bdp_bytes(report), int(report.cwnd_bytes))

    def _with_headroom_bytes(self, report: Bbr3Fold) -> int:
        if self.inflight_long_bytes == INFINITY:
            return INFINITY
        headroom_bytes = max(int(report.mss_bytes), int(self.headroom * self.inflight_long_bytes))
        return max(self.inflight_long_bytes - headroom_bytes, self._pipe_bytes(report))

    def _pipe_bytes(self, report: Bbr3Fold) -> int:
        return MIN_PIPE_PKTS * int(report.mss_bytes)

    def _probe_rtt_bytes(self, report: Bbr3Fold) -> int:
        return max(self._bdp_bytes(report) * CWND_PERMILLE[PROBE_RTT] // 1000, self._pipe_bytes(report))

    def _inflight_at_loss_bytes(self, report: Bbr3Fold) -> int:
        """Return InflightAtLoss() of section 5.5.10.2: the inflight at which losses crossed the threshold."""
        size_pkts = min(report.lost_now_pkts, report.tx_in_flight_pkts)
        inflight_prev_pkts = report.tx_in_flight_pkts - size_pkts
        lost_prev_pkts = max(report.lost_since_pkts - size_pkts, 0)
        prefix_pkts = (self.loss_thresh * inflight_prev_pkts - lost_prev_pkts) / (1 - self.loss_thresh)
        return int((inflight_prev_pkts + max(prefix_pkts, 0)) * report.mss_bytes)

    def _check_startup_loss(self, report: Bbr3Fold) -> None:
        """End STARTUP because of losses (section 5.3.1.3)."""
        if (
            self.state == STARTUP
            and report.loss_rounds
            and not report.undone
            and report.round_in_trouble
            and report.round_loss_events >= STARTUP_LOSS_EVENTS
            and report.lost_since_pkts > self.loss_thresh * report.tx_in_flight_pkts
        ):
            self._save(report).state = STARTUP
            self.pipe.end()
            self._set_long(max(self._bdp_bytes(report), report.inflight_latest_bytes))

    def _set_long(self, inflight_bytes: int) -> None:
        self.inflight_long_bytes = self._orders["inflight_long_bytes"] = inflight_bytes

    def _save(self, report: Bbr3Fold) -> Undo:
        if self.undo is None or self.undo.recoveries != report.recoveries:
            self.undo = Undo(report.recoveries, dataclasses.replace(self.short), self.inflight_long_bytes)
        return self.undo

    def _take_back(self, report: Bbr3Fold) -> None:
        """Restore what a spurious recovery reduced (section 5.5.11.2)."""
        undo, self.undo = self.undo, None
        self.pipe.restart()
        self._reset_signals()
        if undo is None:
            return
        self.short.widen(undo.short)
        self._set_long(max(self.inflight_long_bytes, undo.inflight_long_bytes))
        if undo.state == STARTUP and self.state != STARTUP:
            self.pipe.is_full = False
            if self.state != PROBE_RTT:
                self.state = STARTUP
        elif undo.state == UP and self.state not in (UP, PROBE_RTT):
            self._start_refill(report)

    def _start_round(self, report: Bbr3Fold) -> None:
        self._orders["start_delivered_pkts"] = report.delivered_pkts

    def _is_drained(self, report: Bbr3Fold) -> bool:
        return bool(
            report.in_flight_bytes <= self._inflight_bytes(report)
            or self.round_count > self.drain_start_round + DRAIN_ROUNDS
        )

    def _start_down(self, report: Bbr3Fold) -> None:
        self.state = DOWN
        self.rounds_since_up = self._random.randint(0, 1)
        self.probe_wait_us = 2 * SECOND_US + int(SECOND_US * self._random.random())
        self.cycle_start_us = report.now_us
        self.is_stopping = True
        self._start_round(report)
        self._reset_signals()  # the probe's losses have been handled, or were few

    def _reset_signals(self) -> None:
        """Forget the losses of the current round (ResetCongestionSignals of section 5.5.10.3)."""
        self._orders |= {"is_lossy": 0, "bw_so_far_bytes_per_s": 0, "inflight_so_far_pkts": 0}

    def _start_refill(self, report: Bbr3Fold) -> None:
        self.state = REFILL
        self.short.reset()
        self.was_precautionary = False
        self.is_stopping = False
        self._start_round(report)

    def _start_up(self, report: Bbr3Fold) -> None:
        self.state = UP
        self.is_probe_sample = True
        self.pipe.restart(report.round_bw_bytes_per_s)
        self._start_round(report)
        # The bound grows by 1, 2, 4, ... segments in successive rounds that it limits.
        self._orders |= {
            "up_acked_bytes": 0,
            "up_acked_per_inc_bytes": max(report.cwnd_bytes, report.mss_bytes),
            "up_growth": 2,
        }

    def _adapt_long_bound(self, report: Bbr3Fold) -> bool:
        """Adapt the long-term bound to the outcome of a probe; return whether that also chose the state.

        Source: AdaptLongTermModel() of section 5.3.3.9 and HandleInflightTooHigh() of section 5.5.10.2.
        """
        if self.is_stopping and report.rounds:
            self.is_stopping = False
            self.is_probe_sample = False
            if self.state in PROBE_BW:
                self.cycle += not report.is_limited
                if self.was_precautionary and not self.was_too_high:
                    self._start_refill(report)
                    return True
        if not (report.too_high and self.is_probe_sample):
            return False
        undo = self._save(report)
        self.was_too_high = True
        self.is_probe_sample = False
        if not report.is_limited:
            min_bytes = int(self.beta * self._target_bytes(report))
            self._set_long(max(self._inflight_at_loss_bytes(report), min_bytes))
        if self.state != UP:
            return False
        undo.state = UP
        self._start_down(report)
        return True

    def _follow_cycle(self, report: Bbr3Fold) -> None:
        """Advance the cycle of bandwidth probing: UpdateProbeBWCyclePhase() of section 5.3.3.9."""
        if self.state in (DOWN, CRUISE) and self._is_time_to_probe(report):
            self._start_refill(report)
        elif self.state == DOWN and report.in_flight_bytes <= self._cruise_bytes(report):
            self.state = CRUISE
        elif self.state == REFILL and report.rounds and not report.undone:
            self._start_up(report)
        elif self.state == UP and self._is_time_to_go_down(report):
            self.was_too_high = False
            self._start_down(report)

    def _cruise_bytes(self, report: Bbr3Fold) -> int:
        bdp_bytes = int(report.max_bw_bytes_per_s * report.min_rtt_us // SECOND_US)
        inflight_bytes = max(bdp_bytes, int(report.budget_bytes))
        return min(inflight_bytes, self._with_headroom_bytes(report))

    def _is_time_to_probe(self, report: Bbr3Fold) -> bool:
        waited = report.now_us > self.cycle_start_us + self.probe_wait_us
        return waited or self._rounds_to_wait(report) <= 0

    def _rounds_to_wait(self, report: Bbr3Fold) -> int:
        """Return the number of rounds that Reno would still need to recover from one loss."""
        reno_rounds = self._target_bytes(report) // max(report.mss_bytes, 1)
        return int(min(reno_rounds, RENO_ROUNDS) - self.rounds_since_up)

    def _is_time_to_go_down(self, report: Bbr3Fold) -> bool:
        if report.reached and self.was_too_high:
            self.was_precautionary = True
            return True
        if report.held_back:
            self.pipe.restart(report.round_bw_bytes_per_s)
            return False
        return self.pipe.now

    def _check_probe_rtt(self, report: Bbr3Fold) -> None:
        """Enter and leave ProbeRTT (sections 5.3.4.3 and 5.3.4.4)."""
        if self.state != PROBE_RTT:
            if not report.expired:
                return
            self.state = PROBE_RTT
            self.probe_rtt_done_us = 0
            self.is_stopping = True
            self._start_round(report)
        if self.probe_rtt_done_us == 0:
            if report.in_flight_bytes <= self._probe_rtt_bytes(report):
                self.probe_rtt_done_us = report.now_us + PROBE_RTT_DURATION_US
                self.probe_rtt_round_done = False
                self._start_round(report)
            return
        self.probe_rtt_round_done |= report.rounds > 0
        if self.probe_rtt_round_done and report.now_us > self.probe_rtt_done_us:
            self._orders["probe_min_stamp_us"] = report.now_us
            self.short.reset()
            if self.pipe.is_full:
                self._start_down(report)
                self.state = CRUISE
            else:
                self.state = STARTUP

    def _registers(self, report: Bbr3Fold | None) -> dict[str, int]:
        """Return the state's gains and bounds, and which reports it needs."""
        state = self.state
        has_headroom = state in (CRUISE, PROBE_RTT)
        return {
            "pacing_permille": PACING_PERMILLE[state],
            "cwnd_permille": CWND_PERMILLE.get(state, DEFAULT_CWND_PERMILLE),
            "headroom_permille": round(1000 * self.headroom) if has_headroom else 0,
            "bw_short_bytes_per_s": self.short.bw_bytes_per_s,
            "inflight_short_bytes": self.short.inflight_bytes,
            "is_full": int(self.pipe.is_full),
            "is_up": int(state == UP),
            "is_probe_rtt": int(state == PROBE_RTT),
            "is_probe_sample": int(self.is_probe_sample),
            "cycle": self.cycle,
            "extra_rounds": EXTRA_ACKED_ROUNDS if self.pipe.is_full else 1,
            "loss_permille": round(1000 * self.loss_thresh),
            "probe_rtt_interval_us": round(SECOND_US * self.probe_rtt_interval_s),
        } | ({} if report is None else self._wishes(report))

    def _wishes(self, report: Bbr3Fold) -> dict[str, int]:
        """Return the conditions of reports, in addition to losses and due transitions."""
        state, wanted_rounds, drain_bytes, alarm_us = self.state, 1, 0, INFINITY
        if state in (DOWN, CRUISE):
            alarm_us = self.cycle_start_us + self.probe_wait_us
            if not self.is_stopping:
                wanted_rounds = max(self._rounds_to_wait(report), 1)
        if state == DRAIN:
            drain_bytes = self._inflight_bytes(report) + 1
        elif state == DOWN:
            drain_bytes = self._cruise_bytes(report) + 1
        elif state == PROBE_RTT and self.probe_rtt_done_us == 0:
            drain_bytes = self._probe_rtt_bytes(report) + 1
        elif state == PROBE_RTT and self.probe_rtt_round_done:
            alarm_us = self.probe_rtt_done_us
        return {
            "wanted_rounds": wanted_rounds,
            "drain_bytes": drain_bytes,
            "is_cautious": int(state == UP and self.was_too_high),
            "alarm_us": alarm_us,
        }

    def _send(self, registers: dict[str, int]) -> None:
        orders, self._orders = self._orders, {}
        if registers != self._sent or orders:
            self._sent = registers
            self.flow.set(**registers, **orders)
