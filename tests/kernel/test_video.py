"""Video as traffic of flows: what is played, and what the sockets did for it."""

from __future__ import annotations

import pytest

from experiments.netlab.errors import LabError
from experiments.netlab.spec import Direction
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic import Dash, Traffic, media

pytestmark = pytest.mark.kernel(struct_ops=False)


def why_not() -> str | None:
    """Return what is missing to play video."""
    try:
        media.require("")
    except LabError as error:
        return f"{error.why}; {error.fix}"
    return None


def scenario(traffic: Traffic, duration_s: float) -> Scenario:
    link = Direction(rate_bytes_per_s=1.25e6, delay_us=10_000)
    flow = FlowSpec("video", "sender", "receiver", "kernel/cubic", traffic=traffic)
    return Scenario(name="video", topology=PointToPoint(link), flows=(flow,), duration_s=duration_s)


@pytest.mark.skipif(why_not() is not None, reason=f"no video can be played here: {why_not()}")
def test_a_browser_plays_segments_and_sends_nothing_else() -> None:
    result = run(scenario(Dash(segments=2), 60.0))
    (flow,) = result.flows.to_dict("records")
    assert flow["completion_s"] > 8
    played = result.playback
    assert list(played["number"]) == [0, 1]
    assert list(played["played_s"]) == [4, 4]
    assert played["startup_s"][0] > 0
    assert set(played["bitrate_bytes_per_s"]) <= {125 * one for one in media.BITRATES_KBIT_PER_S}
    sizes = set(media.sizes_bytes().values())
    assert result.objects["size_bytes"].isin(sizes).sum() == 2
    assert result.objects["size_bytes"].sum() == flow["received_bytes"] < flow["bytes_acked"]
    assert result.metadata["emulator"]["unroutable_pkts"] == 0
