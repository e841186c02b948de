"""One flow over 20 Mbit/s and 20 ms, on any datapath: what every algorithm has to manage."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from ccp_algs import registry
from ccplane.datapath.ccp_unix.programs import LIBCCP
from ccplane.datapath.kinds.interop import CCP_UNIX, QUIC
from ccplane.datapath.registry import EBPF, SIM
from experiments.netlab.spec import Buffer, Direction
from experiments.run import run
from experiments.runs.shapes import PointToPoint
from experiments.scenario import FlowSpec, Scenario
from experiments.traffic import Quic
from experiments.traffic.spec import Iperf3
from tests.interop.agent_end import agent, example
from tests.libccp import CRATE, EXAMPLE, LibccpPath

RATE_BYTES_PER_S: Final = 2.5e6
RTT_US: Final = 20_000
PAYLOAD_SHARE: Final = 1448 / 1500
"""What of the rate is TCP payload: an IP packet of 1500 bytes carries 1448, with TCP timestamps."""
SECONDS: Final = 4.0
MIN_SHARE: Final = 0.8
"""Of the link's payload, slow start included; and of the samples, for the algorithm."""

PARAMS: Final[dict[str, dict[str, Any]]] = {"const": {"rate_bytes_per_s": round(0.95 * RATE_BYTES_PER_S)}}
"""Of algorithms that do nothing without."""

_PORTABLE: Final = {"aimd", "aimd_vec", "const", "copa", "dctcp", "reno"}
CARRIED: Final[dict[str, set[str]]] = {
    EBPF: set(registry.names()),
    SIM: set(registry.names()),
    CCP_UNIX: _PORTABLE,
    QUIC: _PORTABLE | {"cubic"},
}
"""Which algorithms a datapath has; it refuses all others."""


def must_carry(algorithm: str, datapath: str) -> None:
    """Let an algorithm carry a flow; it decides, nothing fails, and the link is used."""
    carry = _on_libccp if datapath == CCP_UNIX else _in_a_scenario
    share, n_reports = carry(algorithm, datapath)
    print(f"{algorithm} on {datapath}: {share:.3f} of the link, {n_reports} reports")
    assert n_reports > 0
    assert MIN_SHARE <= share <= 1.02


def _in_a_scenario(algorithm: str, datapath: str) -> tuple[float, int]:
    over_quic = datapath == QUIC
    if over_quic:
        example("ccp-quic", "files")
    link = Direction(RATE_BYTES_PER_S, delay_us=RTT_US // 2, buffer=Buffer(bdp=1))
    flow = FlowSpec(
        "flow",
        "sender",
        "receiver",
        algorithm,
        params=PARAMS.get(algorithm, {}),
        traffic=Quic((1 << 30,)) if over_quic else Iperf3(),
    )
    scenario = Scenario(
        name=f"{algorithm} on {datapath}",
        topology=PointToPoint(link),
        flows=(flow,),
        duration_s=SECONDS,
        datapath=EBPF if over_quic else datapath,
    )
    result = run(scenario)
    reported = result.metadata["quic_agent" if over_quic else "agent"]
    assert (reported["flows_failed"], reported["algorithm_errors"]) == (0, 0)
    by_algorithm = result.connection_samples["congestion"] == result.flows["congestion"].iloc[0]
    assert by_algorithm.mean() >= MIN_SHARE
    # A QUIC connection uses the fallback until the agent has answered; its first sample comes before.
    assert by_algorithm[by_algorithm.idxmax() :].all()
    return _share(result.flows["goodput_bytes_per_s"].iloc[0]), reported["reports"]


def _on_libccp(algorithm: str, _datapath: str) -> tuple[float, int]:
    program = example(CRATE, EXAMPLE)
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "agent"
        path = LibccpPath(program, 8e-6 * RATE_BYTES_PER_S, RTT_US / 1e3, agent=socket)
        with agent(socket, LIBCCP, algorithm, **PARAMS.get(algorithm, {})) as agent_loop:
            figures = path.measured(seconds=SECONDS, omit_s=0.0)
    assert agent_loop.counters.flows_failed == 0
    return _share(figures["goodput_mbit_per_s"] * 125_000), agent_loop.counters.reports


def _share(goodput_bytes_per_s: float) -> float:
    return goodput_bytes_per_s / (RATE_BYTES_PER_S * PAYLOAD_SHARE)
