"""R-TCP under ccplane's algorithms, on real sockets: policed, lifted and free paths in one run."""

from __future__ import annotations

from typing import Final

import pandas as pd
import pytest

from experiments import metrics
from experiments.events import SetLink
from experiments.netlab.spec import Buffer, Direction, Link, TokenBucket, Topology
from experiments.results import Result
from experiments.run import run
from experiments.scenario import FlowSpec, Graph, Scenario
from tests.kernel.star import Star

pytestmark = pytest.mark.alone  # many flows at once

LINK_BYTES_PER_S: Final = 2.5e6
LIMIT_BYTES_PER_S: Final = 250_000.0
BUCKET_BYTES: Final = 150_000
RTT_US: Final = 40_000
LIFT_S: Final = 6.0
END_S: Final = 13.0
FOUND_S: Final = 3.0
"""When limits are found, with room."""


def link(*, limited: bool) -> Direction:
    return Direction(
        LINK_BYTES_PER_S,
        delay_us=RTT_US // 2,
        buffer=Buffer(bytes=200_000),
        token_bucket=TokenBucket(LIMIT_BYTES_PER_S, BUCKET_BYTES) if limited else None,
    )


@pytest.fixture(scope="module")
def result() -> Result:
    star = Star()
    for name, algorithm in (("c", "cubic"), ("rc", "r_tcp_cubic"), ("b", "bbr3"), ("rb", "r_tcp_bbr3")):
        star.bottleneck(name, link(limited=True), algorithm)
    for name in ("lift-rc", "lift-rb"):
        star.bottleneck(name, link(limited=True), f"r_tcp_{'cubic' if name.endswith('c') else 'bbr3'}")
    star.bottleneck("free", link(limited=False), "r_tcp_cubic")
    # Two connections to one client: the second comes when the limit is known.
    star.hosts += ["server", "client"]
    star.links += [Link("shared", "server", "hub", link(limited=True)), Link("shared-end", "hub", "client")]
    star.flows += [
        FlowSpec("first", "server", "client", "r_tcp_cubic"),
        FlowSpec("second", "server", "client", "r_tcp_bbr3", start_s=FOUND_S),
    ]
    lifts = tuple(SetLink(LIFT_S, f"lift-{which}>", {"token_bucket": None}) for which in ("rc", "rb"))
    topology = Topology(tuple(star.hosts), tuple(star.links), tuple(star.routers))
    return run(
        Scenario(
            name="R-TCP", topology=Graph.of(topology), flows=tuple(star.flows), duration_s=END_S, events=lifts
        )
    )


def reported(result: Result, flow: str) -> pd.DataFrame:
    """Return what was told of the limit of a flow's client."""
    receiver = next(one.receiver for one in result.scenario.flows if one.name == flow)
    return result.table("rate_limits")[result.table("rate_limits")["receiver"] == receiver]


def resent_ratio(result: Result, flow: str, from_s: float) -> float:
    own = metrics.within(result.flow_samples, from_s, LIFT_S)
    own = own[own["flow"] == flow]
    resent, sent = (own[of].iloc[-1] - own[of].iloc[0] for of in ("bytes_retrans", "bytes_sent"))
    return float(resent / sent)


def goodput_bytes_per_s(result: Result, from_s: float, until_s: float = LIFT_S) -> pd.Series:
    return metrics.goodput_bytes_per_s(metrics.within(result.flow_samples, from_s, until_s))


@pytest.mark.parametrize(("limited", "usual"), [("rc-0", "c-0"), ("rb-0", "b-0")])
def test_limit_is_found_and_kept_without_loss_of_goodput(result: Result, limited: str, usual: str) -> None:
    states = reported(result, limited)
    assert set(states["state"]) <= {"limited", "capped", "probing", "raised"}
    known = states.iloc[-1]
    assert known["rate_bytes_per_s"] == pytest.approx(LIMIT_BYTES_PER_S * 1448 / 1500, rel=0.06)
    assert resent_ratio(result, limited, FOUND_S) < 0.08
    assert resent_ratio(result, limited, FOUND_S) < 0.5 * resent_ratio(result, usual, FOUND_S)
    goodput = goodput_bytes_per_s(result, FOUND_S)
    assert goodput[limited] > 0.93 * goodput[usual]


@pytest.mark.parametrize("flow", ["lift-rc-0", "lift-rb-0"])
def test_limit_that_is_gone_is_given_up(result: Result, flow: str) -> None:
    last = reported(result, flow).iloc[-1]
    assert last["state"] == "gone"
    assert goodput_bytes_per_s(result, last["t_s"], END_S)[flow] > 2 * LIMIT_BYTES_PER_S


def test_free_path_is_not_limited(result: Result) -> None:
    assert reported(result, "free-0").empty
    assert goodput_bytes_per_s(result, FOUND_S)["free-0"] > 0.85 * LINK_BYTES_PER_S


def test_next_connection_begins_within_the_limit_and_shares_it(result: Result) -> None:
    both = goodput_bytes_per_s(result, FOUND_S + 1)[["first", "second"]]
    assert both.sum() == pytest.approx(LIMIT_BYTES_PER_S * 1448 / 1500, rel=0.1)
    assert metrics.jain_index(both) > 0.8
    assert resent_ratio(result, "second", FOUND_S) < 0.15
