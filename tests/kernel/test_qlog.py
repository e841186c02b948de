"""Packets in the qlog file of a run on real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.netlab.spec import Bernoulli, Direction
from experiments.qlog import to_qlog
from experiments.run import run
from experiments.scenario import Dumbbell, FlowSpec, Scenario
from experiments.traffic.spec import Iperf3
from tests.unit.experiments.test_qlog_packets import BACK, OUT, Lost, Received, Sent, parsed

pytestmark = pytest.mark.kernel

BASE_RTT_MS = 44.0


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_packets_agree_with_the_socket(tmp_path: Path, family: str) -> None:
    path = Direction(rate_bytes_per_s=2.5e6, delay_us=20_000, loss=Bernoulli(0.003))
    flow = FlowSpec("f", "s1", "r1", "kernel/cubic", traffic=Iperf3(parallel=2), family=family)  # type: ignore[arg-type]
    shape = Dumbbell(1, path, access=Direction(delay_us=2_000))
    result = run(
        Scenario(name="q", topology=shape, flows=(flow,), duration_s=5.0, captures=(OUT, BACK)),
        tmp_path / "run",
    )
    traces = to_qlog(result)["traces"]
    assert len(traces) == 2
    for connection, trace in enumerate(traces):
        samples = result.connection_samples
        last = samples[samples["connection"] == connection].iloc[-1]
        found = parsed(trace)
        sent = {one.header.packet_number: (time, one) for time, one in found if isinstance(one, Sent)}
        lost = [one.header.packet_number for _, one in found if isinstance(one, Lost)]
        acked = {
            number: time
            for time, one in found
            if isinstance(one, Received) and one.frames[0].acked_ranges
            for low, high in one.frames[0].acked_ranges
            for number in range(low, high + 1)
        }
        # The last samples were taken before the last packets.
        sent_bytes = sum(one.raw.payload_length for _, one in sent.values())
        assert last["bytes_sent"] <= sent_bytes < 1.05 * last["bytes_sent"] + 500_000
        assert 0 < last["retrans_pkts"] <= len(lost) <= last["retrans_pkts"] + 20
        assert not set(lost) & set(acked)
        assert len(sent) - len(lost) - len(acked) < 0.1 * len(sent)
        rtts_ms = [time - sent[number][0] for number, time in acked.items()]
        assert BASE_RTT_MS <= min(rtts_ms) < BASE_RTT_MS + 2
        assert last["min_rtt_us"] / 1e3 == pytest.approx(min(rtts_ms), abs=2)
        # Both clocks agree: the samples begin with the first ACK of data.
        first_ms = samples[samples["connection"] == connection].iloc[0]["t_s"] * 1e3
        assert first_ms == pytest.approx(sent[0][0] + 2 * BASE_RTT_MS, abs=10)
