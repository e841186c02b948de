"""No defect: a small rate-based algorithm; `rate_in_bits`, `rtt_in_ms` and `unpaced` spoil it."""

from collections import deque

from ccp_algs import Algorithm
from ccp_algs.api import FlowInfo
from ccp_algs.fold import Ack, Flow, FoldProgram, count, every, latest, total

ROUNDS = 10
FULL = 3
STARTUP = 2.0
MAX_WINDOW_BYTES = 1 << 27
MAX_BYTES_PER_S = 1 << 34
CYCLE = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


class PacedFold(FoldProgram):
    """A report a round trip."""

    delivered_pkts = latest(Flow.delivered)
    lost = total(Ack.lost_pkts_sample)
    marked = total(Ack.ecn_packets)
    packets = total(Ack.packets_acked)
    app_limited = count(Flow.app_limited)
    srtt_us = latest(Flow.srtt_us)
    min_rtt_us = latest(Flow.min_rtt_us)
    when = every(Flow.srtt_us)


class Paced(Algorithm):
    """Paces at the maximum delivery rate, with a bounded window; a lossy round lowers both."""

    program = PacedFold

    def on_create(self, info: FlowInfo) -> None:
        """Begin in startup."""
        self.rates: deque[float] = deque(maxlen=ROUNDS)
        self.full_rate = 0.0
        self.plateau = 0
        self.round = 0
        self.last_us = 0
        self.last_pkts = 0

    def on_report(self, report: PacedFold) -> None:
        """Set rate and window for the next round."""
        mss = self.flow.info.mss_bytes
        passed_us, self.last_us = report.now_us - self.last_us, report.now_us
        self.round += 1
        pkts, self.last_pkts = report.delivered_pkts - self.last_pkts, report.delivered_pkts
        sample = 1e6 * mss * max(pkts, 0) / max(passed_us, report.min_rtt_us, 1)
        best = max(self.rates, default=0.0)
        if report.lost + report.marked > 0.02 * max(report.packets, 1):
            self.plateau = FULL
            self.rates.clear()
            self.rates.append(max(0.7 * min(best, sample), 2 * mss * 1e6 / max(report.srtt_us, 1)))
        elif not report.app_limited or sample > best:
            self.rates.append(sample)
        rate = max(self.rates, default=0.0)
        if self.plateau < FULL and not report.app_limited:
            grew = rate > 1.25 * self.full_rate
            self.plateau = 0 if grew else self.plateau + 1
            self.full_rate = max(rate, self.full_rate)
        if self.plateau < FULL:
            gain, held = STARTUP, STARTUP
        else:
            gain, held = CYCLE[self.round % len(CYCLE)], 1.5
        window = max(held * self.bdp_bytes(rate, report), 4 * mss)
        self.apply(min(window, MAX_WINDOW_BYTES), min(gain * rate, MAX_BYTES_PER_S))

    def bdp_bytes(self, rate_bytes_per_s: float, report: PacedFold) -> float:
        """Return the bandwidth-delay product."""
        return rate_bytes_per_s * report.min_rtt_us / 1e6

    def apply(self, window_bytes: float, rate_bytes_per_s: float) -> None:
        """Set both."""
        self.flow.set(cwnd_bytes=window_bytes, rate_bytes_per_s=rate_bytes_per_s)
