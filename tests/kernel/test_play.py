"""`ccp play` on real sockets: the messages of a simulated session, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path as FilePath

import pytest

from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR
from experiments.netlab.lab import clean_leftovers, list_namespaces
from experiments.play.kernel import KernelPlayer
from experiments.play.messages import Message
from experiments.play.session import Setting
from experiments.processes import running

AIMD = FilePath("ccp_algs/example_aimd.py").read_text()

# As the installed command `ccp`, which finds `play` by its entry point.
CCP = """
from ccplane.agent import cli
from ccplane.agent.front import Entry
cli.plugins = lambda: {"play": Entry("play", "experiments.play.command:app")}
cli.main()
"""
TIMEOUT_S = 60


def nothing_is_left() -> bool:
    names = FilePath("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    own = [found for found in list_namespaces() if found.pid == os.getpid()]
    return not own and not FilePath(PIN_DIR).exists() and "ccp" not in names


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    made = tmp_path / "mine.py"
    made.write_text(AIMD)
    return made


@pytest.fixture
def player(file: FilePath) -> Iterator[KernelPlayer]:
    setting = Setting(rate_bytes_per_s=2.5e6, against="kernel/cubic")
    with closing(KernelPlayer(setting, str(file), {"decrease": "0.6"})) as made:
        yield made
    assert nothing_is_left()


def until(player: KernelPlayer, wanted: Callable[[Message], bool]) -> Message:
    end_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end_s:
        for message in player.poll():
            if wanted(message):
                return message
        time.sleep(0.01)
    raise AssertionError("the message did not come")


def is_mark(kind: str) -> Callable[[Message], bool]:
    return lambda message: message["type"] == "mark" and message["kind"] == kind


def values(player: KernelPlayer) -> dict[str, object]:
    return {one["name"]: one["value"] for one in player.state()["params"]}


def samples_of(player: KernelPlayer, seconds: float) -> list[list[Message]]:
    """Return the flows of all samples in some seconds."""
    found = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        found += [message["flows"] for message in player.poll() if message["type"] == "samples"]
        time.sleep(0.02)
    return found


def test_samples_parameters_and_path(player: KernelPlayer) -> None:
    state = player.state()
    assert (state["datapath"], state["algorithm"], values(player)["decrease"]) == ("kernel", "aimd", 0.6)
    flows = samples_of(player, 6.0)
    assert [flow["name"] for flow in flows[0]] == ["aimd", "kernel/cubic"]
    last = flows[-1]
    assert all(50_000 <= flow["srtt_us"][-1] < 150_000 for flow in last)
    assert all(flow["cwnd_bytes"][-1] > 0 for flow in last)
    total = [sum(flow["goodput_bytes_per_s"][-1] for flow in one) for one in flows[-40:]]
    assert 0.7 * 2.5e6 < sum(total) / len(total) < 1.05 * 2.5e6

    player.handle({"type": "param", "name": "decrease", "value": 0.8})
    assert until(player, is_mark("param"))["text"] == "decrease=0.8"
    assert values(player)["decrease"] == 0.8
    said = player.handle({"type": "param", "name": "decrease", "value": 8})
    assert any(one["type"] == "error" and "param.out_of_range" in one["text"] for one in said)

    (mark, _) = player.handle({"type": "path", "rate_bytes_per_s": 5e5})
    assert (mark["kind"], mark["text"][:8]) == ("path", "4 Mbit/s")
    samples_of(player, 3.0)
    slower = [sum(flow["goodput_bytes_per_s"][-1] for flow in one) for one in samples_of(player, 3.0)]
    assert sum(slower) / len(slower) < 6e5

    (mark, error, _) = player.handle({"type": "pause"})
    assert mark["kind"] == "error"
    assert error["text"].startswith("play.real_time")


def test_versions(file: FilePath, player: KernelPlayer) -> None:
    until(player, lambda message: message["type"] == "samples")
    file.write_text(AIMD + "\n")
    assert until(player, is_mark("save"))["text"] == "saved"
    assert player.source() == AIMD + "\n"
    player.handle({"type": "edit", "source": AIMD.replace("0.5, min", "0.4, min")})
    until(player, is_mark("save"))
    assert values(player)["decrease"] == 0.6  # as set when it began
    file.write_text(AIMD + "no")
    assert until(player, is_mark("error"))["text"].startswith("reload.import_failed")
    file.write_text(AIMD.replace("0.5, min", "0.4, min"))
    assert until(player, is_mark("save"))["text"] == "saved without a change"
    raising = AIMD.replace(
        "        cwnd, mss =", "        if report.now_us > 60_000_000: 1 / 0\n        cwnd, mss ="
    )
    player.handle({"type": "edit", "source": raising})
    text = until(player, lambda message: message["type"] == "error" and "ZeroDivision" in message["text"])[
        "text"
    ]
    assert text.endswith("the flows returned to the previous version")
    assert "1 / 0" not in player.source()
    until(player, lambda message: message["type"] == "samples")


def test_a_restart_begins_again(player: KernelPlayer) -> None:
    until(player, lambda message: message["type"] == "samples")
    player.handle({"type": "param", "name": "decrease", "value": 0.7})
    for wrong in ({"setting": {"against": "nothing"}}, {"source": "no"}, {"setting": {"against": "aimd"}}):
        said = player.handle({"type": "restart", **wrong})
        assert [one["type"] for one in said] == ["mark", "error", "state"]
    assert until(player, lambda message: message["type"] == "samples")["t_s"][0] > 0.05
    player.handle({"type": "restart", "setting": {"flows": 2, "rate_bytes_per_s": 1e6, "duration_s": 1.0}})
    samples = until(player, lambda message: message["type"] == "samples")
    assert samples["t_s"][0] == 0.05
    assert len(samples["flows"]) == 2
    assert values(player)["decrease"] == 0.7
    until(player, lambda _: player.over)


def played(file: FilePath) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CCP, "play", str(file), "--rate", "20mbit", "-t", "60"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_its_agent_ends_even_if_it_is_killed(file: FilePath) -> None:
    with played(file) as process:
        assert process.stdout is not None
        try:
            next(line for line in process.stdout if line.startswith("   1.00 s"))
            children = [one.pid for one in running().values() if one.parent == process.pid]
            (agent,) = [
                pid for pid in children if b"--pin-dir" in FilePath(f"/proc/{pid}/cmdline").read_bytes()
            ]
            agent_fd = os.pidfd_open(agent)
        finally:
            process.kill()
    try:
        assert select.select([agent_fd], [], [], TIMEOUT_S)[0], "the agent is still running"
    finally:
        os.close(agent_fd)
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent, signal.SIGKILL)
        clean_leftovers()
        ebpf.unload(PIN_DIR)
    assert nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_cleanly(file: FilePath, number: signal.Signals) -> None:
    lines = []
    with played(file) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith("   2.00 s"):
                os.kill(process.pid, number)
    assert process.returncode == 0
    assert lines[0].startswith(f"ccp play mine.py  Linux {os.uname().release}: 20 Mbit/s")
    assert any(line.startswith("continue:  ccp play") for line in lines)
    assert nothing_is_left()
