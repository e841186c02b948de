"""BBR on real sockets, all paths in one run, beside the kernel's `bbr` (version 1) and `cubic`."""

from __future__ import annotations

from typing import Final

import pytest

from experiments import metrics
from experiments.netlab.spec import Bernoulli, Buffer, Direction
from tests.kernel.star import MSS_BYTES, Measured, Star

pytestmark = [pytest.mark.alone, pytest.mark.long]  # many flows at once; daily: in the simulator

BYTES_PER_S: Final = 2.5e6
RTT_US: Final = 20_000
BDP_BYTES: Final = BYTES_PER_S * RTT_US / 1e6
PAYLOAD: Final = MSS_BYTES / 1500
PROBE_RTT_S: Final = 2.0


def link(bdp: float, loss_ratio: float = 0.0) -> Direction:
    loss = Bernoulli(ratio=loss_ratio) if loss_ratio else None
    return Direction(BYTES_PER_S, delay_us=RTT_US // 2, buffer=Buffer(bytes=int(bdp * BDP_BYTES)), loss=loss)


@pytest.fixture(scope="module")
def measured() -> Measured:
    star = Star()
    star.bottleneck("deep", link(4), "bbr3", probe_rtt_interval_s=PROBE_RTT_S)
    star.bottleneck("deep-kc", link(4), "kernel/cubic")
    star.bottleneck("shallow", link(0.25), "bbr3")
    star.bottleneck("shallow-kb", link(0.25), "kernel/bbr")
    star.bottleneck("lossy", link(2, 0.01), "bbr3")
    star.bottleneck("lossy-kc", link(2, 0.01), "kernel/cubic")
    star.bottleneck("pair", link(1), "bbr3", "bbr3")
    star.bottleneck("mixed", link(1), "bbr3", "kernel/cubic")
    star.bottleneck("mixed-kb", link(1), "kernel/bbr", "kernel/cubic")
    return Measured(star.run("BBR", 16), from_s=6)


def share(measured: Measured, flow: str) -> float:
    """Return what part of its link a flow got."""
    return float(measured.goodput_bytes_per_s[flow] / BYTES_PER_S / PAYLOAD)


def queueing_us(measured: Measured, flow: str, quantile: float = 0.5) -> float:
    own = measured.samples[measured.samples["flow"] == flow]
    return float((own["srtt_us"] - RTT_US).quantile(quantile))


def drop_ratio(measured: Measured, name: str) -> float:
    own = measured.links[measured.links["link"] == f"{name}>"]
    dropped, arrived = (own[of].iloc[-1] - own[of].iloc[0] for of in ("dropped_queue_pkts", "arrived_pkts"))
    return float(dropped / arrived)


def test_link_is_full_and_its_deep_queue_is_not(measured: Measured) -> None:
    assert share(measured, "deep-0") > 0.9
    assert queueing_us(measured, "deep-0") < 0.5 * RTT_US
    assert queueing_us(measured, "deep-kc-0") > RTT_US, "what fills queues does so here"


def test_probe_rtt_halves_what_is_in_flight_every_interval(measured: Measured) -> None:
    own = measured.samples[measured.samples["flow"] == "deep-0"]
    low = own[own["cwnd_bytes"] < 0.7 * BDP_BYTES]["t_s"]
    begins = [t for t, before in zip(low, [-1.0, *low], strict=False) if t > before + 1]
    assert 3 <= len(begins) <= 5, "10 s, and 2 s and 0.2 s from one to the next"


def test_shallow_buffer_is_overrun_less_than_by_version_1(measured: Measured) -> None:
    assert share(measured, "shallow-0") > 0.8
    assert drop_ratio(measured, "shallow") < 0.01
    assert drop_ratio(measured, "shallow") < drop_ratio(measured, "shallow-kb")


def test_random_losses_cost_less_than_they_cost_cubic(measured: Measured) -> None:
    assert share(measured, "lossy-0") > 0.4
    assert share(measured, "lossy-0") > 1.5 * share(measured, "lossy-kc-0")


def test_two_flows_share_fairly(measured: Measured) -> None:
    flows = measured.goodput_bytes_per_s[["pair-0", "pair-1"]]
    assert metrics.jain_index(flows) > 0.8
    assert share(measured, "pair-0") + share(measured, "pair-1") > 0.9


def test_cubic_keeps_more_alongside_it_than_alongside_version_1(measured: Measured) -> None:
    assert share(measured, "mixed-1") > 0.15
    assert share(measured, "mixed-1") > share(measured, "mixed-kb-1")
    assert share(measured, "mixed-0") > 0.15
