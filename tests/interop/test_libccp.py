"""Our algorithms on a datapath that is built on libccp 1.2: `native/ccp-difftest/examples/libccp_path`.

It sends over a bottleneck of its own, in real time; how fast does not matter, as others take the processor.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ccp_algs import Algorithm
from ccplane.datapath.ccp_unix.programs import LIBCCP
from ccplane.datapath.ebpf import compile_program
from tests.interop.agent_end import ROOT, agent, example
from tests.kernel.driving import wait_until
from tests.libccp import LibccpPath

MANY_BYTES = 6_000_000
"""A few thousand packets: slow start, some losses, and what comes then."""


@pytest.fixture(scope="session")
def libccp() -> Path:
    """The datapath, built."""
    return example("ccp-difftest", "libccp_path")


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(libccp: Path, tmp_path: Path) -> Iterator[Start]:
    """Start the datapath, and see that it ends."""
    begun: list[subprocess.Popen[str]] = []

    def started(**options: object) -> subprocess.Popen[str]:
        options = {"agent": tmp_path / "agent", "bind": tmp_path / "libccp", "seconds": 100, **options}
        arguments = [f"{name}={value}" for name, value in options.items()]
        process = subprocess.Popen([libccp, *arguments], stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield started
    for process in begun:
        process.kill()
        process.communicate()


def flows_of(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What became of the flows, when they have ended."""
    said, _ = process.communicate(timeout=150)
    assert process.returncode == 0
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("algorithm", ["reno", "aimd", "dctcp"])
def test_an_algorithm_fills_the_path_and_answers_loss(algorithm: str, start: Start, tmp_path: Path) -> None:
    with agent(tmp_path / "agent", LIBCCP, algorithm) as agent_loop:
        (flow,) = flows_of(start(bytes=MANY_BYTES))
    assert flow["acked_bytes"] >= MANY_BYTES
    assert flow["fold_errors"] == 0
    assert flow["folds_alone"] < flow["folds"] / 10
    assert 0 < flow["lost"] * 1448 < MANY_BYTES / 10
    assert agent_loop.counters.flows_created == 1
    assert agent_loop.counters.reports > 0


@pytest.mark.timeout(300)
def test_a_measurement_reads_what_the_path_says_and_sees_that_something_steered(
    libccp: Path, tmp_path: Path
) -> None:
    path = LibccpPath(libccp, rate_mbit_per_s=20, rtt_ms=20, agent=tmp_path / "agent")
    with agent(tmp_path / "agent", LIBCCP, "reno"):
        figures = path.measured(seconds=2, omit_s=1)
    assert 0 < figures["goodput_mbit_per_s"] <= 20
    assert 20 <= figures["rtt_p50_ms"] <= figures["rtt_p95_ms"]
    assert figures["retransmits"] >= 0
    with pytest.raises(AssertionError, match="nobody steered"):
        path.measured(seconds=0.5, omit_s=0)


TEXT = """(def (Report (volatile acked 0) (n {n})) (target 28960))
(when true (:= Cwnd target) (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
(when (> Micros 5000) (report) (:= Micros 0))"""


class Watched(Algorithm):
    """Keeps the window, and what reports say."""

    program = TEXT.format(n=0)
    seen: ClassVar[list[int]] = []

    def on_report(self, report: Any) -> None:
        self.seen.append(report.n)


@pytest.mark.timeout(300)
def test_live_programs_reach_libccp_beyond_the_room_in_its_table(start: Start, tmp_path: Path) -> None:
    with agent(tmp_path / "agent", LIBCCP, Watched) as agent_loop:
        process = start()
        for n in range(1, 13):
            program = compile_program(TEXT.format(n=n))
            agent_loop.call(
                lambda program=program: agent_loop.changes.replace_program("watched", "default", program)
            )  # type: ignore[misc]
            wait_until(lambda n=n: Watched.seen[-1:] == [n])  # type: ignore[misc]
        process.kill()


ALONE = """
from pathlib import Path
from sys import argv
from ccplane.agent.description import Description, assembled, plan
from ccplane.datapath.ccp_unix.datapath import CcpUnixDatapath
from ccplane.datapath.ccp_unix.programs import LIBCCP
plane = assembled(plan(Description((argv[2],))), CcpUnixDatapath(Path(argv[1]), LIBCCP))
print("runs", flush=True)
plane.run()
"""
"""An agent in a process of its own, which can be killed."""


@pytest.mark.timeout(300)
def test_a_second_agent_goes_on_with_flows_of_one_that_was_killed(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "agent"
    command = [sys.executable, "-c", ALONE, path, "reno"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "runs\n"
        process = start(again=0, every_s=0.1, seconds=200)
        assert process.stdout is not None
        reported = (json.loads(line) for line in process.stdout)
        steered = next(one for one in reported if one["folds"] - one["folds_alone"] > 100)
        killed.kill()
    # Nobody reads for longer than libccp waits: the datapath does by itself then.
    alone = next(one for one in reported if one["folds_alone"] - steered["folds_alone"] > 100)
    with agent(path, LIBCCP, "aimd") as agent_loop:
        wait_until(lambda: agent_loop.counters.reports > 20)
        (flow,) = agent_loop.datapath.flows()
        assert (flow.mss_bytes, flow.dst_port) == (1448, 5001)
        assert agent_loop.counters.flows_created == 1
    process.kill()
    later = list(reported)[-1]
    assert later["folds"] - later["folds_alone"] > alone["folds"] - alone["folds_alone"] + 20
    assert later["fold_errors"] == 0
