"""Telemetry in runs: from the packets over sink, bus and algorithm to the window, and into the result."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ccplane.agent.priority import raise_process
from experiments.netlab.spec import Bernoulli, Direction
from experiments.run import run
from experiments.runs.artifacts import made_into_tables
from experiments.scenario import FlowSpec, Scenario
from telemetry.ioam import CaptureReader
from tests.answering import answering
from tests.kernel.inband import chain

ASKED_BYTES = 32_000


def scenario(algorithm: str, **changes: object) -> Scenario:
    flow = FlowSpec("flow", "sta1", "sta2", algorithm, family="ipv6")
    made = Scenario(name="chain", topology=chain(), flows=(flow,), duration_s=2)
    return made.replace(**changes)


def test_the_whole_chain_from_packets_to_the_window(tmp_path: Path) -> None:
    (tmp_path / "answering.py").write_text(answering(ASKED_BYTES))
    result = run(scenario(f"{tmp_path}/answering.py:Answering"), tmp_path / "result")
    (mss_bytes,) = result.connection_samples["mss_bytes"].unique()
    asked_bytes = ASKED_BYTES // mss_bytes * mss_bytes
    summaries = result.int_summaries[~result.int_summaries["backward"]]
    decisions = result.int_decisions[~result.int_decisions["backward"]]
    # From its first answer on the window is what it asked for, as the kernel says, and as packets carry it.
    first_s = decisions["t_s"].min()
    assert first_s > summaries["t_s"].min()
    later = result.connection_samples.query("t_s > @first_s + 0.2 and open")["cwnd_bytes"]
    assert set(later) == {asked_bytes}
    carried = summaries.query("t_s > @first_s + 0.2")["cwnd_bytes"].dropna()
    assert set(carried) == {asked_bytes}
    assert summaries["cwnd_bytes"].min() < asked_bytes
    # Every answer is to a summary of the result, and some time behind its end.
    ends_s = decisions["t_s"] - decisions["age_us"] / 1e6
    assert set(ends_s.round(6)) <= set(summaries["t_s"].round(6))
    assert (decisions["age_us"] > 0).all()
    print(decisions["age_us"].describe())


@pytest.mark.kernel(struct_ops=False)
def test_flows_of_the_kernel_leave_their_telemetry_in_the_result(tmp_path: Path) -> None:
    lossy = Direction(delay_us=500, loss=Bernoulli(0.02))
    of = scenario("kernel/cubic", topology=chain(far=lossy), captures=("far>",))
    result = run(of, tmp_path / "result")
    summaries, hops = result.int_summaries, result.int_hops
    assert set(summaries["flow"]) == {"flow"}
    assert set(summaries["backward"]) == {False, True}
    assert set(summaries["connection"]) == {0}
    assert summaries["t_s"].between(0, result.flows["end_s"].max() + 1).all()
    data = summaries[~summaries["backward"]]
    lost = result.link_samples.query("link == 'far>'")["dropped_loss_pkts"].max()
    assert 0 < data["lost_pkts"].sum() <= lost  # iperf3's control connection may have lost some, too
    assert set(hops[~hops["backward"]]["node"]) == {"ap1", "ap2"}
    assert set(hops[hops["backward"]]["node"]) == {"ap1", "ap2"}
    assert hops.query("node == 'ap2' and not backward")["rssi_dbm"].eq(-60.5).all()
    assert result.int_decisions.empty
    assert len(list(CaptureReader(tmp_path / "result" / "far>.pcapng"))) >= data["received_pkts"].sum()
    assert not {one.name for one in (tmp_path / "result").iterdir()} & set(made_into_tables())


@pytest.mark.kernel(struct_ops=False)
def test_who_brings_telemetry_does_not_wait_for_programs() -> None:
    with subprocess.Popen(["sleep", "60"]) as one:
        raise_process(one.pid)
        assert os.sched_getscheduler(one.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
        one.kill()
