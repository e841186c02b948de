"""Driving the kernel datapath from a test: one thread polls, while real programs send."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ccplane.base import _native
from experiments import agent_process
from experiments.netlab import Host, IperfRun, namespace
from tests.waiting import wait_until as wait_until

PIN_DIR = "/sys/fs/bpf/ccplane-test"
Start = Callable[..., IperfRun]
"""The fixture `start_transfer`."""
PATIENT = {"heartbeat_timeout_ms": 5000, "report_timeout_ms": 60_000}
"""For a datapath: a test that has no processor for a while is no silent agent."""
EVERY_ACK = """
(def (Report (volatile acked 0) (volatile lost 0) (volatile timeouts 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (report))
"""
"""A report an ACK; the window stays."""

CONST = """
(def (Report (volatile acked 0) (window 0) (srtt 0)) (target 144800))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.srtt Flow.srtt_us)
    (:= Cwnd target)
    (:= Report.window Cwnd)
    (fallthrough))
(when (|| (> Micros 5000) Flow.was_timeout)
    (report)
    (:= Micros 0))
"""
"""A fixed window, set from outside, and a report every 5 ms."""


def ccp(*arguments: str) -> str:
    """Run the command line as users do, for the agent of `experiments.agent_process`."""
    program = "from ccplane.agent.entry import main; main()"
    command = [sys.executable, "-c", program, *arguments, "--pin-dir", agent_process.PIN_DIR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def loaded(**options: Any) -> Iterator[_native.EbpfDatapath]:
    """Load a datapath of the tests' own, and remove it afterwards."""
    _native.EbpfDatapath.unload(PIN_DIR)
    datapath = _native.EbpfDatapath(pin_dir=PIN_DIR, **{"max_flows": 1024, **PATIENT, **options})
    try:
        yield datapath
    finally:
        datapath.close()
        _native.EbpfDatapath.unload(PIN_DIR)


@dataclass
class Seen:
    """What came up while a driver polled."""

    created: list[_native.FlowInfo] = field(default_factory=list)
    closed: dict[int, _native.FlowStats] = field(default_factory=dict)
    reports: list[_native.Report] = field(default_factory=list)
    reported: list[_native.Reported] = field(default_factory=list)
    known: set[int] = field(default_factory=set)

    def sender(self) -> _native.FlowInfo:
        """Return the flow that sent the most; servers, which choose the same name, send next to nothing."""
        return max(self.created, key=lambda info: self.closed[info.flow_id].bytes_acked)

    def busiest(self) -> int:
        """Return the flow with the most reports so far: the one that sends."""
        return Counter(report.flow_id for report in self.reports).most_common(1)[0][0]

    def of(self, flow_id: int) -> list[_native.Report]:
        """Return the reports of one flow."""
        return [report for report in self.reports if report.flow_id == flow_id]


@dataclass
class Driver:
    """Polls, hands a program to every new flow, and calls back."""

    datapath: _native.EbpfDatapath
    program: int | None
    on_report: Callable[[_native.Report], None] = lambda report: None
    on_create: Callable[[_native.FlowInfo], None] = lambda info: None
    answers: Callable[[_native.Report | _native.Created], bool] = lambda event: True
    seen: Seen = field(default_factory=Seen)

    def turn(self, timeout_ms: int = 20) -> None:
        """Poll once."""
        for event in self.datapath.poll(timeout_ms):
            if isinstance(event, _native.Report | _native.Created) and self.answers(event):
                self.datapath.answered(event)
            if isinstance(event, _native.Created):
                if event.flow_id in self.seen.known:
                    continue  # it waits for an answer
                self.seen.known.add(event.flow_id)
                self.seen.created.append(event.info)
                if self.program is not None:
                    self.datapath.update(event.info.flow_id, program=self.program)
                self.on_create(event.info)
            elif isinstance(event, _native.Closed):
                self.seen.closed[event.flow_id] = event.stats
            elif isinstance(event, _native.Reported):
                self.seen.reported.append(event)
            else:
                self.seen.reports.append(event)
                self.on_report(event)

    def until(self, done: Callable[[], object], timeout_s: float = 30.0) -> None:
        """Poll until something holds."""
        end = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < end, f"still waiting after {timeout_s} s"
            self.turn()

    def run_for(self, seconds: float) -> None:
        """Poll for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()


def inode(host: Host) -> int:
    """Return the number of a host's network namespace."""
    return os.stat(namespace.path_of(host.namespace)).st_ino


def said_without_privilege(name: str, arguments: str) -> str:
    """Return slug and fix of the error of a class of the native part that is made without any privilege.

    Args:
        name: Of the class in `ccplane.base._native`.
        arguments: Of its making, as source text.
    """
    script = f"""
import os
from ccplane.base._native import {name}
from ccplane.base.errors import CcpError
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    {name}({arguments})
except CcpError as error:
    print(error.slug, error.fix)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout
