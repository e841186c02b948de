"""A deterministic source of made-up flows for the screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ccplane.agent.flowtable import FlowRow
from ccplane.agent.monitor.source import Happened, Inside, Look, Parameter, Received, Source
from ccplane.agent.runfile import RunInfo
from ccplane.base.errors import CcpError, FlowGone, LoadError
from tests.unit.agent.fakes import FakeStats

AGENT = RunInfo(
    pid=4242, pin_dir="/sys/fs/bpf/ccplane", programs={1: "cubic/default", 2: "reno/default", 3: "r_tcp/wait"}
)

INSIDE = Inside(
    "cubic",
    parameters=[
        Parameter("beta", 0.7, "0..1, share of the window kept after a loss"),
        Parameter("c_pkts_per_s3", 0.4, "> 0"),
        Parameter("fast_convergence", True),
    ],
    state={"w_max_bytes": 181_248, "k_s": 1.2384917, "epoch_start_us": None, "in_slow_start": False},
    telemetry=[
        Received(
            "receiver_signal",
            "host-b",
            0.24,
            {"window_ms": 200, "rtt_p50_us": 20_410, "rtt_p99_us": 31_877, "ce_marks": 0, "loss_pkts": 2},
        )
    ],
    report={"acked_bytes": 1_448, "lost_pkts": 0, "rtt_us": 20_410},
    report_age_s=0.012,
)

MIDDAY_S = 1_795_262_400.0

EVENTS = (
    Happened(MIDDAY_S, "flow:created", "cubic", 1),
    Happened(MIDDAY_S + 3, "param:set", "cubic", None, {"name": "beta", "value": 0.7}),
    Happened(MIDDAY_S + 4, "flow:created", "reno", 2),
    Happened(MIDDAY_S + 9, "algorithm:reloaded", "cubic", None, {"new_sha256": "9ae2", "flows": 3}),
)


def flow_row(flow_id: int, **changes: object) -> FlowRow:
    """Return a row with round numbers and `changes`."""
    values: dict[str, object] = {
        "flow_id": flow_id,
        "src": f"10.1.0.1:{40_000 + flow_id}",
        "dst": "10.1.0.2:5001",
        "cc_name": "ccp.cubic",
        "steered_by": "cubic/default",
        "fallback_cause": "new",
        "fallback_stay": None,
        "cwnd_bytes": 144_800,
        "rate_bytes_per_s": 0,
        "srtt_us": 20_500,
        "min_rtt_us": 20_000,
        "throughput_bytes_per_s": 5_000_000.0,
        "loss_ratio": None,
        "retrans_pkts": 0,
    }
    return FlowRow(**(values | changes))  # type: ignore[arg-type]


def made_up(turn: int) -> list[FlowRow]:
    """Return a snapshot: flows with a saw-tooth, paced, in fallback, idle, and with a long RTT."""
    tooth = 100_000 + 8_000 * (turn % 13)
    wave = 2_500_000 * (1 + 0.5 * math.sin(turn / 4))
    return [
        flow_row(
            1,
            cwnd_bytes=tooth,
            throughput_bytes_per_s=None if turn == 0 else tooth / 0.0205,
            srtt_us=20_000 + tooth // 10,
            loss_ratio=0.0012 if turn % 13 == 0 else 0.0,
            retrans_pkts=3 * (turn // 13),
        ),
        flow_row(
            2,
            dst="10.1.0.3:443",
            cc_name="ccp.r_tcp",
            steered_by="r_tcp/wait",
            rate_bytes_per_s=int(wave),
            throughput_bytes_per_s=None if turn == 0 else 0.97 * wave,
        ),
        flow_row(
            3, cc_name="ccp", steered_by="fallback", cwnd_bytes=14_480, throughput_bytes_per_s=240_000.0
        ),
        flow_row(
            4,
            cc_name="ccp.reno",
            steered_by="reno/default",
            srtt_us=0,
            min_rtt_us=0,
            throughput_bytes_per_s=0.0,
        ),
        flow_row(
            5,
            src="[2001:db8:17::5]:41822",
            dst="[2001:db8:4000:12::17]:5201",
            cc_name="ccp.reno",
            steered_by="reno/default",
            cwnd_bytes=2_896_000 + 20_000 * (turn % 30),
            throughput_bytes_per_s=13_000_000.0 + 90_000 * (turn % 30),
            srtt_us=180_250,
            retrans_pkts=1_204,
        ),
    ]


@dataclass
class FakeSource:
    """Records requests.

    Attributes:
        flows: Rows of the next polls; empty for made-up ones that change with every poll.
        looks: Number of polls.
        failure: What requests to the agent raise; None if it answers.
        lost: What a poll raises; None if it works.
        refusal: What changes raise; None if they succeed.
        asked: The requested changes.
        closed: Whether it was closed.
        reported: Events of the next request.
        gone: Flows that the agent does not know.
        receive_only: Flows that have sent no data.
    """

    flows: list[FlowRow] = field(default_factory=list)
    looks: int = 0
    failure: CcpError | None = None
    lost: LoadError | None = None
    refusal: CcpError | None = None
    asked: list[tuple[object, ...]] = field(default_factory=list)
    closed: bool = False
    reported: Sequence[Happened] = EVENTS
    gone: Sequence[int] = ()
    receive_only: Sequence[int] = ()

    def look(self) -> Look:
        if self.lost is not None:
            raise self.lost
        rows = self.flows or made_up(self.looks)
        self.looks += 1
        stats = {
            row.flow_id: FakeStats(
                row.flow_id,
                bytes_acked=1 if row.flow_id in self.receive_only else 1_000_000 * self.looks,
                delivered_pkts=690 * self.looks,
                retrans_pkts=row.retrans_pkts,
                lost_pkts=row.retrans_pkts,
                reports=12 * self.looks,
            )
            for row in rows
        }
        return Look(
            rows,
            stats,
            None if self.failure else AGENT,
            {"flows_over_limit": 0},
            MIDDAY_S + 0.5 * (self.looks - 20),
        )

    def inside(self, flow_id: int) -> Inside:
        if self.failure is not None:
            raise self.failure
        if flow_id in self.gone:
            raise FlowGone("flow.gone", f"no algorithm steers a flow {flow_id}")
        return INSIDE if flow_id == 1 else Inside("reno")

    def events(self) -> Sequence[Happened]:
        if self.failure is not None:
            raise self.failure
        reported, self.reported = self.reported, ()
        return reported

    def algorithms(self) -> Sequence[str]:
        if self.failure is not None:
            raise self.failure
        return ["cubic", "r_tcp", "reno"]

    def set_param(self, name: str, text: str, algorithm: str, flow_id: int | None) -> int:
        self.asked.append(("set", name, text, algorithm, flow_id))
        if self.refusal is not None:
            raise self.refusal
        return 1 if flow_id is not None else 3

    def switch(self, algorithm: str, flow_id: int | None, before: str) -> int:
        self.asked.append(("switch", algorithm, flow_id, before))
        if self.refusal is not None:
            raise self.refusal
        return 1 if flow_id is not None else 3

    def close(self) -> None:
        self.closed = True


def fake_source() -> FakeSource:
    made = FakeSource()
    _: Source = made
    return made
