"""R-Hybrid: DCTCP while the host has the bottleneck to itself, CUBIC or BBR while it is shared.

    SHARED: cubic or bbr3  --- decision SINGLE_OWNER, and the flow has ECN ---> SINGLE_OWNER: dctcp
           ^                                                                          |
           +------- decision SHARED, or no decision for `stale_ms` (fail-safe) -------+

The receiver's detector (`telemetry/regime`) decides about a path; a flow follows the decisions about its own
path, in the direction in which it sends. A switch replaces the fold program of the live flow and does not
affect other flows. The fold programs, and the classes that answer their reports, come from `cubic.py`,
`bbr3.py` and `dctcp.py`. A flow without ECN never becomes DCTCP. ECN is negotiated when the connection is set
up, so sockets ask for ECN at that time (`needs_ecn`).

State at a switch:

| | `handover=carry` (default) | `handover=reset` |
| --- | --- | --- |
| window, data in flight | stay | stay |
| slow-start threshold | stays, as last reported | is reset: slow start from the present window |
| W_max, K, alpha, BBR's model | are reset | are reset |

BBR has no threshold; `carry` passes on the threshold from before BBR. The paper says that a switch resets
ssthresh. Linux does not reset it, because window and threshold belong to the socket and stay; only the
private state of the congestion control is reset. So `carry` repeats the behaviour of the paper's prototype.
`carry` is also safer: after a reset, slow start adds to a queue that already exists. Over a full queue of 300
packets that does not mark, at 100 Mbit/s and an RTT of 10 ms, a switch to `dctcp` lost 2 packets with `carry`
and 383 with `reset`.

`shared_ecn` sets the reaction to ECN echoes in the regime SHARED, if the flow then runs CUBIC:

* `abe` (default): a reduction as for a loss, but the window keeps `ecn_beta` (0.85) of its size instead of
  0.7, because a mark comes before the queue is full (RFC 8511, which has this number for CUBIC). If the
  echo's RTT is less than a millisecond above the minimum, the window keeps `early_ecn_beta`, if that is more.
  Use it (0.95) where network switches mark as early as DCTCP needs it and a larger reduction would leave the
  link idle: Internet routers mark later (CoDel's target is 5 ms, RFC 8289; PIE's 15 ms, RFC 8033).
* `loss`: a reduction as for a loss (RFC 3168).
* `queue`: a reduction only if the RTT is `rtt_multiplier` times the minimum (`inflation.py`); otherwise the
  echo is ignored.
* `ignore`: no reaction. This setting violates RFC 3168 section 6.1.2, so use it only if the marks are known
  to be wrong.

With `probe_s`, a flow that runs `cubic` or `dctcp` probes its share of the queue, while decisions arrive and
there is a queue (`share_probe.py`). The flow follows the result of a probe rather than the decision, for
three probe intervals.

Events of a flow: `regime:switched` (before, after, regime, reason), `regime:refused` (wanted, why; once per
flow), `regime:fail_safe` (why), `regime:probed` (regime, share, reason).

Sources: K. Nguyen, "R-Hybrid: Fast Receiver-Driven Congestion Regime Detection for Adaptive Congestion
Control Switching in AWS", sections 4.4 and 5.1; RFC 9438, RFC 8257, RFC 8511.

Parameters: `start` (shared; section 6 has it as the safe default), `shared` (cubic), `stale_ms` (1000),
`handover`, `shared_ecn`, `ecn_beta` (0.85), `early_ecn_beta` (0.85: off), `rtt_multiplier` (2, as in
`flex_cubic.py`), `single_rate_bytes_per_s` (0; section 4.4 has the line rate), `shared_pacing_ratio` (0),
`prr` (`reduction.py`), `probe_s` (0). CUBIC, BBR and DCTCP have the defaults of their classes.

Deviations: those of `cubic.py`, `bbr3.py`, `dctcp.py` and `inflation.py`. The paper switches a whole host;
here each flow is switched.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from ccp_algs.api import Algorithm, FlowInfo, TelemetrySample
from ccp_algs.bbr3 import Bbr3
from ccp_algs.bbr_model import Bbr3Fold
from ccp_algs.cubic import Cubic, CubicFold
from ccp_algs.cubic_core import BETA, cubic_growth, cubic_state
from ccp_algs.dctcp import Dctcp, DctcpFold
from ccp_algs.episodes import (
    CUT,
    CWR,
    REPORT_MS,
    STARTED,
    Episodes,
    loss_episodes,
    regular_reports,
    report_interval_us,
    reports,
)
from ccp_algs.fold import (
    INFINITY,
    Ack,
    Block,
    Cwnd,
    Flow,
    FoldProgram,
    Rate,
    Register,
    control,
    latest,
    let,
    max_,
    min_,
    on,
    total,
)
from ccp_algs.inflation import inflation
from ccp_algs.params import Param
from ccp_algs.reduction import prr_param, prr_register
from ccp_algs.registry import register
from ccp_algs.share_probe import ALONE, Prober, share_probe
from ccp_algs.slow_start import hystart

SINGLE_OWNER: Final = "SINGLE_OWNER"
SHARED: Final = "SHARED"
REGIME_DECISION: Final = "regime_decision"
"""Kind of telemetry that the algorithm uses."""

RTT_MULTIPLIER: Final = 2.0
PROBING: Final = ("cubic", "dctcp")
"""Programs that can probe their share of the queue."""
PROBES_KEPT: Final = 3
"""The result of a probe applies for this many probe intervals."""
ECN_BETA: Final = 0.85
"""Window after an ECN echo, as a fraction of the window before it (RFC 8511 section 3.1, for CUBIC)."""
EARLY_QUEUE_US: Final = 1_000
"""Below this queueing delay `early_ecn_beta` applies."""


def _threshold(loss: Episodes) -> Register:
    return latest(loss.ssthresh_bytes)


def _paced(pace_permille: Register) -> Block:
    """Return the block that paces at a multiple of window per round trip, in thousandths."""
    rate_bytes_per_s = pace_permille * 1000 * Cwnd // Flow.srtt_us
    return on((pace_permille > 0) & (Flow.srtt_us > 0), Rate.set(rate_bytes_per_s))


def _eased(loss: Episodes, kept_permille: Register, kept_early_permille: Register) -> Block:
    """Return the block that keeps more of the window if an ECN echo, and not a loss, reduced it."""
    by_echo = (loss.kind == CUT) & (Flow.ca_state == CWR) & (Flow.local_congestion == 0)
    has_rtt = Flow.rtt_sample_us > 0
    early = let(has_rtt & (Flow.rtt_sample_us < Flow.min_rtt_us + EARLY_QUEUE_US), "early")
    eased_bytes = loss.prior_bytes * kept_permille // 1000
    eased_early_bytes = loss.prior_bytes * kept_early_permille // 1000
    return on(
        by_echo,
        early,
        loss.ssthresh_bytes.set(max_(loss.ssthresh_bytes, eased_bytes)),
        loss.ssthresh_bytes.set(max_(loss.ssthresh_bytes, eased_early_bytes), when=early),
        Cwnd.set(max_(Cwnd, min_(loss.ssthresh_bytes, Flow.bytes_in_flight + Ack.bytes_acked))),
    )


class DctcpProgram(DctcpFold):
    """DCTCP that reports its threshold."""

    threshold_bytes = _threshold(DctcpFold.loss)
    probe = share_probe(DctcpFold.loss)


class CubicProgram(CubicFold):
    """CUBIC that keeps more of its window at an ECN echo, reports its threshold, and can be paced."""

    ecn_kept_permille = control()
    ecn_kept_early_permille = control()
    ease = _eased(CubicFold.loss, ecn_kept_permille, ecn_kept_early_permille)
    threshold_bytes = _threshold(CubicFold.loss)
    pace_permille = control()
    pace = _paced(pace_permille)
    probe = share_probe(CubicFold.loss)


_cubic = cubic_state()
_inflation = inflation(round(1000 * RTT_MULTIPLIER))
_ecn_counts = control()


class MarksProgram(FoldProgram):
    """CUBIC that classifies ECN echoes by the RTT, or ignores them."""

    acked = total(Ack.bytes_acked)
    cubic = _cubic
    inflation = _inflation
    ecn_counts = _ecn_counts
    loss = loss_episodes(
        round(1000 * BETA), also=_cubic.restart, evidence=_inflation.evidence_of_marks(_ecn_counts > 0)
    )
    growth = cubic_growth(cubic, loss)
    start = hystart(loss)
    threshold_bytes = _threshold(loss)
    pace_permille = control()
    pace = _paced(pace_permille)
    report_us = control(report_interval_us(REPORT_MS))
    when = reports(loss, report_us)


class _Cubic(Cubic):
    """CUBIC that also reports its start, its threshold, and regularly."""

    report_ms = regular_reports(REPORT_MS)

    def registers(self, mss_bytes: int) -> dict[str, int]:
        """Return CUBIC's registers, with reports of the start enabled."""
        return super().registers(mss_bytes) | {"configured": 0}

    def window_left_bytes(self, report: Any) -> float:
        """Return the threshold that the fold program chose: an ECN echo may reduce less than a loss."""
        return float(report.threshold_bytes)


