"""Algorithms with both halves: fold program under the interpreter, class, and telemetry that comes."""

from __future__ import annotations

from typing import Any

from ccp_algs import set_params
from ccp_algs.int_cubic import IntCubic, IntCubicFold
from ccp_algs.r_hybrid import CubicProgram, RHybrid
from ccp_algs.simulated_flow import FakeInfo, FakeReport
from ccplane.base._native import Interpreter, compile
from ccplane.base.flows import EcnMode
from telemetry.schema import FlowId, IntHop, IntSummary, RegimeDecision, Sample
from tests.unit.ccp_algs.folded import INFINITY, MSS, OPEN, Folded

RTT_US = 100_000
INFO = FakeInfo()
FLOW = FlowId(src=INFO.src_addr, src_port=INFO.src_port, dst=INFO.dst_addr, dst_port=INFO.dst_port)
CURVE = ("w_max_bytes", "k_us", "epoch", "t_us", "w_est_bytes")
"""Registers of CUBIC's curve."""
ROOM = (IntHop(queue_depth_pkts=0, queue_free_pkts=100, arrival_pkts_per_s=250, flow_count=1),)
"""One hop: as many packets come in 4 round trips as there is room for."""
SILENT = (IntHop(node_id=1),)
"""A hop that tells of nothing."""
NO_ROOM = (IntHop(queue_depth_pkts=100, queue_free_pkts=0, arrival_pkts_per_s=250, flow_count=1),)


MIN_RTT_US = 50_000
"""Of a flow of R-Hybrid."""
COMPILED = {name: compile(str(program)) for name, program in RHybrid.program.items()}


class Driven(Folded):
    """One flow with its algorithm: reports and letters reach the other half at once."""

    info = INFO
    algorithm: Any

    @property
    def ssthresh_pkts(self) -> float:
        return self["ssthresh_bytes"] / MSS

    @property
    def cwnd_pkts(self) -> float:
        return self.cwnd / MSS

    def param(self, **params: Any) -> None:
        """Set parameters of this flow, as the plane does."""
        for name, value in params.items():
            setattr(self.algorithm, name, value)
        self.algorithm.on_params(frozenset(params))

    def ack(self, *args: Any, **prims: Any) -> dict[str, int] | None:
        """Fold an ACK, and let the algorithm take the report if there is one."""
        report = super().ack(*args, **prims)
        if report is not None:
            self.take(report)
        return report

    def take(self, report: dict[str, int], **head: int) -> None:
        """Let the algorithm take a report."""
        head = {"now_us": self.now_us, "cwnd_bytes": self.cwnd, "missed": 0} | head
        self.algorithm.on_report(FakeReport(head, report, type(self.algorithm).__name__))

    def lose(self, ca_state: int = 3, **prims: int) -> None:
        """Fold an ACK that shows a lost segment, and acknowledges nothing."""
        self.ca_state = ca_state
        self.ack(0, **{"cwnd_limited": 0, "lost_pkts_sample": 1} | prims)

    def repair(self, pkts: int = 130) -> None:
        """Acknowledge everything that was on its way, in the kernel's state Open."""
        self.ca_state = OPEN
        for _ in range(2):
            self.ack(pkts // 2, cwnd_limited=0)


class Steered(Driven):
    """CUBIC with in-band telemetry."""

    def __init__(self, cwnd_pkts: float = 100, ssthresh_pkts: float | None = 100, **params: Any) -> None:
        super().__init__(IntCubicFold, cwnd_pkts)
        self.ssthresh = INFINITY if ssthresh_pkts is None else int(ssthresh_pkts * MSS)
        self.algorithm = IntCubic()
        self.algorithm.flow = self
        set_params(self.algorithm, params)
        self.algorithm.on_create(INFO)
        self.ack(0, cwnd_limited=0)

    def receive(
        self,
        cause: str | None = "none",
        hops: tuple[IntHop, ...] = ROOM,
        *,
        flow: FlowId = FLOW,
        age_us: int = 0,
        after_us: int = 0,
        interval_us: int | None = None,
    ) -> None:
        """Let a summary come."""
        self.now_us += after_us
        body = IntSummary(flow=flow, interval_us=interval_us, loss_cause=cause, hops=hops)  # type: ignore[arg-type]
        self.algorithm.on_telemetry(
            Sample(
                kind="int_summary",
                body=body,
                sender="sink",
                topic="",
                received_us=self.now_us,
                age_at_receipt_us=age_us,
            )
        )


class Hybrid(Driven):
    """A flow whose program its algorithm changes."""

    def __init__(
        self,
        cwnd_pkts: float = 100,
        ssthresh_pkts: float | None = 100,
        *,
        ecn_mode: EcnMode = "rfc3168",
        **params: Any,
    ) -> None:
        super().__init__(CubicProgram, cwnd_pkts)
        self.info = FakeInfo(ecn_mode=ecn_mode)
        self.ssthresh = INFINITY if ssthresh_pkts is None else int(ssthresh_pkts * MSS)
        self.min_rtt_us = MIN_RTT_US
        self.program = ""
        self.reported: list[tuple[str, dict[str, Any]]] = []
        self.algorithm = RHybrid()
        self.algorithm.flow = self
        set_params(self.algorithm, params)
        self.algorithm.on_create(self.info)
        self.ack(0, cwnd_limited=0)

    @property
    def rate_bytes_per_s(self) -> int:
        return self.interpreter.rate_bytes_per_s

    def set(self, *, rate_bytes_per_s: int | None = None, **registers: int) -> None:
        if rate_bytes_per_s is not None:
            self.interpreter.rate_bytes_per_s = rate_bytes_per_s
        super().set(**registers)

    def set_program(self, name: str, *, rate_bytes_per_s: int | None, **registers: int) -> None:
        cwnd_bytes, self.program = self.cwnd, name
        rate_before = self.rate_bytes_per_s
        self.interpreter = Interpreter(COMPILED[name], self.now_us)
        self.cwnd, self.interpreter.rate_bytes_per_s = cwnd_bytes, rate_before
        self.set(rate_bytes_per_s=rate_bytes_per_s, **registers)

    def emit(self, kind: str, /, **detail: Any) -> None:
        self.reported.append((kind, detail))

    def receive(
        self,
        regime: str = "SINGLE_OWNER",
        *,
        peer: str | None = INFO.src_addr,
        sender: str = "receiver",
        reason: str = "",
        kind: str = "regime_decision",
        ack: bool = True,
    ) -> None:
        """Let a decision come, and an ACK, with which a new program starts."""
        body = RegimeDecision(regime=regime, peer=peer, address=INFO.dst_addr, reason=reason)  # type: ignore[arg-type]
        self.algorithm.on_telemetry(
            Sample(kind=kind, body=body, sender=sender, topic="", received_us=self.now_us)
        )
        if ack:
            self.ack(0, cwnd_limited=0)

    def lose_telemetry(self, sender: str = "receiver") -> None:
        """Let the last decision of a sender expire."""
        self.algorithm.on_telemetry_lost("regime_decision", sender)

    def later(self, after_ms: float) -> None:
        """Fold an ACK that is so late, with the regular report."""
        self.ack(0, after_us=round(1000 * after_ms), cwnd_limited=0)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.reported]
