"""Windows over an idle time, simulated: those of CUBIC and Reno follow the kernel's."""

from __future__ import annotations

import itertools

import pytest

from experiments.netlab.spec import Direction
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic.spec import Http


def windows_after_idle_bytes(algorithm: str) -> list[int]:
    """Return the windows of the second of two downloads, one each 40 ms, which is the path's RTT."""
    download = Http(objects=(6_000_000, 3_000_000), gaps_s=(3.0,))
    scenario = Scenario(
        name="idle",
        duration_s=6,
        datapath="sim",
        sample_interval_us=40_000,
        topology=PointToPoint(Direction(12.5e6, delay_us=20_000)),
        flows=(FlowSpec("flow", "sender", "receiver", algorithm, traffic=download),),
    )
    samples = run(scenario).connection_samples
    begins = samples["t_s"].diff().idxmax()
    return [int(window) for window in samples.loc[begins + 1 :, "cwnd_bytes"]]


@pytest.mark.parametrize("name", ["cubic", "reno"])
def test_a_window_grows_again_from_the_initial_one_as_the_kernels(name: str) -> None:
    own, kernels = windows_after_idle_bytes(name), windows_after_idle_bytes(f"kernel/{name}")
    for windows in (own, kernels):
        assert windows[0] == 10 * 1448 < windows[-1] / 20
        assert all(now < 3.5 * before for before, now in itertools.pairwise(windows)), windows
    assert own[-1] == pytest.approx(kernels[-1], rel=0.1)
