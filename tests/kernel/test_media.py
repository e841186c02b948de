"""Media over RTP, and receivers that misbehave, on real sockets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from experiments.netlab.spec import Buffer, Direction, Misbehaving
from experiments.run import run
from experiments.scenario import Dumbbell, FlowSpec, Scenario
from experiments.traffic import Iperf3, Rtp
from experiments.traffic.spec import UNCONTROLLED, Traffic

pytestmark = pytest.mark.kernel(struct_ops=False)

RATE_BYTES_PER_S = 1.25e6
PATH = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=10_000, buffer=Buffer(bdp=2))
BULK = Iperf3()
VIDEO = Rtp(frames_per_s=25.0, frame_bytes=5000, report_s=0.5)


def scenario(
    *flows: tuple[str, Traffic], duration_s: float = 5.0, misbehaving: tuple[Misbehaving, ...] = ()
) -> Scenario:
    specs = tuple(
        FlowSpec(f"f{n}", f"s{n}", f"r{n}", algorithm, traffic=traffic)
        for n, (algorithm, traffic) in enumerate(flows, 1)
    )
    shape = Dumbbell(len(flows), PATH, misbehaving=misbehaving)
    return Scenario(name="media", topology=shape, flows=specs, duration_s=duration_s)


def test_media_crosses_a_path_and_is_delayed_by_a_long_flow(tmp_path: Path) -> None:
    alone = run(scenario((UNCONTROLLED, VIDEO)), tmp_path / "alone")
    (own,) = alone.media.to_dict("records")
    assert own["sent_pkts"] == pytest.approx(625, abs=10)
    assert own["lost_pct"] < 1  # a source that is late sends several frames at once, which can fill the queue
    # Propagation and transmission of up to five packets; programs and emulator may be late.
    assert 10_000 <= own["delay_p50_us"] < 30_000
    assert pd.isna(own["breaker"])
    assert alone.flows["received_bytes"].iloc[0] == own["sent_pkts"] * 1000
    assert alone.media_packets["sent_s"].between(0, 5.1).all()

    shared = run(scenario(("kernel/cubic", BULK), (UNCONTROLLED, VIDEO)), tmp_path / "shared")
    (late,) = shared.media.to_dict("records")
    # CUBIC fills the buffer of 40 ms.
    assert late["delay_p95_us"] > own["delay_p50_us"] + 20_000


def test_a_sender_of_the_kernel_believes_an_optimistic_receiver(tmp_path: Path) -> None:
    flows = (("kernel/cubic", BULK), ("kernel/cubic", BULK))
    found = {}
    for optimistic in (False, True):
        how = (Misbehaving("r1", optimistic=optimistic),)
        result = run(scenario(*flows, duration_s=8.0, misbehaving=how), tmp_path / str(optimistic))
        found[optimistic] = result.flows.set_index("flow")
    honest, lied = found[False], found[True]
    assert lied["bytes_acked"]["f1"] > 1.2 * 8 * RATE_BYTES_PER_S
    assert lied["retrans_pkts"]["f1"] == 0
    assert lied["bytes_acked"]["f2"] < 0.8 * honest["bytes_acked"]["f2"]


def test_a_divided_ack_grows_no_window_of_the_kernel(tmp_path: Path) -> None:
    windows = []
    for division in (1, 10):
        how = (Misbehaving("r1", ack_division=division),)
        tried = scenario(("kernel/cubic", BULK), duration_s=2.0, misbehaving=how)
        result = run(tried.replace(sample_interval_us=1000), tmp_path / str(division))
        assert result.flows["goodput_bytes_per_s"].iloc[0] > 0.8 * RATE_BYTES_PER_S
        samples = result.flow_samples
        windows.append(samples[samples["t_s"] < samples["t_s"].min() + 0.06]["cwnd_bytes"].max())
    assert windows[1] < 2 * windows[0]
