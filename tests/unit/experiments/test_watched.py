from __future__ import annotations

import time
from pathlib import Path

import pytest

from ccplane.agent.client import Client
from ccplane.base.errors import CcpError
from experiments.netlab.spec import Buffer, Direction
from experiments.scenario import Dumbbell, FlowSpec, Scenario
from experiments.watched import Watched


def crowd(*algorithms: str, duration_s: float = 60.0) -> Scenario:
    path = Direction(rate_bytes_per_s=2.5e6, delay_us=10_000, buffer=Buffer(bdp=1))
    return Scenario(
        name="crowd",
        topology=Dumbbell(pairs=len(algorithms), bottleneck=path),
        flows=tuple(
            FlowSpec(name=f"f{i}", sender=f"s{i}", receiver=f"r{i}", algorithm=name)
            for i, name in enumerate(algorithms, 1)
        ),
        duration_s=duration_s,
    )


def virtual_s(client: Client) -> float:
    return float(client.flows()["now_us"].max()) / 1e6


def wait_for_flows(client: Client, n: int) -> None:
    end_s = time.monotonic() + 20
    while len(client.flows()) < n:
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_virtual_time_is_never_ahead_of_the_clock() -> None:
    with Watched(crowd("cubic", "reno"), speed=2.0) as run:
        wait_for_flows(run.client, 2)
        before_s, began_s = virtual_s(run.client), time.monotonic()
        while virtual_s(run.client) < before_s + 2.0:
            time.sleep(0.01)
        assert time.monotonic() - began_s > 0.9


def test_a_watched_run_is_changed_as_a_running_agent_is() -> None:
    with Watched(crowd("cubic", "reno")) as run:
        wait_for_flows(run.client, 2)
        run.client.params["cubic.beta"] = 0.5
        assert run.client.params["cubic.beta"] == 0.5
        done = run.client.load(run.client.source("cubic")["text"] + "\n# edited\n", "cubic")
        assert done["flows"] == 1
        assert run.client.switch("reno") == 1
        assert set(run.client.flows()["algorithm"]) == {"reno"}


def test_it_ends_when_it_is_closed_and_leaves_nothing() -> None:
    with Watched(crowd("cubic", duration_s=3600.0)) as run:
        assert run.running
        address = run.client.address
    assert not run.running
    assert not Path(address.removeprefix("ipc://")).parent.exists()


def test_kernel_flows_only_are_nothing_to_watch() -> None:
    with pytest.raises(CcpError) as caught:
        Watched(crowd("kernel/cubic"))
    assert caught.value.slug == "run.nothing_to_watch"


def test_what_the_simulator_refuses_is_reported() -> None:
    with pytest.raises(CcpError) as caught:
        Watched(crowd("nosuch"))
    assert caught.value.slug == "scenario.unknown_algorithm"
