"""Hyvar under R-TCP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ccp_algs import check_algorithm, params_of, set_params
from ccp_algs.hyvar.fold import HyvarFold
from ccp_algs.r_tcp_cubic import NO_THRESHOLD_BYTES
from ccp_algs.r_tcp_hyvar import RTcpHyvar
from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import RateLimit, message
from ccp_algs.simulated_flow import FakeInfo, RecordingFlow
from ccplane.base._native import compile
from experiments.runs.files import sources
from tests.unit.ccp_algs.test_hyvar import ID, policy_of


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    for param in params_of(RTcpHyvar).values():
        param._by_class.pop(RTcpHyvar, None)


def test_limited_hyvar_looks_for_limits_and_grows_fast_while_the_cap_is_raised(tmp_path: Path) -> None:
    set_params(RTcpHyvar, {"policy_file": policy_of(tmp_path, 0.0)})
    algorithm: Any = RTcpHyvar()
    ids = (ID, ID + 1)
    flows = {one: RecordingFlow(FakeInfo(flow_id=one), {"default": HyvarFold.source}) for one in ids}
    algorithm.flows = flows
    for flow_id in ids:
        algorithm.on_create(FakeInfo(flow_id=flow_id))
        messages = [bytes(call.values()) for kind, call in flows[flow_id].calls if kind == "rate_limits"]
        assert messages == [message(Options(), cwnd=True, rate=True)]
    calls = [list(flow.calls) for flow in flows.values()]
    algorithm.on_rate_limit(ID, RateLimit("capped", 500_000, 250_000, 0, 1, "10.0.0.2"))
    assert [flow.calls for flow in flows.values()] == calls
    algorithm.on_rate_limit(ID, RateLimit("raised", 500_000, 250_000, 0, 1, "10.0.0.2"))
    assert flows[ID].calls[-1] == ("set", {"ssthresh_bytes": NO_THRESHOLD_BYTES})
    assert flows[ID + 1].calls == calls[1]


@pytest.mark.parametrize("action", [-1.0, 1.0])
def test_contract_is_kept_whatever_the_policy(tmp_path: Path, action: float) -> None:
    set_params(RTcpHyvar, {"policy_file": policy_of(tmp_path, action)})
    assert check_algorithm(RTcpHyvar, compile).updates > 20


def test_results_with_another_policy_are_others() -> None:
    assert {"policy.safetensors", "reasoner.py"} <= {path.name for path in sources("r_tcp_hyvar")}
