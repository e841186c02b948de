"""CUBIC with in-band telemetry: wireless losses are not congestion, and growth depends on free queue room.

    loss, by telemetry       wireless_loss="keep" (New L1)   "mild" (New L2)   "cubic"
      wireless               window stays                    * wireless_beta   * beta
      congestion             * beta                          * beta            * beta
      unknown, or stale      * beta                          * beta            * beta

    below the threshold      increment=0: slow start; 1 to 3: equation (1) of the paper

Everything else is CUBIC, from the same code. If ACKs carry echoes of the path, the fold program uses them to
classify each loss (`echoes.py`) and to find the room to grow (`additive.py`). Otherwise the algorithm relies
on summaries, which Python evaluates every 10 ms (`int_summary.py`); the result applies in the fold program
until it is stale (`wireless.py`). The reaction to a loss whose summary comes later is corrected, in both
directions (`hindsight.py`). ECN echoes and full queues on this host are always congestion.

Sources: R. V. Bhat, J. Haxhibeqiri, I. Moerman, J. Hoebeke, "Adaptive Transport Layer Protocols using In-band
Network Telemetry and eBPF", section VI-A and table I; RFC 9438.

Parameters: those of `cubic.py`; `wireless_loss` and `increment`, above; `wireless_beta` (0.95, table I). Not
    from the paper are `stale_ms` (1000), `full_ratio` (0.9) and `period_rtts` (4), see `int_summary.py`.

Deviations: those of `cubic.py` and `int_summary.py`. The paper does not cover timeouts, ECN, W_max after a
mild reduction, and losses that are seen before telemetry shows their cause: see `wireless.py`. After a mild
reduction, K is computed with the mild factor. alpha is always that of `beta`, since alpha is about fairness
to flows that answer congestion.

For limits see `docs/int-cubic.md`.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Final, Protocol

from ccp_algs.additive import additive
from ccp_algs.api import FlowInfo, TelemetrySample
from ccp_algs.cubic_control import CubicControl
from ccp_algs.cubic_core import BETA, CubicReport, cubic_growth, cubic_state
from ccp_algs.echoes import echoes
from ccp_algs.episodes import (
    CUT,
    REPORT_MS,
    STARTED,
    TIMEOUT,
    UNDO,
    Verdict,
    loss_episodes,
    regular_reports,
    report_interval_us,
    reports,
    tally,
)
from ccp_algs.fold import Ack, Flow, FoldProgram, control, field, on, total
from ccp_algs.hindsight import Hindsight, Reduction
from ccp_algs.int_summary import SPARES, room_of, verdict_of
from ccp_algs.params import Param
from ccp_algs.registry import register
from ccp_algs.slow_start import hystart
from ccp_algs.wireless import excuse, wireless

_cubic = cubic_state()
_echoes = echoes()
_wireless = wireless()
_tally = tally()


def _also(verdict: Verdict) -> list[Any]:
    return [
        *_cubic.restart(verdict),
        *_tally.count(verdict),
        *_wireless.answer(verdict, _cubic, _echoes),
        *_echoes.account(verdict),
    ]


class IntCubicFold(FoldProgram):
    """CUBIC's program, with telemetry that classifies losses and sets the growth."""

    acked = total(Ack.bytes_acked)
    srtt_us = field(volatile=False)
    cubic = _cubic
    echoes = _echoes
    wireless = _wireless
    tally = _tally
    loss = loss_episodes(round(1000 * BETA), also=_also, evidence=_wireless.evidence(_echoes))
    excuse = excuse(_wireless, loss)
    growth = cubic_growth(cubic, loss)
    additive = additive(loss, _echoes.stale_us)
    start = hystart(loss, additive.added_bytes)
    report_us = control(report_interval_us(REPORT_MS))
    emits = reports(loss, report_us) | (_wireless.mild_prior_bytes > 0)
    metrics = on(emits, srtt_us.set(Flow.srtt_us))
    when = emits


class IntReport(CubicReport, Protocol):
    """The fields of a report; see the parts of `IntCubicFold`."""

    srtt_us: int
    cuts: int
    blind: int
    mild_prior_bytes: int
    mild_w_max_bytes: int
    echo_age_us: int


WIRELESS_BETA: Final = 0.95
"""Beta of CUBIC New L2 (table I of the paper)."""
STALE_MS: Final = 1000.0

INT_SUMMARY: Final = "int_summary"
"""Kind of telemetry that the algorithm uses."""
INTERVAL_US: Final = 10_000
"""Interval of a summary that does not state it [us]: the sink's default."""
LONGEST_INTERVAL_US: Final = 100_000
"""Longest interval that shows the delay of telemetry [us]; a longer one includes a pause of the flow."""


