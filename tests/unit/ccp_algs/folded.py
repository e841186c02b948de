"""A fold program under the reference interpreter, fed with ACKs that a kernel could have seen."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ccplane.base._native import Interpreter, compile

MSS = 1448
INFINITY = (1 << 64) - 1
NO_SAMPLE = 0xFFFF_FFFF

OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)


def acks(**more: Any) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return what 100 ACKs may be at most, for `Folded.ack`, with more of what each may carry."""
    usual = {
        "pkts": st.sampled_from([0, 1, 2, 10, 44]),
        "after_us": st.integers(0, 50_000),
        "rtt_us": st.sampled_from([50_000, 60_000, 99_000, 400_000, NO_SAMPLE]),
        "cwnd_limited": st.sampled_from([0, 1, 1, 1]),
    }
    return st.lists(st.fixed_dictionaries(usual | more), max_size=100)


class Folded:
    """One flow: what the datapath keeps of it between two ACKs, and its fold program."""

    def __init__(
        self, program: Any, cwnd_pkts: float = 10, now_us: int = 1_000_000, **registers: int
    ) -> None:
        self.interpreter = Interpreter(compile(str(program)), now_us)
        self.now_us = now_us
        self.srtt_us = 100_000
        self.min_rtt_us = 0
        self.mss = MSS
        self.ca_state = OPEN
        self.ssthresh = INFINITY
        self.delivered_bytes = 0
        self.reports: list[dict[str, int]] = []
        self.path: dict[str, int] = {}
        self.interpreter.cwnd_bytes = int(cwnd_pkts * MSS)
        self.set(**registers)

    @property
    def cwnd(self) -> int:
        return self.interpreter.cwnd_bytes

    @cwnd.setter
    def cwnd(self, value: int) -> None:
        self.interpreter.cwnd_bytes = value

    def set(self, **registers: int) -> None:
        for name, value in registers.items():
            self.interpreter.set(name, value)

    def __getitem__(self, register: str) -> int:
        return self.interpreter.controls[register]

    def ack(
        self, pkts: float = 1, after_us: int = 0, rtt_us: int | None = None, **prims: int
    ) -> dict[str, int] | None:
        """Fold one ACK of `pkts` segments; names of other primitives without their prefix."""
        acked = int(pkts * self.mss)
        self.now_us += after_us
        self.delivered_bytes += acked
        values = {
            "Ack.bytes_acked": acked,
            "Ack.packets_acked": int(pkts),
            "Ack.now": self.now_us,
            "Flow.cwnd_limited": 1,
            "Flow.srtt_us": self.srtt_us,
            "Flow.min_rtt_us": self.min_rtt_us,
            "Flow.mss": self.mss,
            "Flow.ca_state": self.ca_state,
            "Flow.snd_ssthresh": self.ssthresh,
            "Flow.delivered_bytes": self.delivered_bytes,
            "Flow.bytes_in_flight": self.cwnd,
            "Flow.packets_in_flight": self.cwnd // self.mss,
            "Flow.rtt_sample_us": self.srtt_us if rtt_us is None else rtt_us,
        }
        in_ack = ("bytes_misordered", "ecn_bytes", "ecn_packets", "lost_pkts_sample", "packets_misordered")
        values |= {("Ack." if name in in_ack else "Flow.") + name: value for name, value in prims.items()}
        values |= {f"Int.{name}": value for name, value in self.path.items()}
        report = self.interpreter.ack(self.now_us, values)
        self.cwnd = max(self.cwnd, 2 * self.mss)  # as the datapath does
        if report is not None:
            self.reports.append(report)
        return report

    def echo(self, **path: int) -> None:
        """Let ACKs tell of the path from now on: one hop with a half full queue, and what else is given."""
        usual = {"age_us": self.srtt_us, "hops": 1, "hop": 1, "all_known": 1}
        queue = {"queue_bytes": 50 * self.mss, "free_bytes": 50 * self.mss, "flow_count": 1}
        self.path = usual | queue | self.path | path

    def round_trip(self, pkts_per_ack: int = 2, **prims: int) -> None:
        """Fold the ACKs of one window, spread over a round trip."""
        n_acks = max(1, self.cwnd // self.mss // pkts_per_ack)
        for _ in range(n_acks):
            self.ack(pkts_per_ack, after_us=self.srtt_us // n_acks, **prims)


def started(program: Any, cwnd_pkts: float = 100, ssthresh_pkts: float = 100, min_rtt_us: int = 0) -> Folded:
    """Return a flow whose program has seen its first, quiet ACK, in congestion avoidance."""
    flow = Folded(program, cwnd_pkts)
    flow.ssthresh = int(ssthresh_pkts * MSS)
    flow.min_rtt_us = min_rtt_us
    flow.ack(0, cwnd_limited=0)
    flow.reports.clear()
    return flow


def events(flow: Folded) -> list[int]:
    return [report["event"] for report in flow.reports if report["event"]]


def timeout(flow: Folded, **prims: int) -> dict[str, int] | None:
    """Let the retransmission timer fire: the kernel sets the window to a segment and runs the fold."""
    flow.ca_state = LOSS
    flow.cwnd = MSS
    return flow.ack(0, was_timeout=1, lost_pkts_sample=10, bytes_in_flight=0, rtt_us=NO_SAMPLE, **prims)


def operators_on_a_quiet_ack(program: Any) -> int:
    """Return about how many instructions an ACK costs in congestion avoidance when nothing happens.

    One for each operator of all conditions, of what is unconditional, and of the block that collects credit.
    Growth itself runs 16 times a window.
    """
    events = program.source.split("(when ")[1:]
    conditions = [event.splitlines()[0] for event in events]
    always = [
        event for event in events if event.startswith(("true", "(&& may_grow (== ", "(&& may_grow_on (== "))
    ]
    assert len(always) >= 4
    lines = conditions + [line for event in always for line in event.splitlines()[1:]]
    return sum(line.count("(") for line in lines)
