"""Regimes in runs: receivers that decide, flows and ordinary sockets that follow, all in the result."""

from __future__ import annotations

from pathlib import Path

from experiments.netlab.spec import Direction, Link, Topology
from experiments.papers.variants import steady
from experiments.run import run
from experiments.scenario import FlowSpec, Graph, ReceiverAgent, Scenario, SetLink, SocketSwitch

DELAY_US, LONGER_US = 20_000, 100_000
ROOM_MS = 40.0
"""What a busy machine may be late by before the receiver takes it for a queue [ms]."""
CHANGE_S = 3.0
OWN, ORDINARY = "ours", "ordinary"
NAMES = {OWN: ("cubic", "dctcp"), ORDINARY: ("cubic", "ccp.dctcp")}


def scenario() -> Scenario:
    """Two senders, each on a path of its own that becomes longer, as behind a queue of others."""
    paths = tuple(Link(f"path-{name}", name, "router", Direction(delay_us=DELAY_US)) for name in NAMES)
    return Scenario(
        name="regimes",
        topology=Graph.of(
            Topology(
                (*NAMES, "receiver"), (*paths, Link("exit", "router", "receiver", Direction())), ("router",)
            )
        ),
        flows=tuple(
            FlowSpec(name, name, "receiver", algorithm, traffic=steady(250_000), ecn=True)
            for name, algorithm in ((OWN, "r_hybrid"), (ORDINARY, "kernel/cubic"))
        ),
        events=tuple(SetLink(CHANGE_S, f"path-{name}>", {"delay_us": LONGER_US}) for name in NAMES),
        duration_s=5,
        receivers=(
            ReceiverAgent("receiver", detector={"baseline_ms": 2 * DELAY_US // 1000, "delta_ms": ROOM_MS}),
        ),
        switches=(SocketSwitch(ORDINARY, rules=("dst={receiver} -> destination",)),),
    )


def test_flows_and_sockets_follow_what_the_receiver_decides(tmp_path: Path) -> None:
    result = run(scenario(), tmp_path / "result")
    for name, (shared, single) in NAMES.items():
        decided = result.regimes[(result.regimes["peer"] == name) & result.regimes["switched"]]
        assert decided["regime"].tolist() == ["SHARED"]
        (decided_s,) = decided["t_s"]
        assert decided_s > CHANGE_S
        own = result.regime_events[result.regime_events["flow"] == name]
        assert own["event"].tolist() == ["regime:switched"] * 2
        assert own["regime"].tolist() == ["SINGLE_OWNER", "SHARED"]
        assert own["before"].tolist() == [shared, single]
        assert own["after"].tolist() == [single, shared]
        assert own["connection"].tolist() == [0, 0]
        assert own["t_s"].iloc[0] < CHANGE_S < decided_s < own["t_s"].iloc[1]
        signals = result.receiver_signals[result.receiver_signals["peer"] == name]
        tails_us = signals.set_index("t_s")["rtt_p99_us"].dropna()
        assert (tails_us.loc[1.0:CHANGE_S] >= 2 * DELAY_US).all()
        assert (tails_us.loc[decided_s:] >= DELAY_US + LONGER_US).all()
    # The sockets of the ordinary flow are CUBIC's again; else the run would have complained.
    assert result.flows.set_index("flow")["congestion"][ORDINARY] == "cubic"
    files = {one.name for one in (tmp_path / "result").iterdir()}
    assert {"regimes-receiver-receiver.log", f"regimes-switch-{ORDINARY}.log", "agent.log"} <= files
    assert not [name for name in files if name.endswith(".jsonl")]
