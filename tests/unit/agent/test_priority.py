"""Real-time priority of the agent loop, in a separate process for each test."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RAISE = """
import os, subprocess, sys, time
from ccplane.agent.priority import raise_priority
raised = raise_priority()
"""
CHILD = (
    RAISE
    + """
print(raised, os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)
child = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
print(subprocess.check_output(child, text=True))
"""
)
ENDLESS = (
    RAISE
    + """
import threading
from ccplane.agent.priority import raise_thread
from ccplane.datapath import ebpf
ready = threading.Event()
def wait():
    raise_thread()
    ebpf.drop_capabilities()
    ready.set()
    time.sleep(30)
other = threading.Thread(target=wait, daemon=True)
other.start()
ready.wait()
ebpf.drop_capabilities()  # as `ccp run` does: CAP_SYS_NICE is missing from here on
def policies():
    return [os.sched_getscheduler(one) & ~os.SCHED_RESET_ON_FORK for one in (0, other.native_id)]
print(*policies())
end = time.monotonic() + 1.5
while time.monotonic() < end and any(policies()):
    pass
print(*policies())
"""
)


def _python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="real-time priority needs root")
def test_priority_is_raised_and_children_do_not_get_it() -> None:
    assert _python(CHILD).split() == ["True", str(os.SCHED_RR), str(os.SCHED_OTHER)]


@pytest.mark.skipif(os.geteuid() != 0, reason="real-time priority needs root")
@pytest.mark.kernel_part
def test_priority_is_lost_when_an_algorithm_computes_without_end() -> None:
    raised, lost = [str(os.SCHED_RR)], [str(os.SCHED_OTHER)]
    assert _python(ENDLESS).split() == 2 * raised + 2 * lost  # of all threads


def test_without_permission_the_loop_keeps_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    from ccplane.agent import priority

    def refuse(*_: object) -> None:
        raise PermissionError("not allowed")

    monkeypatch.setattr(priority.resource, "setrlimit", refuse)
    assert not priority.raise_priority()
