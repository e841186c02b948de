"""BBR's two halves alone: the fold program on ACKs, and the class on reports."""

from __future__ import annotations

from collections import deque
from typing import Any

from ccp_algs.bbr3 import Bbr3
from ccp_algs.bbr_model import Bbr3Fold
from ccp_algs.simulated_flow import FakeInfo, FakeReport, RecordingFlow
from tests.unit.ccp_algs.folded import INFINITY, MSS, Folded

RTT_US = 100_000
RATE = 100 * MSS * 10
"""100 segments a round trip."""


class Model(Folded):
    """A flow that reports every ACK, with counters as the kernel keeps them."""

    def __init__(self, cwnd_pkts: float = 10, **registers: int) -> None:
        super().__init__(Bbr3Fold, cwnd_pkts, **{"wanted_rounds": 0, **registers})
        self.delivered = 1000
        self.lost = 0
        self.sent: deque[list[int]] = deque()

    def _prior_delivered(self, pkts: int, lost: int, in_flight: int) -> int:
        """Remove what an ACK delivers and shows as lost, then send; return P.delivered of the newest."""
        prior_delivered = 0
        for gone, is_delivered in ((lost, False), (pkts, True)):
            while gone > 0 and self.sent:
                burst = self.sent[0]
                taken = min(gone, burst[0])
                burst[0] -= taken
                gone -= taken
                if is_delivered:
                    prior_delivered = burst[1]
                if not burst[0]:
                    self.sent.popleft()
        new = in_flight - sum(burst[0] for burst in self.sent)
        if new > 0:
            self.sent.append([new, self.delivered])
        return prior_delivered

    def on(self, pkts: int = 1, lost: int = 0, in_flight: int = 100, rate: int = RATE, **prims: Any) -> Any:
        """Fold an ACK 1 ms later that delivers `pkts` and leaves so many in flight."""
        self.delivered = (self.delivered + pkts) % (1 << 32)
        self.lost += lost
        before = sum(burst[0] for burst in self.sent)
        prior_delivered = self._prior_delivered(pkts + prims.get("packets_misordered", 0), lost, in_flight)
        known = {
            "after_us": 1000,
            "lost_pkts_sample": lost,
            "delivered": self.delivered,
            "prior_delivered": prior_delivered,
            "prior_in_flight": before,
            "lost": self.lost,
            "packets_in_flight": in_flight,
            "bytes_in_flight": in_flight * MSS,
            "bytes_pending": 1 << 20,
            "rate_incoming": rate,
            "rate_outgoing": rate,
            "rtt_us": RTT_US,
        }
        return self.ack(pkts, **(known | prims))

    def rounds(self, n: int = 1, in_flight: int = 100, **prims: Any) -> None:
        """Fold the ACKs of so many round trips."""
        for _ in range(n * (in_flight + 1)):
            self.on(in_flight=in_flight, **prims)

    def to_round(self, in_flight: int = 100) -> None:
        """Fold ACKs until a round begins."""
        while not self.on(in_flight=in_flight)["rounds"]:
            pass

    @property
    def rate(self) -> int:
        return self.interpreter.rate_bytes_per_s


def filled(**registers: int) -> Model:
    """Return a flow that has filled the pipe: 100 segments, window gain 2."""
    flow = Model(200, is_full=1, **registers)
    flow.rounds(2)
    return flow


class Reported:
    """The algorithm, told by hand: fields keep the values that they had."""

    def __init__(self) -> None:
        self.algorithm = Bbr3()
        self.flow = RecordingFlow(FakeInfo(), {"default": Bbr3Fold.source})
        self.algorithm.flow = self.flow
        self.algorithm.on_create(FakeInfo())
        self.now_us = 1_000_000
        self.fields = dict.fromkeys(Bbr3Fold.report_fields, 0) | {
            "max_bw_bytes_per_s": 1_448_000,
            "round_bw_bytes_per_s": 1_448_000,
            "min_rtt_us": 100_000,  # so that the BDP is 100 packets
            "mss_bytes": MSS,
            "long_bytes": INFINITY,
            "budget_bytes": 4 * MSS,
            "in_flight_bytes": 100 * MSS,
        }

    def emit(self, after_us: int = 100_000, cwnd_pkts: int = 200, **events: int) -> dict[str, int]:
        """Tell of something, and return what the fold program was told last."""
        self.now_us += after_us
        head = {"now_us": self.now_us, "cwnd_bytes": cwnd_pkts * MSS}
        self.algorithm.on_report(FakeReport(head, self.fields | events, "Bbr3"))
        reported = self.flow.calls[-1][1]
        self.fields["long_bytes"] = reported.get("inflight_long_bytes", self.fields["long_bytes"])
        return reported

    def to(self, state: str) -> dict[str, int]:
        """Let rounds pass until it is in a state."""
        for _ in range(200):
            reported = self.emit(rounds=1)
            if self.algorithm.state == state:
                return reported
        raise AssertionError(f"never came to {state}")
