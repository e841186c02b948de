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
from experiments.demo import LABELS, PAYLOAD_SHARE, RATE_BYTES_PER_S
from experiments.netlab.lab import list_namespaces

# As the installed command `ccp`, which finds `demo` by its entry point.
CCP = """
from importlib.metadata import EntryPoint
from agent import cli
cli.plugins = lambda: {"demo": EntryPoint("demo", "experiments.demo:app", cli.COMMANDS)}
cli.main()
"""
SECONDS = 3
TIMEOUT_S = 100
"""Emulated processors are ten times slower."""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", CCP, "demo", *(str(one) for one in arguments)]


def names() -> list[str]:
    return FilePath("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def nothing_is_left(pid: int) -> bool:
    ours = [found for found in list_namespaces() if found.pid == pid]
    return not ours and not FilePath(PIN_DIR).exists() and "ccp" not in names()


def test_figures_and_plot(tmp_path: FilePath) -> None:
    plot = tmp_path / "out" / "demo.png"
    done = subprocess.run(
        command("--seconds", SECONDS, "--output", plot, "--json"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    kernel, ours = json.loads(done.stdout)["transfers"]
    assert [kernel["congestion"], ours["congestion"]] == list(LABELS)
    for one in (kernel, ours):
        assert 0.8 <= one["goodput_bytes_per_s"] / (PAYLOAD_SHARE * RATE_BYTES_PER_S) <= 1.01
        assert 1_000 < one["rtt_mean_us"] <= one["rtt_p99_us"] < 60_000  # the buffer is 20 ms
        assert one["cpu_s_per_gb"] > 0
        assert one["samples"] > 20
    head = plot.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", head[16:])
    assert min(width, height) >= 600


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", LABELS)
def test_nothing_is_left_when_it_is_interrupted(
    tmp_path: FilePath, moment: str, number: signal.Signals
) -> None:
    plot = tmp_path / "demo.png"

    def kernel_sends(pid: int) -> bool:
        return any(found.pid == pid and found.n_processes for found in list_namespaces())

    def ours_sends(_pid: int) -> bool:
        return "ccp.cubic" in names()

    reached: Callable[[int], bool] = kernel_sends if moment == "cubic" else ours_sends
    with subprocess.Popen(
        command("--seconds", SECONDS, "--output", plot), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
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


@pytest.mark.parametrize("lost", ["all", "sys_admin"])
def test_without_privilege_one_line_says_so(lost: str) -> None:
    without = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", f"--bounding-set=-{lost}"]
    done = subprocess.run([*without, *command()], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "root" in done.stderr
    assert done.stdout == ""


def test_an_agent_that_runs_already_is_named(tmp_path: FilePath) -> None:
    with running_agent("cubic") as agent:
        done = subprocess.run(
            command("--output", tmp_path / "demo.png"), capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert agent.running
        assert done.returncode == 2
        assert str(agent.pid) in done.stderr
        assert "ccp.cubic" in names(), "the agent's registration stays"
    assert os.listdir(tmp_path) == []
