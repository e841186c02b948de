"""HPCC by echoes of the path: the inflight of a link, the window, and CUBIC where nobody echoes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccp_algs.cubic import CubicFold
from ccp_algs.hpcc import Hpcc, HpccFold
from tests.unit.ccp_algs.folded import INFINITY, MSS, OPEN, RECOVERY, Folded, acks, timeout
from tests.unit.ccp_algs.steered import INFO, Driven

T_US = 50_000
LINK = 1000 * 1500
"""A thousand full packets a second, 50 in T [bytes/s]."""
STEP = 2.5
"""W_AI of a flow alone: 5 % of those."""


class Steering(Driven):
    """A flow of HPCC, past its first ACK."""

    def __init__(self, cwnd_pkts: float = 20, **path: int) -> None:
        super().__init__(HpccFold, cwnd_pkts)
        self.srtt_us, self.min_rtt_us = T_US, T_US
        self.delivers_pkts: float | None = None
        self.reported: list[str] = []
        self.algorithm = Hpcc()
        self.algorithm.flow = self
        self.algorithm.on_create(INFO)
        self.ack(0, cwnd_limited=0)

    def ack(self, *args: Any, **prims: Any) -> dict[str, int] | None:
        """Fold an ACK; the path delivers the window per round trip, or `delivers_pkts`."""
        delivers_bytes = self.cwnd if self.delivers_pkts is None else self.delivers_pkts * MSS
        rate = int(delivers_bytes * 1_000_000 / T_US)
        return super().ack(*args, **({"rate_incoming": rate, "rate_outgoing": rate} | prims))

    def set(self, *, rate_bytes_per_s: int | None = None, **registers: int) -> None:
        super().set(**registers)

    def emit(self, kind: str, /, **detail: Any) -> None:
        self.reported.append(kind)

    def find(self, queue_pkts: float = 0, load: float = 1.0, *, pkts: int = 0, **path: int) -> None:
        """Fold an ACK whose echo found such a queue, and arrivals by the link's rate."""
        found = {"queue_bytes": int(queue_pkts * MSS), "arrival_bytes_per_s": int(load * 1000 * MSS)}
        self.echo(**{"link_bytes_per_s": LINK, "fresh": 1} | found | path)
        self.ack(pkts)
        self.path["fresh"] = 0

    def round(self, queue_pkts: float = 0, load: float = 1.0) -> None:
        """Let a round trip pass, and then find that."""
        self.ack(self.cwnd_pkts + 1, after_us=T_US)
        self.find(queue_pkts, load)


@pytest.mark.parametrize(
    ("queue_pkts", "load", "inflight"), [(0, 0.5, 0.5), (0, 1.0, 1.0), (25, 1.0, 1.5), (50, 1.0, 2.0)]
)
def test_inflight_of_the_link_is_queue_and_arrivals(queue_pkts: int, load: float, inflight: float) -> None:
    flow = Steering()
    flow.find(queue_pkts, load)
    assert flow.ack(0, after_us=200_000)["utilization_ppm"] == pytest.approx(1e6 * inflight, rel=0.001)


@pytest.mark.parametrize(
    ("cwnd_pkts", "queue_pkts", "load", "expected_pkts"),
    [
        (20, 0, 0.5, 20 + STEP),  # below eta: a step
        (40, 0, 1.0, 40 * 0.95 + STEP),
        (100, 50, 1.0, 100 * 0.95 / 2 + STEP),
        (300, 50, 1.0, 50 + STEP),  # no flow needs more than the link holds
    ],
)
def test_window_follows_the_inflight(
    cwnd_pkts: int, queue_pkts: int, load: float, expected_pkts: float
) -> None:
    flow = Steering(cwnd_pkts)
    flow.find(queue_pkts, load)
    assert flow.cwnd_pkts == pytest.approx(expected_pkts, rel=0.001)
    assert flow.interpreter.rate_bytes_per_s == pytest.approx(flow.cwnd / 0.05, rel=0.001)


def test_steps_are_shared_by_the_flows_of_the_link() -> None:
    flow = Steering()
    flow.find(0, 0.5, flow_count=5)
    assert flow.cwnd_pkts == pytest.approx(20 + STEP / 5, rel=0.001)


def test_acks_of_one_round_answer_once() -> None:
    flow = Steering(100)
    for _ in range(10):
        flow.find(50, 1.0)
    assert flow.cwnd_pkts == pytest.approx(50, rel=0.001)


def test_after_some_steps_the_window_is_what_fills_the_link() -> None:
    flow = Steering()
    flow.find(0, 0.5)
    for number in range(2, 6):
        flow.round(0, 0.5)
        assert flow.cwnd_pkts == pytest.approx(20 + number * STEP, rel=0.001)
    flow.round(0, 0.5)
    assert flow.cwnd_pkts == pytest.approx(32.5 * 0.95 / 0.5 - 9.25, abs=STEP)  # 50, and a step


def test_what_the_mean_lags_after_is_added() -> None:
    flow = Steering()
    flow.find(0, 0.2)
    flow.round(0, 0.4)  # in T a mean over 2 T has risen by 0.2: arrivals are at 0.4 + 2 * 0.2
    assert flow.ack(0, after_us=200_000)["utilization_ppm"] == pytest.approx(800_000, rel=0.001)


@pytest.mark.parametrize(
    "path", [{"link_bytes_per_s": 0}, {"all_known": 0}, {"age_us": 1_000_000}, {"age_us": INFINITY}]
)
def test_where_the_path_is_silent_it_rests(path: dict[str, int]) -> None:
    flow = Steering()
    flow.find(0, 0.5)
    assert flow.reported == ["hpcc:steers"]
    flow.find(0, 0.5, **path)
    assert flow.reported == ["hpcc:steers", "hpcc:rests"]
    assert flow["ssthresh_bytes"] == flow.cwnd, "congestion avoidance from there"
    assert flow.interpreter.rate_bytes_per_s == 0


def test_losses_are_judged_by_the_echo() -> None:
    for path, factor in (({"losses_link": 1}, 1.0), ({"losses_congestion": 1}, 0.7), ({}, 0.7)):
        flow = Steering(40)
        flow.find(0, 0.9)
        before = flow.cwnd_pkts
        flow.echo(**path)
        flow.lose()
        assert flow.cwnd_pkts == pytest.approx(factor * before, rel=0.001)
        flow.repair()
        flow.find(0, 0.9)
        assert flow.cwnd_pkts == pytest.approx(factor * before + (0 if factor == 1 else STEP), abs=STEP)


def test_a_timeout_begins_again() -> None:
    flow = Steering(40)
    flow.find(0, 0.9)
    flow.echo(losses_congestion=1)
    timeout(flow, after_us=300_000)
    flow.ca_state = OPEN
    flow.find(0, 0.1)
    assert flow.cwnd_pkts < 40


LIE = {"link_bytes_per_s": (1 << 32) - 3}
"""The fastest link that an echo can claim."""


def test_a_claimed_link_doubles_the_window_once_a_round_trip_at_most() -> None:
    flow = Steering(20)
    for expected_pkts in (40, 80, 160):
        delivers_pkts = flow.cwnd_pkts
        for _ in range(20):
            flow.delivers_pkts = delivers_pkts  # what was measured is what was sent a round trip ago
            flow.find(0, 0, **LIE)
        assert flow.cwnd_pkts == pytest.approx(expected_pkts, rel=0.001)
        assert flow.interpreter.rate_bytes_per_s == pytest.approx(flow.cwnd / 0.05, rel=0.001)
        flow.ack(flow.cwnd_pkts + 1, after_us=T_US)


def test_whatever_is_claimed_the_window_is_at_most_twice_what_the_path_delivers() -> None:
    flow = Steering(20)
    flow.delivers_pkts = 30
    for _ in range(50):
        flow.ack(flow.cwnd_pkts + 1, after_us=T_US)
        flow.find(0, 0, **LIE)
    assert flow.cwnd_pkts == pytest.approx(60, rel=0.001)


@pytest.mark.parametrize("rates", [{}, {"rate_incoming": LINK}, {"rate_outgoing": LINK}])
def test_without_a_measured_rate_the_window_does_not_grow(rates: dict[str, int]) -> None:
    flow = Steering(20)
    flow.echo(link_bytes_per_s=LINK, fresh=1, queue_bytes=0, arrival_bytes_per_s=MSS)
    Driven.ack(flow, 0, **rates)
    assert flow.cwnd_pkts == 20


# Properties


@given(acks=acks(), losses=st.sets(st.integers(0, 99), max_size=20))
def test_without_echoes_the_window_is_that_of_cubic(acks: list[dict[str, Any]], losses: set[int]) -> None:
    flow = Steering(100)
    plain = Folded(CubicFold, 100)
    plain.srtt_us, plain.min_rtt_us = T_US, T_US
    plain.ack(0, cwnd_limited=0)
    for i, ack in enumerate(acks):
        plain.set(**{name: flow[name] for name in ("k_us", "w_max_bytes")})
        for one in (flow, plain):
            one.ca_state = RECOVERY if i in losses else OPEN
            one.ack(**ack, lost_pkts_sample=int(i in losses))
        assert flow.cwnd == plain.cwnd


FOUND = st.tuples(st.floats(0, 1000), st.floats(0, 2), st.integers(0, 10))


@given(acks=acks(), found=st.dictionaries(st.integers(0, 99), FOUND), losses=st.sets(st.integers(0, 99)))
def test_whatever_is_found_the_window_stays_within_what_the_link_holds(
    acks: list[dict[str, Any]], found: dict[int, tuple[float, float, int]], losses: set[int]
) -> None:
    flow = Steering()
    flow.find(0, 0.5)
    for i, ack in enumerate(acks):
        flow.ca_state = RECOVERY if i in losses else OPEN
        flow.ack(**ack, lost_pkts_sample=int(i in losses))
        if i in found:
            queue_pkts, load, flows = found[i]
            flow.find(queue_pkts, load, flow_count=flows)
        assert 2 * MSS <= flow.cwnd <= (50 + STEP) * MSS + 2 * MSS
