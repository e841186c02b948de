"""R-TCP's detector by the kernel itself: it finds what the same code finds in a process."""

from __future__ import annotations

import pytest

from ccp_algs.rtcp import Options
from ccplane.base._native import rtcp_replay
from tests.unit.ccp_algs.rtcp import network
from tests.unit.ccp_algs.rtcp.network import MBIT, MSS
from tests.unit.ccp_algs.rtcp.test_detector import RECORDED, recorded

pytestmark = pytest.mark.kernel(struct_ops=False)


@pytest.mark.parametrize("n_candidates", [3, 9, 17])
def test_the_kernel_finds_what_the_host_finds(n_candidates: int) -> None:
    options = Options(n_candidates=n_candidates).to_bytes()
    path = network.path(1.3 * MBIT, 385_000, rtt_s=0.018)
    limited = network.events(network.recorded(path, "bbr", 12, (1.5e6, 1e5, 1e8), 0.5))
    rows = [(kind == "S", *now) for kind, now in limited]
    # The limit is lifted: 20 Mbit/s get through, and nothing is lost.
    _, time_us, delivered_pkts, lost_pkts, min_rtt_us = rows[-1]
    rows += [(False, time_us + 600 * i, delivered_pkts + i, lost_pkts, min_rtt_us) for i in range(1, 8000)]
    found = rtcp_replay(options, MSS, rows, in_kernel=True)
    assert found == rtcp_replay(options, MSS, rows)
    detected_at_us, undetected_at_us, *_, changes = found[-1]
    assert detected_at_us is not None
    assert undetected_at_us is not None
    assert changes > 1


@pytest.mark.parametrize("name", [name for name, *_ in RECORDED])
def test_the_kernel_finds_in_recorded_transfers_what_the_host_finds(name: str) -> None:
    options, rows = Options().to_bytes(), [(kind == "S", *now) for kind, now in recorded(name)]
    found = rtcp_replay(options, MSS, rows, in_kernel=True)
    assert found == rtcp_replay(options, MSS, rows)
    assert found[-1][0] is not None
