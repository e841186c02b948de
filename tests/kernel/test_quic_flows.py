"""QUIC flows of scenarios: over the same path as TCP's, and in the same tables.

They want the example `files` of ccp-quic, which `make test-kernel` builds.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.events import SetParam
from experiments.metrics import within
from experiments.netlab import LabError
from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Direction
from experiments.netlab.topologies import point_to_point
from experiments.run import run
from experiments.scenario import Dumbbell, FlowSpec, Scenario
from experiments.traffic import Quic, start_traffic
from experiments.traffic.files import FileServer
from experiments.traffic.quic import QuicTraffic
from experiments.traffic.spec import QUINN

pytestmark = [
    pytest.mark.kernel(struct_ops=False),
    pytest.mark.emulated("the example is in Rust, which is not there"),
]

LINK = Direction(rate_bytes_per_s=1.25e6, delay_us=10_000)


def test_quic_flows_of_an_agent_and_of_quinn_run_alongside_the_kernels_tcp(tmp_path: Path) -> None:
    files = Quic(objects=(10_000, 20_000), gaps_s=(0.2,), repeat=2, connections=2)
    scenario = Scenario(
        name="quic",
        topology=Dumbbell(3, LINK),
        flows=(
            FlowSpec("tcp", "s1", "r1", "kernel/cubic"),
            FlowSpec("ours", "s2", "r2", "cubic", {"beta": 0.8}, traffic=Quic((10**9,))),
            FlowSpec("files", "s3", "r3", "quinn/cubic", traffic=files, start_s=0.5, family="ipv6"),
        ),
        events=(SetParam(1.0, "beta", 0.7, flow="ours"),),
        duration_s=5,
    )
    result = run(scenario, tmp_path / "quic")
    flows = result.flows.set_index("flow")
    assert list(flows["congestion"]) == ["cubic", "ccp.cubic", "quinn/cubic"]
    assert list(flows["connections"]) == [1, 1, 2]
    assert flows["completion_s"].notna().tolist() == [True, False, True]
    assert flows["received_bytes"]["files"] == 2 * 2 * 30_000
    # All that the flows got came through the path, and little else did: headers, and what was sent twice.
    # What was in TCP's buffers comes later, and is not counted.
    samples, links = result.flow_samples, within(result.link_samples, stop_s=scenario.duration_s)
    carried_bytes = links.query("link == 'bottleneck>'")["delivered_bytes"].max()
    assert 0.75 < flows["bytes_acked"].sum() / carried_bytes < 0.98
    assert (flows["bytes_acked"] >= 120_000).all()
    own = samples[samples["flow"] == "ours"]
    assert len(own) > 0.5 * scenario.duration_s * 1e6 / scenario.sample_interval_us
    assert own["cwnd_bytes"].nunique() > 5
    assert own["srtt_us"].min() >= 20_000
    assert own["bytes_acked"].is_monotonic_increasing
    assert samples["rtt_us"].notna().groupby(samples["flow"]).any().to_dict() == {
        "tcp": True,
        "ours": False,
        "files": False,
    }
    downloads = result.objects.groupby("connection")["size_bytes"].apply(list)
    assert downloads.tolist() == [[10_000, 20_000] * 2] * 2
    assert (result.objects["completion_s"] > result.objects["first_byte_s"]).all()
    assert result.metadata["quic_agent"]["reports"] > 0
    assert result.metadata["quic_agent"]["flows_failed"] == 0
    assert "agent" not in result.metadata  # nothing of ccplane's was in the kernel
    (detail,) = result.events.query("kind == 'set_param'")["detail"]
    assert json.loads(detail)["flows"] == ["ours"]


def test_a_server_that_dies_is_reported() -> None:
    with emulated(point_to_point(LINK), seed=1) as net:
        hosts = net.hosts["sender"], net.hosts["receiver"]
        traffic = start_traffic(Quic((10**9,)), *hosts, congestion=QUINN, duration_s=1.0)
        assert isinstance(traffic, QuicTraffic)
        assert isinstance(traffic.server, FileServer)
        traffic.server.process.kill()
        with pytest.raises(LabError) as caught:
            traffic.wait()
    assert caught.value.slug == "lab.command_failed"
    assert "the server exited with signal SIGKILL" in caught.value.message
