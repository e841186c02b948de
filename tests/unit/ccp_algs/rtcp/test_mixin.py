"""What algorithms with the mixin ask of their flow; that the datapath does it is tested in tests/kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ccp_algs import Algorithm, VectorAlgorithm, params_of
from ccp_algs.bbr3 import CRUISE, STARTUP
from ccp_algs.const import ConstFold
from ccp_algs.fold import INFINITY
from ccp_algs.r_tcp_bbr3 import RTcpBbr3
from ccp_algs.r_tcp_cubic import NO_THRESHOLD_BYTES, RTcpCubic
from ccp_algs.rtcp import Options
from ccp_algs.rtcp.limit import LIMIT_STATES, RateLimit, message
from ccp_algs.rtcp.mixin import RateLimited, VectorRateLimited
from ccp_algs.simulated_flow import FakeInfo, RecordingFlow


class Own(RateLimited, Algorithm):
    """An algorithm that knows nothing of limits."""

    program = ConstFold


def started(cls: type[Algorithm]) -> tuple[Any, RecordingFlow]:
    algorithm: Any = cls()
    program: Any = cls.program
    algorithm.flow = flow = RecordingFlow(FakeInfo(), {"default": program.source})
    algorithm.on_create(FakeInfo())
    return algorithm, flow


def messages(flow: RecordingFlow) -> list[bytes]:
    return [bytes(call.values()) for kind, call in flow.calls if kind == "rate_limits"]


def limit(state: str) -> RateLimit:
    return RateLimit(state, 500_000, 250_000, 0, 1, "10.0.0.2")


@pytest.mark.parametrize("client", ["10.0.0.2", "2001:db8::/64"])
@pytest.mark.parametrize("state", LIMIT_STATES)
def test_limit_is_the_same_as_bytes(state: str, client: str) -> None:
    reported = dataclasses.replace(limit(state), client=client)
    assert len(reported.to_bytes()) == 72
    assert RateLimit.from_bytes(reported.to_bytes()) == reported


def test_what_the_extension_reports_is_reported_to_listeners_and_to_the_algorithm() -> None:
    algorithm, flow = started(Own)
    seen: list[RateLimit] = []
    algorithm.on_rate_limit = seen.append
    algorithm.on_extension("counter", b"12345678")
    algorithm.on_extension("rate_limits", limit("capped").to_bytes())
    assert seen == [limit("capped")]
    assert flow.events == [("rate_limit:changed", dataclasses.asdict(limit("capped")))]


class Many(VectorRateLimited, VectorAlgorithm):
    """The same for all flows at once."""

    program = ConstFold


def test_an_algorithm_of_many_flows_looks_for_the_limit_of_each() -> None:
    ids = (5, 6)
    algorithm: Any = Many()
    flows = {one: RecordingFlow(FakeInfo(flow_id=one), {"default": ConstFold.source}) for one in ids}
    algorithm.flows = flows
    for flow_id in ids:
        algorithm.on_create(FakeInfo(flow_id=flow_id))
    algorithm.probe_gain_ratio = 0.1
    algorithm.on_params(frozenset({"probe_gain_ratio"}))
    algorithm.on_params(frozenset({"beta"}))  # none of ours
    both = [message(Options(probe_gain_ratio=gain), rate=True) for gain in (0.2, 0.1)]
    assert [messages(flow) for flow in flows.values()] == [both, both]

    seen: list[tuple[int, RateLimit]] = []
    algorithm.on_rate_limit = lambda flow_id, reported: seen.append((flow_id, reported))
    algorithm.on_extension(5, "counter", b"12345678")
    algorithm.on_extension(6, "rate_limits", limit("capped").to_bytes())
    assert seen == [(6, limit("capped"))]
    assert [flow.events for flow in flows.values()] == [
        [],
        [("rate_limit:changed", dataclasses.asdict(limit("capped")))],
    ]


def test_parameters_are_the_options_with_their_defaults() -> None:
    params = params_of(RTcpCubic)
    for option in dataclasses.fields(Options):
        assert params[option.name].default == option.default, option.name


def test_limits_are_looked_for_from_the_start() -> None:
    _, flow = started(Own)
    assert messages(flow) == [message(Options(), rate=True)]


def test_parameters_that_are_set_hold_at_once() -> None:
    algorithm, flow = started(Own)
    algorithm.probe_gain_ratio = 0.1
    algorithm.on_params(frozenset({"probe_gain_ratio"}))
    algorithm.on_params(frozenset({"beta"}))  # none of ours
    assert messages(flow) == [message(Options(probe_gain_ratio=gain), rate=True) for gain in (0.2, 0.1)]


def test_cubic_is_bounded_in_its_window_and_paced_unless_reported_not_to() -> None:
    algorithm, flow = started(RTcpCubic)
    algorithm.pace_cubic = False
    algorithm.on_create(FakeInfo())
    assert messages(flow) == [message(Options(), cwnd=True, rate=paced) for paced in (True, False)]


@pytest.mark.parametrize("state", LIMIT_STATES)
def test_cubic_is_in_slow_start_while_the_cap_is_raised(state: str) -> None:
    algorithm, flow = started(RTcpCubic)
    flow.calls.clear()
    algorithm.on_rate_limit(limit(state))
    raised = [("set", {"ssthresh_bytes": NO_THRESHOLD_BYTES})]
    assert flow.calls == (raised if state in ("probing", "raised") else [])


@pytest.mark.parametrize("state", LIMIT_STATES)
def test_bbr_is_in_startup_while_the_cap_is_raised(state: str) -> None:
    algorithm, flow = started(RTcpBbr3)
    algorithm.state, algorithm.pipe.is_full, algorithm.short.bw_bytes_per_s = CRUISE, True, 1_000
    flow.calls.clear()
    algorithm.on_rate_limit(limit(state))
    if state in ("probing", "raised"):
        reported = flow.calls[-1][1]
        assert (algorithm.state, reported["is_full"]) == (STARTUP, 0)
        assert (reported["bw_short_bytes_per_s"], reported["inflight_long_bytes"]) == (INFINITY, INFINITY)
    else:
        assert (algorithm.state, flow.calls) == (CRUISE, [])
