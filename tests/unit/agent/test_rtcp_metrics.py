"""Metrics of clients' rate limits, over real HTTP."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest

from ccplane.agent.features.rtcp.metrics import RATE_BOUNDS, collecting
from ccplane.agent.metrics import MetricsAddress, serving
from ccplane.base.errors import CcpError
from experiments.netlab.sockets import free_port
from tests.unit.agent.test_alerts import OF_RTCP

KNOWN = {
    "max_clients": 100,
    "no_room": 9,
    "clients": [50, 1, 2, 0, 0, 3, 0, 4],
    "rates": [0, 2, 0, 1, *[0] * (len(RATE_BOUNDS) - 3)],
    "rates_sum": 175_000,
}


def scraped(known: Mapping[str, Any] | CcpError | None) -> list[str]:
    def read() -> Mapping[str, Any] | None:
        if isinstance(known, CcpError):
            raise known
        return known

    port = free_port()
    with (
        collecting(read) as collector,
        serving(MetricsAddress(port=port), collector) as server,
    ):
        server.start(lambda: None)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_clients_are_reported_by_state_and_rates_as_a_distribution() -> None:
    lines = scraped(KNOWN)
    assert [line for line in lines if "_clients" in line] == [
        'ccplane_rate_limit_clients{state="unlimited"} 50.0',
        'ccplane_rate_limit_clients{state="limited"} 1.0',
        'ccplane_rate_limit_clients{state="capped"} 2.0',
        'ccplane_rate_limit_clients{state="probing"} 0.0',
        'ccplane_rate_limit_clients{state="raised"} 0.0',
        'ccplane_rate_limit_clients{state="gone"} 3.0',
        'ccplane_rate_limit_clients{state="apart"} 4.0',
        "ccplane_rate_limit_max_clients 100.0",
    ]
    assert "ccplane_rate_limit_no_room_total 9.0" in lines
    buckets = [float(line.split()[-1]) for line in lines if "_bucket{" in line]
    assert buckets[:4] == [0.0, 2.0, 2.0, 3.0]
    assert buckets[-1] == 3.0


@pytest.mark.parametrize("known", [None, CcpError("rtcp.refused", "no")])
def test_there_is_nothing_to_report_where_there_is_no_table(known: CcpError | None) -> None:
    assert scraped(known) == []


def test_the_metric_of_the_alert_rules_is_there() -> None:
    lines = scraped(KNOWN)
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in OF_RTCP)
