"""The demo as users start it: its table, its plot, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path as FilePath

import pytest

from experiments.agent_process import PIN_DIR, running_agent
from experiments.demo.runs import CLEAN, EDIT, LOSSY, PAYLOAD_SHARE, RATE_BYTES_PER_S, RTT_US, RUNS
from experiments.netlab.lab import list_namespaces

# As the installed command `ccp`, which finds `demo` by its entry point.
CCP = """
from ccplane.agent import cli
from ccplane.agent.front import Entry
cli.plugins = lambda: {"demo": Entry("demo", "experiments.demo.command:app")}
cli.main()
"""
SECONDS = 2
WITH_EDIT_S = 6
"""On busy processors, the check of the edited file takes up to two seconds."""
TIMEOUT_S = 110
"""Emulated processors are ten times slower."""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", CCP, "demo", *(str(one) for one in arguments)]


def names() -> list[str]:
    return FilePath("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def nothing_is_left(pid: int) -> bool:
    own = [found for found in list_namespaces() if found.pid == pid]
    return not own and not FilePath(PIN_DIR).exists() and "ccp" not in names()


def test_figures_and_plot(tmp_path: FilePath) -> None:
    plot = tmp_path / "out" / "demo.png"
    done = subprocess.run(
        command("--seconds", WITH_EDIT_S, "--out", plot, "--json"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["datapath"], document["kernel"]) == ("ebpf", os.uname().release)
    assert document["why_not_the_kernel"] is None
    transfers = document["transfers"]
    assert [(one["act"], one["algorithm"]) for one in transfers] == [(one.act, one.label) for one in RUNS]
    for one in transfers:
        assert RTT_US * 0.99 < one["rtt_p50_us"] <= one["rtt_p95_us"] < 2.5 * RTT_US  # the buffer is one RTT
        assert one["samples"] > 10
    clean, lossy, edit = (
        {one["algorithm"]: one["goodput_by_version_bytes_per_s"] for one in transfers if one["act"] == act}
        for act in (CLEAN, LOSSY, EDIT)
    )
    for (rate,) in clean.values():
        assert 0.3 <= rate / (PAYLOAD_SHARE * RATE_BYTES_PER_S) <= 1.01  # slow start is in it
    assert lossy["kernel CUBIC"][0] < lossy["lt_cubic"][0] / 2
    before, after = edit["mine.py"]
    assert 1.5 * before < after
    head = plot.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", head[16:])
    assert min(width, height) >= 600


@pytest.mark.parametrize(("moment", "number"), [("kernel/cubic", signal.SIGTERM), ("cubic", signal.SIGINT)])
def test_nothing_is_left_when_it_is_interrupted(
    tmp_path: FilePath, moment: str, number: signal.Signals
) -> None:
    plot = tmp_path / "demo.png"

    def kernel_sends(pid: int) -> bool:
        return any(found.pid == pid and found.n_processes for found in list_namespaces())

    def own_sends(_pid: int) -> bool:
        return "ccp.cubic" in names()

    reached: Callable[[int], bool] = kernel_sends if moment == "kernel/cubic" else own_sends
    with subprocess.Popen(
        command("--seconds", SECONDS, "--out", plot), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        end_s = time.monotonic() + TIMEOUT_S
        while not reached(process.pid):
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < end_s
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 128 + number
    assert nothing_is_left(process.pid)
    assert not plot.exists()


def without_capabilities(lost: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    without = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", f"--bounding-set=-{lost}"]
    return subprocess.run([*without, *command(*arguments)], capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.mark.parametrize("lost", ["all", "sys_admin"])
def test_without_privilege_one_line_says_so_when_the_kernel_is_asked_for(lost: str) -> None:
    done = without_capabilities(lost, "--datapath", "ebpf")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "root" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("lost", ["all", "sys_admin"])
def test_without_privilege_the_simulator_runs_and_why_is_said(lost: str, tmp_path: FilePath) -> None:
    plot = tmp_path / "demo.svg"
    done = without_capabilities(lost, "--seconds", SECONDS, "--out", plot, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["datapath"], document["kernel"]) == ("sim", None)
    assert "root" in document["why_not_the_kernel"] or "CAP_" in document["why_not_the_kernel"]
    assert plot.exists()


def test_an_agent_that_runs_already_is_named(tmp_path: FilePath) -> None:
    with running_agent("cubic") as agent:
        done = subprocess.run(
            command("--out", tmp_path / "demo.png"), capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert agent.running
        assert done.returncode == 2
        assert str(agent.pid) in done.stderr
        assert "ccp.cubic" in names(), "the agent's registration stays"
    assert os.listdir(tmp_path) == []
