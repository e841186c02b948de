"""`ccp bench rtcp` with few connections: every figure is measured, every connection's client is known."""

from __future__ import annotations

import pytest

from experiments.bench import flows, rtcp
from experiments.bench.rounds import Plan
from experiments.bench.rtcp import Clients, Load

COUNT = 1_000

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("whatever_others_do")]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "SECONDS", 1.0)
    monkeypatch.setattr(rtcp, "LIMITED_S", 2.0)
    monkeypatch.setattr(rtcp, "CORE_ACKS", 10_000)


def test_every_client_is_known_and_every_figure_is_measured() -> None:
    metrics = rtcp.run(Plan(1, 1), count=COUNT, loads=[Load.FREE]).metrics
    for name in rtcp.OURS:
        assert metrics[f"clients.{name}.free"].value == COUNT
        assert metrics[f"limited.{name}.free"].value == 0
        assert metrics[f"cpu_per_gb_ratio.{name}.free"].value > 0
        assert 20 < metrics[f"ack_ns.{name}.free"].value < 100_000
        assert 0 < metrics[f"cpu_share.{name}.free"].value < 1
        # Each client has a detector of nine candidates and counters.
        assert 500 < metrics[f"memory_bytes.{name}.free"].value < 10_000
    assert metrics["memory_bytes.one_client"].value < metrics["memory_bytes.cubic.free"].value - 500
    assert metrics["core_ns.waiting"].value < metrics["core_ns.limited"].value


@pytest.mark.long
def test_clients_behind_token_buckets_are_found_limited() -> None:
    pairs, _ = rtcp.measure(Plan(1, 1), Clients(COUNT // 10, Load.LIMITED))
    assert [one.congestion for one in pairs] == list(rtcp.OURS)
    for pair in pairs:
        assert pair.kernel.retrans_ratio > 0.02
        assert pair.cost.clients == COUNT // 10
        # How many depends on the time that each has had: under CUBIC 31 of 100 after 6 s, 57 after 12 s.
        # Without limits none is found, which the test above asserts.
        assert pair.cost.limited > 0
