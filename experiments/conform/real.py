"""A path of real sockets that a case lets run: time passes by itself while the case waits."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from ccplane.base import _native, clock
from experiments.conform.net import Flow, Net
from experiments.netlab import namespace
from experiments.netlab.emulated import emulated
from experiments.netlab.errors import LabError
from experiments.runs import artifacts
from experiments.runs.session import flow_records
from experiments.runs.steering import Steering, turn
from experiments.runs.variants import variants_of
from experiments.scenario import Scenario
from experiments.traffic import RunningTraffic, start_traffic
from experiments.traffic.spec import TCP

_INTERVAL_US: Final = 1000
"""Time between samples of links [us]."""
_PATIENCE_S: Final = 10.0
"""Time for a flow to send its first packet [s]."""
_WRITTEN_S: Final = 0.05
"""Time for the emulator to write its samples [s]."""
_TAIL_BYTES: Final = 1 << 14
"""Part of the samples that is certain to contain the last of each link."""


class RealNet(Net):
    """Flows over one emulated path, on sockets of this machine. Time 0 is the first packet on the path."""

    def __init__(self, scenario: Scenario) -> None:
        """Build the network; nothing is sent before `run`.

        Raises:
            CcpError: If the scenario is invalid, or real sockets are not available.
            Several: If several things are wrong.
        """
        scenario.validate()
        super().__init__(scenario)
        self._traffic: list[RunningTraffic] = []
        self._start_us = 0
        self._agent: Steering | None = None
        with contextlib.ExitStack() as opened:
            self._build(opened)
            self._opened = opened.pop_all()

    def _build(self, opened: contextlib.ExitStack) -> None:
        scenario, variants = self._scenario, variants_of(self._scenario)
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="ccplane-conform-")))
        self._csv = folder / artifacts.LINKS_CSV
        lock = opened.enter_context(turn()) if variants.all else None
        self._net = opened.enter_context(
            emulated(
                scenario.network,
                seed=scenario.seed,
                samples_path=self._csv,
                sample_interval_us=_INTERVAL_US,
            )
        )
        if variants.all:
            log = opened.enter_context((folder / artifacts.AGENT_LOG).open("wb"))
            self._agent = Steering(variants.over(TCP), log, lock, features_in=folder)
            opened.callback(self._agent.stop)
        inodes = [os.stat(namespace.path_of(host.namespace)).st_ino for host in self._net.hosts.values()]
        self._trace = opened.enter_context(_native.TcpTrace(scenario.sample_interval_us, inodes))
        for flow in scenario.flows:
            for name in (flow.sender, flow.receiver):
                if flow.ecn:
                    self._net.hosts[name].set_sysctl("net.ipv4.tcp_ecn", 1)
        self._records = flow_records(scenario, variants)
        self.flows = [Flow(record) for record in self._records]

    def __exit__(self, *_exception: object) -> None:
        self._opened.close()

    @property
    def now_us(self) -> int:
        """CLOCK_MONOTONIC [us]."""
        return clock.now_us()

    @property
    def start_us(self) -> int:
        """The first packet on the path [us]; now, before that."""
        return self._start_us or self.now_us

    def counters(self) -> dict[str, int]:
        """As in `Net`."""
        counted: dict[str, int] = msgspec.to_builtins(self._net.stats()[f"{self._link}>"])
        return counted

    def arrivals_pkts(self, seconds: float, step_s: float = 0.001) -> np.ndarray:
        """As in `Net`, by the emulator's samples. Where one is late, packets count as evenly spaced."""
        self._begin()
        began_us, at = self.now_us, max(0, self._csv.stat().st_size - _TAIL_BYTES)
        self.run(seconds + _WRITTEN_S)
        t_us, arrived_pkts = self._arrived(at)
        marks_us = began_us + 1e6 * step_s * np.arange(round(seconds / step_s) + 1)
        return np.diff(np.floor(np.interp(marks_us, t_us, arrived_pkts)).astype(np.int64))

    def _arrived(self, at: int) -> tuple[list[int], list[int]]:
        """Return times [us], and how many packets had reached the path, from a position in the file on."""
        with self._csv.open("rb") as file:
            file.seek(at)
            lines = file.read().decode().splitlines()[1:]  # the header, or the rest of a line
        rows = [row for row in (line.split(",", 5) for line in lines) if len(row) == 6]
        own = [row for row in rows if row[1] == f"{self._link}>"]
        return [int(row[0]) for row in own], [int(row[4]) for row in own]

    def _begin(self) -> int:
        if self._traffic:
            return self.now_us
        for flow, record, own in zip(self._scenario.flows, self._records, self.flows, strict=True):
            traffic = start_traffic(
                flow.traffic,
                self._net.hosts[flow.sender],
                self._net.hosts[flow.receiver],
                congestion=record.congestion,
                duration_s=self._scenario.duration_s,
                seed=self._scenario.seed,
            )
            self._traffic.append(traffic)
            self._opened.callback(traffic.stop)
            own.sockets = traffic.sockets
        self._start_us = self._first_packet_us()
        for own in self.flows:
            own.start_us = self._start_us
        return self._start_us

    def _first_packet_us(self) -> int:
        end_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end_s:
            time.sleep(_INTERVAL_US / 1e6)
            for t_us, arrived_pkts in zip(*self._arrived(0), strict=True):
                if arrived_pkts:
                    return t_us
            for traffic in self._traffic:
                if not traffic.running:
                    traffic.wait()  # raises its error
        raise LabError(
            "lab.timeout",
            f"no flow sent a packet within {_PATIENCE_S:g} s",
            f"path of {self._scenario.name}",
            fix="try again when the machine is less busy",
        )

    def _pass(self, until_us: int) -> None:
        if self._agent is not None:
            self._agent.must_run()
        time.sleep(max(0, until_us - self.now_us) / 1e6)
        rows = self._trace.drain()
        for flow in self.flows:
            flow.add(rows)

    def _change(self, link: str, **fields: Any) -> None:
        self._net.change(link, **fields)
