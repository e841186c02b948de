"""Probes of whose queue it is, of flows of `r_hybrid` over a link that is computed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ccp_algs.share_probe import DEPTH_PERMILLE, HALF_US, SPREAD, Prober
from tests.unit.ccp_algs.folded import MSS, RECOVERY
from tests.unit.ccp_algs.steered import MIN_RTT_US, Hybrid

LINK_BYTES_PER_S = 12_500_000
QUEUE_US = 20_000
STEP_US = 1_000
EVERY_S = 2.0
UNTIL_RECEIVED_S = 2.0
"""Clocks begin at 1 s, the first probe at 2 s."""


def over_a_link(
    flow: Hybrid,
    share: float,
    seconds: float,
    queue_us: float = QUEUE_US,
    at_step: Callable[[], None] = lambda: None,
) -> list[float]:
    """Let a flow send over a link that it has a share of, beside others at a constant rate.

    Unpaced, it sends what arrives.

    Returns:
        The queueing delay after each step [us].
    """
    others_bytes_per_s = (1 - share) * LINK_BYTES_PER_S
    sent: list[tuple[float, float]] = []
    delays = []
    for _ in range(round(seconds * 1e6 / STEP_US)):
        rate_bytes_per_s = flow.rate_bytes_per_s or share * LINK_BYTES_PER_S
        queue_us += STEP_US * ((rate_bytes_per_s + others_bytes_per_s) / LINK_BYTES_PER_S - 1)
        queue_us = max(0.0, queue_us)
        delays.append(queue_us)
        rtt_us = MIN_RTT_US + queue_us
        sent.append((flow.now_us + rtt_us, rtt_us))
        arrived = [one for one in sent if one[0] <= flow.now_us + STEP_US]
        if arrived:
            sent = sent[len(arrived) :]
            flow.srtt_us = round(arrived[-1][1])
        pkts = share * LINK_BYTES_PER_S * STEP_US / 1e6 / MSS
        flow.ack(pkts, after_us=STEP_US, rtt_us=flow.srtt_us, cwnd_limited=0)
        at_step()
    return delays


def shares(flow: Hybrid) -> list[float]:
    return [detail["share"] for kind, detail in flow.reported if kind == "regime:probed"]


@pytest.mark.parametrize(
    ("share", "program"), [(1.0, "dctcp"), (0.9, "dctcp"), (0.7, "cubic"), (0.3, "cubic")]
)
def test_the_echo_is_the_share_of_the_queue_and_the_flow_follows_it(share: float, program: str) -> None:
    flow = Hybrid(probe_s=EVERY_S)
    delays = over_a_link(flow, share, UNTIL_RECEIVED_S)
    assert shares(flow) == [pytest.approx(share, abs=0.04)]
    assert flow.program == program
    assert max(delays) <= QUEUE_US * 1.01  # the slow half comes first
    assert min(delays) == pytest.approx(QUEUE_US - share * DEPTH_PERMILLE / 1000 * HALF_US, rel=SPREAD / 4)


def test_afterwards_window_and_pacing_are_as_before() -> None:
    flow = Hybrid(probe_s=EVERY_S)
    rates, windows = set(), set()

    def look() -> None:
        rates.add(flow.rate_bytes_per_s)
        windows.add(flow.cwnd)

    over_a_link(flow, 0.5, UNTIL_RECEIVED_S, at_step=look)
    assert sorted(rates) == [
        0,
        *(pytest.approx(one * LINK_BYTES_PER_S / 2, rel=0.01) for one in (0.95, 1.05)),
    ]
    assert max(windows) > 100 * MSS
    assert (flow.rate_bytes_per_s, flow.cwnd_pkts) == (0, 100)


def test_a_loss_ends_a_probe_at_once() -> None:
    flow = Hybrid(probe_s=EVERY_S)

    def lose() -> None:
        if flow.rate_bytes_per_s and "lost" not in reported:
            reported.append("lost")
            flow.lose(RECOVERY)
            reported.extend([flow.rate_bytes_per_s, round(flow.cwnd_pkts)])
            flow.repair()

    reported: list[object] = []
    over_a_link(flow, 1.0, UNTIL_RECEIVED_S, at_step=lose)
    assert reported == ["lost", 0, 70]  # of the window before, not of the room for the fast halves
    assert shares(flow) == []


def test_a_queue_that_a_slow_half_would_empty_is_not_probed() -> None:
    flow = Hybrid(probe_s=EVERY_S)
    over_a_link(flow, 1.0, 5, queue_us=0.9 * Prober(flow.info.src_addr).drains_us)
    assert (shares(flow), flow.rate_bytes_per_s) == ([], 0)


def test_an_echo_stands_for_three_probes_that_were_not_done() -> None:
    flow = Hybrid(probe_s=EVERY_S)
    over_a_link(flow, 1.0, UNTIL_RECEIVED_S)
    assert flow.program == "dctcp"
    over_a_link(flow, 1.0, 5, queue_us=0)
    assert flow.program == "dctcp"
    over_a_link(flow, 1.0, 2, queue_us=0)
    assert flow.program == "cubic"


def test_a_flow_that_none_decides_of_any_more_does_not_trust_its_probes() -> None:
    flow = Hybrid(probe_s=EVERY_S, stale_ms=500)
    flow.receive("SHARED")
    over_a_link(flow, 1.0, UNTIL_RECEIVED_S)
    assert flow.program == "dctcp"
    flow.lose_telemetry()
    over_a_link(flow, 1.0, 1)
    assert flow.program == "cubic"
    assert flow.kinds[-2:] == ["regime:fail_safe", "regime:switched"]
    before = shares(flow)
    over_a_link(flow, 1.0, 5)
    assert shares(flow) == before


@pytest.mark.parametrize("params", [{}, {"probe_s": EVERY_S, "shared_ecn": "ignore"}])
def test_nothing_is_probed_by_default_or_without_a_program_that_can(params: dict[str, Any]) -> None:
    flow = Hybrid(**params)
    over_a_link(flow, 1.0, UNTIL_RECEIVED_S)
    assert (flow.reported, flow.rate_bytes_per_s) == ([], 0)


def test_flows_of_a_host_go_together_and_hosts_do_not() -> None:
    drains_us = [Prober(address).drains_us for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3")]
    assert drains_us[0] == drains_us[1]
    assert len(set(drains_us)) == 3
    minimum, maximum = (DEPTH_PERMILLE / 1000 * HALF_US * (1 + sign * SPREAD) for sign in (-1, 1))
    assert all(minimum <= one <= maximum for one in drains_us)
