"""An agent in a time namespace, whose CLOCK_MONOTONIC is not the kernel's."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath

import pytest

from ccplane.agent.client import Client
from ccplane.agent.control import control_socket
from ccplane.base import _native
from ccplane.datapath import ebpf
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab import Path
from tests.kernel.driving import Start, wait_until

pytestmark = pytest.mark.skipif(
    not FilePath("/proc/self/timens_offsets").exists(), reason="this kernel has no time namespaces"
)


@contextmanager
def agent_with_offset(offset_s: int) -> Iterator[int]:
    """Run `ccp run cubic` in a time namespace for a `with` block; yields its process id."""
    enter = ["unshare", "--time", "--monotonic", str(offset_s), "--fork", "--kill-child", "--"]
    with running_agent("cubic", enter=enter) as agent:
        children = FilePath(f"/proc/{agent.pid}/task/{agent.pid}/children")
        pid = int(children.read_text())
        try:
            yield pid
        finally:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGINT)


@pytest.mark.parametrize("offset_s", [100_000, -1])
def test_flows_are_steered_while_the_agent_lives_and_only_then(
    path_100mbit: Path, start_transfer: Start, offset_s: int
) -> None:
    # As far back as the machine's uptime permits.
    offset_s = offset_s if offset_s > 0 else -int(time.monotonic() / 2)
    with agent_with_offset(offset_s) as pid:
        view = ebpf.observe(PIN_DIR)
        start_transfer(path_100mbit.sender, path_100mbit.receiver, congestion="ccp.cubic", duration_s=30)

        def sender() -> _native.FlowStats | None:
            return max(view.all_stats(), key=lambda one: one.bytes_acked, default=None)  # type: ignore[return-value,arg-type]

        def is_steered(is_it: bool) -> bool:
            found = sender()
            return found is not None and found.bytes_acked > 1_000_000 and found.fallback != is_it

        wait_until(lambda: is_steered(True))
        with Client(control_socket(PIN_DIR)) as client:
            times_us = [event["t_us"] for event in client.events() if event["kind"] == "flow:created"]
            assert times_us
            assert all(0 <= time.monotonic_ns() // 1000 - t_us < 300_000_000 for t_us in times_us)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_steered(False))
        found = sender()
        assert found is not None
        assert found.fallback_cause == "silent"
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: is_steered(True))
