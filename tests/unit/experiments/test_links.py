"""Links that reorder, thin ACKs or encapsulate, in simulated runs."""

from __future__ import annotations

import pandas as pd
import pytest
from msgspec.structs import replace

from experiments.events import SetLink
from experiments.netlab.spec import Buffer, Direction, Reorder, Tunnel
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, Scenario

RATE_BYTES_PER_S = 2.5e6
PATH = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=10_000, buffer=Buffer(packets=200))
BACK = Direction(delay_us=10_000)


def played(way: Direction, back: Direction = BACK, *events: SetLink) -> tuple[float, dict[str, pd.Series]]:
    """Run a CUBIC flow for 5 s; return its goodput relative to the rate, and the links' counters."""
    result = run(
        Scenario(
            name="links",
            duration_s=5,
            datapath="sim",
            topology=PointToPoint(way, back),
            flows=(FlowSpec("flow", "sender", "receiver", "kernel/cubic"),),
            events=events,
        )
    )
    counters = {name: rows.iloc[-1] for name, rows in result.link_samples.groupby("link")}
    return result.flows["goodput_bytes_per_s"].iloc[0] / RATE_BYTES_PER_S, counters


def test_the_share_of_late_packets_is_that_of_the_link() -> None:
    goodput, links = played(replace(PATH, reorder=Reorder(ratio=0.1, late_us=4_000)))
    assert links["link>"]["late_pkts"] == pytest.approx(0.1 * links["link>"]["delivered_pkts"], rel=0.2)
    assert links["link<"]["late_pkts"] == 0
    assert goodput > 0.9, "Linux tolerates what is late by less than a quarter of the RTT"


def test_reordering_can_begin_and_end_in_a_run() -> None:
    begins = SetLink(2.0, "link>", {"reorder": {"ratio": 1.0, "late_us": 4_000}})
    _, links = played(PATH, BACK, begins, SetLink(3.0, "link>", {"reorder": None}))
    late = links["link>"]["late_pkts"] * 1500 / RATE_BYTES_PER_S
    assert late == pytest.approx(1.0, rel=0.1), "all packets of one second"


def test_a_slow_way_back_thins_acks_instead_of_losing_them() -> None:
    slow = Direction(rate_bytes_per_s=15_000, delay_us=10_000, buffer=Buffer(packets=50))
    lost_goodput, lost = played(PATH, slow)
    thinned_goodput, thinned = played(PATH, replace(slow, ack_filter=True))
    assert lost["link<"]["dropped_queue_pkts"] > 100 > lost["link<"]["dropped_ack_pkts"]
    assert thinned["link<"]["dropped_ack_pkts"] > 100 > thinned["link<"]["dropped_queue_pkts"]
    assert thinned_goodput > 0.95 * lost_goodput


def test_a_tunnel_takes_its_bytes_of_the_rate() -> None:
    goodput, links = played(replace(PATH, tunnel=Tunnel(overhead_bytes=80, mtu_bytes=1420)))
    assert links["link>"]["dropped_mtu_pkts"] == 0, "simulated hosts know the MTU"
    assert links["link>"]["delivered_bytes"] <= 5 * RATE_BYTES_PER_S
    assert 0.9 < goodput / (1368 / 1500) <= 1


def test_nothing_large_passes_a_silent_tunnel() -> None:
    goodput, links = played(replace(PATH, tunnel=Tunnel(overhead_bytes=80, mtu_bytes=1420, reports=False)))
    assert links["link>"]["dropped_mtu_pkts"] > 0
    assert goodput < 0.001
