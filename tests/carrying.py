"""One flow over 20 Mbit/s and 20 ms, on any datapath: what every algorithm has to manage."""

from __future__ import annotations

from typing import Any, Final

from experiments.netlab.spec import Buffer, Direction
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import Flow, Scenario

RATE_BYTES_PER_S: Final = 2.5e6
PAYLOAD_SHARE: Final = 1448 / 1500
"""What of the rate is TCP payload: an IP packet of 1500 bytes carries 1448, with TCP timestamps."""
SECONDS: Final = 4.0
LEAST_SHARE: Final = 0.8
"""Of the link's payload, slow start included."""

PARAMS: Final[dict[str, dict[str, Any]]] = {"const": {"rate_bytes_per_s": round(0.95 * RATE_BYTES_PER_S)}}
"""Of algorithms that do nothing without."""


def must_carry(algorithm: str, datapath: str) -> None:
    """Let an algorithm carry a flow; it decides, nothing fails, and the link is used."""
    link = Direction(RATE_BYTES_PER_S, delay_us=10_000, buffer=Buffer(bdp=1))
    flow = Flow("flow", "sender", "receiver", algorithm, params=PARAMS.get(algorithm, {}))
    scenario = Scenario(
        name=f"{algorithm} on {datapath}",
        topology=PointToPoint(link),
        flows=(flow,),
        duration_s=SECONDS,
        datapath=datapath,
    )
    result = run(scenario)
    agent = result.metadata["agent"]
    assert agent["reports"] > 0
    assert (agent["flows_failed"], agent["algorithm_errors"]) == (0, 0)
    share = result.flows["goodput_bytes_per_s"].iloc[0] / (RATE_BYTES_PER_S * PAYLOAD_SHARE)
    print(f"{algorithm} on {datapath}: {share:.3f} of the link, {agent['reports']} reports")
    assert LEAST_SHARE <= share <= 1.02
    assert (result.connection_samples["congestion"] == result.flows["congestion"].iloc[0]).all()
