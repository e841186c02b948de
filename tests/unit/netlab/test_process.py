from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.netlab import LabError, process

PIPE = subprocess.PIPE


def start(*args: str) -> process.Process:
    return process.start(args, where="test", stdin=None, stdout=PIPE, stderr=PIPE, env=None)


def ends(pid: int) -> bool:
    deadline_s = time.monotonic() + 5  # a signal takes a moment
    while process.runs(pid) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return not process.runs(pid)


def test_output_and_status_come_back() -> None:
    done = process.finish(start("sh", "-c", "echo out; echo err >&2"), timeout_s=10, where="test")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")


def test_a_failed_command_is_quoted() -> None:
    with pytest.raises(LabError) as caught:
        process.finish(start("sh", "-c", "echo broken >&2; exit 3"), timeout_s=10, where="test")
    assert caught.value.slug == "lab.command_failed"
    assert "status 3" in caught.value.message
    assert caught.value.why == "broken"


def test_a_killed_command_names_the_signal() -> None:
    with pytest.raises(LabError) as caught:
        process.finish(start("sh", "-c", "kill -USR1 $$"), timeout_s=10, where="test")
    assert "SIGUSR1" in caught.value.message


def test_a_status_can_be_let_pass() -> None:
    assert (
        process.finish(start("sh", "-c", "exit 3"), timeout_s=10, where="test", check=False).returncode == 3
    )


def test_a_command_that_takes_too_long_is_killed_with_its_children() -> None:
    running = start("sh", "-c", "sleep 100 & echo $!; wait")
    begin_s = time.monotonic()
    with pytest.raises(LabError) as caught:
        process.finish(running, timeout_s=0.3, where="test")
    assert caught.value.slug == "lab.timeout"
    assert time.monotonic() - begin_s < 10
    assert ends(int(caught.value.why))


def test_a_missing_program_reports_its_package() -> None:
    with pytest.raises(LabError) as caught:
        start("no-such-program-here")
    assert caught.value.slug == "lab.no_command"
    with pytest.raises(LabError) as caught:
        process.which("/no/such/place/iperf3", "test")
    assert caught.value.fix == "apt-get install iperf3"


def test_processes_that_ignore_sigterm_are_ended_too() -> None:
    stubborn = (
        "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print(1, flush=True); time.sleep(99)"
    )
    first, second = start(sys.executable, "-c", stubborn), start("sleep", "100")
    assert first.stdout is not None
    first.stdout.readline()
    process.end([first, second])
    assert first.returncode == -signal.SIGKILL
    assert second.returncode == -signal.SIGTERM
    assert first.stdout.closed


def test_strangers_are_killed_by_number() -> None:
    running = start("sh", "-c", "sleep 100 & echo $!")
    assert running.stdout is not None
    stranger = int(running.stdout.readline())
    process.kill_numbers([stranger, os.getpid()])
    assert not process.runs(stranger)
    process.end([running])