@register("int_cubic")
class IntCubic(CubicControl):
    """CUBIC that learns from in-band telemetry which losses were wireless.

    Use it over Wi-Fi with telemetry. Nodes on the path count losses, and the sink returns the counts.
    Do not use it with untrusted telemetry. Forged telemetry can make a flow ignore every loss.
    Evidence: 11 of 16 claims tested on real sockets hold, 2 of 14 in the simulator
        (docs/papers/int-adaptive.md).
    More: docs/int-cubic.md
    """

    program = IntCubicFold
    report_ms = regular_reports(REPORT_MS)
    wireless_loss = Param(
        "keep",
        choices=("cubic", "keep", "mild"),
        doc="reaction to a wireless loss: cubic as to any loss, keep (L1) none, mild (L2) a mild reduction",
    )
    wireless_beta = Param(
        WIRELESS_BETA,
        min=0.5,
        max=0.99,
        doc="window after a mild reduction, as a fraction of the window before it",
    )
    increment = Param(
        0,
        min=0,
        max=3,
        doc="increment of equation (1), for growth below the threshold; 0: slow start as in CUBIC",
    )
    stale_ms = Param(
        STALE_MS,
        min=10.0,
        max=60_000.0,
        unit="ms",
        doc="maximum age of telemetry; with older telemetry the flow is plain CUBIC",
    )
    full_ratio = Param(0.9, min=0.1, max=1.0, doc="fraction of a queue in use from which it counts as full")
    period_rtts = Param(
        4.0, min=0.5, max=100.0, unit="rounds", doc="period of equation (1), in rounds (`additive.py`)"
    )

    def on_create(self, info: FlowInfo) -> None:
        """Start without telemetry, as plain CUBIC."""
        self._hindsight = Hindsight()
        self._cuts = 0
        self._srtt_us = 0
        self._spare_until_us = 0
        self._seen_us = 0
        super().on_create(info)

    def on_report(self, report: IntReport) -> None:
        """Answer as CUBIC does; remember reductions, which later telemetry may show to be wrong."""
        self._seen_us = max(self._seen_us, report.now_us)
        self._srtt_us = report.srtt_us
        self._cuts = report.cuts
        if report.event == STARTED:
            self._hindsight = Hindsight()
        elif report.event in (CUT, TIMEOUT):
            made = Reduction(report.cuts, report.now_us, report.srtt_us)
            by_loss = report.event == CUT and report.blind > 0
            self._hindsight.reduced(made, doubtful=by_loss and self.wireless_loss != "cubic")
        elif report.event == UNDO:
            self._hindsight.undone()
        elif report.mild_prior_bytes:
            self.flow.set(k_us=self._mild_k_us(report))
        super().on_report(report)

    def on_telemetry(self, sample: TelemetrySample) -> None:
        """Set how losses are classified from now on, and the room to grow; correct earlier reactions."""
        if sample.kind != INT_SUMMARY or not self._is_own(sample.body.flow):
            return
        summary = sample.body
        end_us = sample.received_us - sample.age_at_receipt_us
        self._seen_us = max(self._seen_us, sample.received_us)
        until_us = max(0, end_us + round(1000 * self.stale_ms))
        verdict = verdict_of(summary, self.full_ratio)
        interval_us = summary.interval_us or INTERVAL_US
        self._hindsight.received(end_us - interval_us, end_us, verdict)
        registers = self._growth(summary, interval_us, until_us)
        if self.wireless_loss != "cubic":
            self._spare_until_us = until_us if verdict in SPARES else 0
            registers["spare_until_us"] = self._spare_until_us
            if number := self._hindsight.excused():
                registers["take_back"] = number
            if self._hindsight.is_due(self._srtt_us):
                registers["late_cut"] = self._cuts + 1
        self.flow.set(**registers)

    def on_telemetry_lost(self, kind: str, sender: str) -> None:
        """Become plain CUBIC; timeouts of data sent earlier are still classified by the last telemetry."""
        if kind == INT_SUMMARY:
            self._spare_until_us = min(self._spare_until_us, self._seen_us + 1)
            self.flow.set(spare_until_us=self._spare_until_us, additive_until_us=0)

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return the registers that parameters and segment size determine."""
        wireless_beta = self.wireless_beta if self.wireless_loss == "mild" else 1.0
        registers = super().registers(mss_bytes) | {
            "mild_permille": round(1000 * wireless_beta),
            "stale_us": round(1000 * self.stale_ms),
            "full_permille": round(1000 * self.full_ratio),
            "spares": int(self.wireless_loss != "cubic"),
            "increment": self.increment,
            "period_permille": round(1000 * self.period_rtts),
        }
        if self.wireless_loss == "cubic":
            registers["spare_until_us"] = self._spare_until_us = 0
        if self.increment == 0:
            registers["additive_until_us"] = 0
        return registers

    def _is_own(self, flow: Any) -> bool:
        """Return whether a summary is about this flow's data; ACKs with telemetry have summaries as well."""
        info = self.flow.info
        if (flow.src_port, flow.dst_port) != (info.src_port, info.dst_port):
            return False
        return flow.src_port != flow.dst_port or ip_address(flow.src) == ip_address(info.src_addr)

    def _growth(self, summary: Any, interval_us: int, until_us: int) -> dict[str, int]:
        """Return the registers of equation (1)."""
        if self.increment == 0:
            return {}
        round_us = max(self._srtt_us, min(interval_us, LONGEST_INTERVAL_US))
        room = room_of(summary, self.period_rtts * round_us / 1e6, self.flow.info.mss_bytes)
        if room is None:
            return {"additive_until_us": 0}
        return {
            "additive_until_us": until_us,
            "growth_permille": round(1000 * self.increment * room.growth),
            "room_bytes": round(room.share_bytes),
            "round_us": round_us,
        }

    def _mild_k_us(self, report: IntReport) -> int:
        """Return K after a mild reduction [us]; only the factor differs from CUBIC's."""
        cwnd_epoch_bytes = max(report.mild_prior_bytes * self.wireless_beta, 2 * report.mss_bytes)
        return self.k_us(report.mild_w_max_bytes, cwnd_epoch_bytes, report.mss_bytes)