class _Dctcp(Dctcp):
    """DCTCP that also reports its start and regularly."""

    report_ms = regular_reports(REPORT_MS)

    def registers(self) -> dict[str, int]:
        """Return DCTCP's registers, with reports of the start enabled."""
        return super().registers() | {"configured": 0}


_CONTROLS: Final[dict[str, type[Algorithm]]] = {
    "cubic": _Cubic,
    "dctcp": _Dctcp,
    "cubic_marks": _Cubic,
    "bbr3": Bbr3,
}
"""The class that answers the reports of each program."""


@register("r_hybrid")
class RHybrid(Algorithm):
    """R-Hybrid: DCTCP while the receiver finds the path unshared, else CUBIC or BBR of draft-06.

    Use it between your own hosts. The path has to mark with ECN, and the receiver decides which regime
        applies.
    Do not use it for short connections. A change of regime takes 23 to 28 s with the paper's constants, 0.5
        to 0.6 s in the mode `fast`, and by its rules up to 3.3 s if only rare marks or losses show it.
    Evidence: 9 of 19 claims tested on real sockets hold, 2 of 21 in the simulator
        (docs/papers/r-hybrid.md).
    More: docs/r-hybrid.md
    """

    program = {  # noqa: RUF012
        "cubic": CubicProgram,
        "dctcp": DctcpProgram,
        "cubic_marks": MarksProgram,
        "bbr3": Bbr3Fold,
    }
    needs_ecn = True
    start = Param(
        "shared",
        choices=("shared", "single_owner"),
        doc="regime before the first decision arrives, or is found missing",
    )
    shared = Param("cubic", choices=("cubic", "bbr3"), doc="congestion control in the regime SHARED")
    stale_ms = Param(
        1000.0,
        min=0.0,
        max=600_000.0,
        unit="ms",
        doc="time without a valid decision after which the flow returns to SHARED",
    )
    handover = Param(
        "carry", choices=("carry", "reset"), doc="slow-start threshold at a switch: kept (carry) or reset"
    )
    shared_ecn = Param(
        "abe",
        choices=("abe", "loss", "queue", "ignore"),
        doc="CUBIC on ECN echoes: reduces less than at a loss (abe), as at a loss, at an inflated RTT, never",
    )
    ecn_beta = Param(
        ECN_BETA,
        min=0.7,
        max=0.95,
        doc="with shared_ecn=abe: window after an ECN echo, as a fraction of the window before it",
    )
    early_ecn_beta = Param(
        ECN_BETA,
        min=0.7,
        max=0.99,
        doc="as ecn_beta, for echoes with under 1 ms of queueing (used if larger)",
    )
    rtt_multiplier = Param(
        RTT_MULTIPLIER,
        min=1.0,
        max=100.0,
        doc="with shared_ecn=queue: an RTT above this multiple of minRTT counts as inflated",
    )
    single_rate_bytes_per_s = Param(
        0,
        min=0,
        max=125_000_000_000,
        unit="bytes/s",
        doc="pacing rate in SINGLE_OWNER, usually the line rate; 0: no pacing",
    )
    shared_pacing_ratio = Param(
        0.0, min=0.0, max=10.0, doc="pacing of CUBIC in SHARED, in windows per smoothed RTT; 0: no pacing"
    )

    prr = prr_param()
    probe_s = Param(
        0.0,
        min=0.0,
        max=3600.0,
        unit="s",
        doc="interval between probes of the flow's share of the queue, which override decisions; 0: none",
    )

    _running: str
    _starting: bool
    _control: Algorithm

    def on_create(self, info: FlowInfo) -> None:
        """Start in the initial regime."""
        self._regime = SINGLE_OWNER if self.start == "single_owner" else SHARED
        self._sender = ""
        self._seen_us = 0
        self._silent = self._regime == SINGLE_OWNER
        self._silent_since_us = 0
        self._refused = False
        self._threshold_bytes = 0
        self._prober = Prober(info.src_addr)
        self._probed, self._probed_us = "", 0
        self._begin(self._wanted())

    def on_report(self, report: Any) -> None:
        """Pass the report to the running program's class; return to SHARED if decisions are missing."""
        self._seen_us = max(self._seen_us, report.now_us)
        if self._starting and report.event != STARTED and not report.missed:
            return  # an old report, from an earlier run of this program
        self._starting = False
        if self._running != "bbr3":
            self._threshold_bytes = report.threshold_bytes
        self._control.on_report(report)
        if report.event == STARTED:
            self._configure()
        if self._silent:
            self._silent_since_us = self._silent_since_us or report.now_us
            self._fail_safe_if_due(report.now_us)
        elif self.probe_s and self._running in PROBING:
            self._probe(report)

    def on_params(self, names: frozenset[str]) -> None:
        """Apply the changed parameters immediately."""
        self._configure()
        self._settle("parameter changed")

    def on_telemetry(self, sample: TelemetrySample) -> None:
        """Follow a decision."""
        if sample.kind != REGIME_DECISION or not self._is_own(sample.body):
            return
        self._seen_us = max(self._seen_us, sample.received_us)
        self._sender = sample.sender
        self._silent = False
        self._regime = sample.body.regime
        self._settle(sample.body.reason or f"decision of {sample.sender}")

    def on_telemetry_lost(self, kind: str, sender: str) -> None:
        """Start the fail-safe timer, because the last decision has expired."""
        if kind == REGIME_DECISION and sender == self._sender and not self._silent:
            self._silent, self._silent_since_us = True, self._seen_us
            if self.stale_ms == 0:
                self._fail_safe_if_due(self._seen_us)

    def _is_own(self, decision: Any) -> bool:
        """Return whether a decision is about data sent from here; the host at the other end also decides."""
        return decision.peer is None or _plain(decision.peer) == _plain(self.flow.info.src_addr)

    def _fail_safe_if_due(self, now_us: int) -> None:
        if self._holding == SHARED or now_us < self._silent_since_us + 1000 * self.stale_ms:
            return
        what = f"{self._sender} is silent or gone" if self._sender else "no decision received"
        why = f"{what}, for {self.stale_ms:g} ms"
        self.flow.emit("regime:fail_safe", why=why)
        self._regime, self._probed = SHARED, ""
        self._settle(why)

    @property
    def _holding(self) -> str:
        """The regime that the flow follows: the last probe's result, or else the decision."""
        return self._probed or self._regime

    def _probe(self, report: Any) -> None:
        """Evaluate a probe and plan the next one; a result that is not confirmed expires."""
        every_us = round(1e6 * self.probe_s)
        share = self._prober.take(report)
        if share is not None:
            self._probed, self._probed_us = SINGLE_OWNER if share > ALONE else SHARED, report.now_us
            why = f"probe: share of the queue {share:.2f}"
            self.flow.emit("regime:probed", regime=self._probed, share=round(share, 3), reason=why)
            self._settle(why)
        elif self._probed and report.now_us > self._probed_us + PROBES_KEPT * every_us:
            self._probed = ""
            self._settle("no recent probe gave a result")
        elif registers := self._prober.plan(report.now_us, every_us):
            self.flow.set(**registers)

    def _configure(self) -> None:
        self.flow.set(rate_bytes_per_s=self._rate_bytes_per_s(), **self._registers())

    def _wanted(self) -> str:
        """Return the program for the present regime, flow and parameters."""
        if self._holding == SINGLE_OWNER:
            if self.flow.info.ecn_ok:
                return "dctcp"
            if not self._refused:
                self._refused = True
                why = "the connection did not negotiate ECN at setup"
                self.flow.emit("regime:refused", wanted="dctcp", why=why)
        if self.shared == "cubic" and self.shared_ecn in ("queue", "ignore"):
            return "cubic_marks"
        return self.shared

    def _settle(self, reason: str) -> None:
        """Switch to the wanted program, if another one runs."""
        before, wanted = self._running, self._wanted()
        if wanted == before:
            return
        self._begin(wanted, INFINITY if self.handover == "reset" else self._threshold_bytes)
        self.flow.emit("regime:switched", before=before, after=wanted, regime=self._holding, reason=reason)

    def _begin(self, program: str, start_ssthresh_bytes: int = 0) -> None:
        self._running = program
        self._starting = True
        self._prober.forget()
        registers = self._registers()
        if program != "bbr3":
            registers["start_ssthresh_bytes"] = start_ssthresh_bytes
        self.flow.set_program(program, rate_bytes_per_s=self._rate_bytes_per_s(), **registers)
        self._control = _CONTROLS[program]()
        self._control.flow = self.flow
        self._control.on_create(self.flow.info)

    def _rate_bytes_per_s(self) -> int | None:
        """Return the pacing rate [bytes/s]; None leaves it to the fold program."""
        if self._running == "dctcp":
            return self.single_rate_bytes_per_s
        return None if self._running == "bbr3" or self.shared_pacing_ratio > 0 else 0

    def _registers(self) -> dict[str, int]:
        """Return the registers of the running program that R-Hybrid's parameters determine."""
        if self._running == "bbr3":
            return {}
        if self._running == "dctcp":
            return {"prr": prr_register(self.prr)}
        registers = {"prr": prr_register(self.prr), "pace_permille": round(1000 * self.shared_pacing_ratio)}
        if self._running == "cubic":
            eased = self.shared_ecn == "abe"
            beta, early = (self.ecn_beta, self.early_ecn_beta) if eased else (BETA, BETA)
            registers["ecn_kept_permille"] = round(1000 * beta)
            registers["ecn_kept_early_permille"] = round(1000 * early)
        if self._running == "cubic_marks":
            registers["ecn_counts"] = int(self.shared_ecn == "queue")
            registers["k_permille"] = round(1000 * self.rtt_multiplier)
        return registers


def _plain(address: str) -> object:
    """Return a comparable address; IPv4-mapped IPv6 becomes IPv4."""
    parsed = ip_address(address)
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed
