from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ccp_algs.cubic_core import k_us
from experiments.bench.python_cubic import PythonCubic
from experiments.netlab.spec import Buffer, Direction
from experiments.run import run
from experiments.scenario import Flow, PointToPoint, Scenario

MSS = 1448
RTT_US = 50_000


class FakeFlow:
    """Keeps the window that was set last."""

    info = SimpleNamespace(mss_bytes=MSS, init_cwnd_bytes=10 * MSS)
    cwnd_bytes = 10.0 * MSS

    def set(self, *, cwnd_bytes: float) -> None:
        self.cwnd_bytes = cwnd_bytes


def begun() -> tuple[PythonCubic, FakeFlow]:
    algorithm, flow = PythonCubic(), FakeFlow()
    algorithm.flow = flow  # type: ignore[assignment]
    algorithm.on_create(flow.info)  # type: ignore[arg-type]
    return algorithm, flow


def report(cwnd_pkts: float, **fields: int) -> Any:
    usual = {
        "now_us": 1_000_000,
        "acked": 0,
        "lost": 0,
        "limited": 1,
        "timeouts": 0,
        "srtt_us": RTT_US,
        "rtt_us": RTT_US,
        "min_rtt_us": RTT_US,
        "ca_state": 0,
        "delivered_bytes": 1_000_000,
    }
    return SimpleNamespace(cwnd_bytes=round(cwnd_pkts * MSS), **{**usual, **fields})


def test_slow_start_grows_by_what_is_acknowledged_until_the_delay_rises() -> None:
    algorithm, flow = begun()
    algorithm.on_report(report(100, acked=50 * MSS))
    assert flow.cwnd_bytes == 150 * MSS
    algorithm.on_report(report(150, acked=50 * MSS, rtt_us=RTT_US + RTT_US // 8))
    assert flow.cwnd_bytes == 150 * MSS


def test_a_loss_reduces_once_a_window_and_the_curve_leads_back_to_it() -> None:
    algorithm, flow = begun()
    algorithm.on_report(report(100, lost=1, ca_state=3))
    assert flow.cwnd_bytes == pytest.approx(70 * MSS)
    algorithm.on_report(report(70, lost=1, ca_state=3, delivered_bytes=1_000_000 + 100 * MSS))
    assert flow.cwnd_bytes == pytest.approx(70 * MSS)
    # RFC 9438 section 4.2: W_cubic(K) = W_max; the report comes a round trip before that, for a whole window.
    at_k = report(
        70,
        acked=70 * MSS,
        now_us=1_000_000 + k_us(100 * MSS, 70 * MSS, MSS) - RTT_US,
        delivered_bytes=1 << 30,
    )
    algorithm.on_report(at_k)
    assert flow.cwnd_bytes == pytest.approx(100 * MSS)
    algorithm.on_report(report(100, lost=1, ca_state=3, delivered_bytes=1 << 30))
    assert flow.cwnd_bytes == pytest.approx(70 * MSS)


def test_a_timeout_leaves_the_window_to_the_kernel_and_slow_start_below_the_threshold() -> None:
    algorithm, flow = begun()
    algorithm.on_report(report(100, acked=10 * MSS))
    algorithm.on_report(report(1, timeouts=1, ca_state=4))
    assert flow.cwnd_bytes == 110 * MSS  # nothing was set
    algorithm.on_report(report(2, acked=2 * MSS))
    assert flow.cwnd_bytes == 4 * MSS
    assert algorithm.ssthresh_bytes == pytest.approx(77 * MSS)


def test_a_flow_fills_its_path() -> None:
    scenario = Scenario(
        name="in-python",
        topology=PointToPoint(Direction(rate_bytes_per_s=1.25e6, delay_us=10_000, buffer=Buffer(bdp=1))),
        flows=(Flow("flow", "sender", "receiver", f"{PythonCubic.__module__}:PythonCubic"),),
        duration_s=4,
        datapath="sim",
    )
    assert run(scenario).flows["goodput_bytes_per_s"][0] > 0.9 * 1.25e6 * MSS / 1500
