"""On/off traffic of a flow: pulses on one connection."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from ccplane.base import clock
from experiments.netlab import process
from experiments.netlab.host import Host
from experiments.netlab.iperf import wait_until_listening
from experiments.netlab.sockets import available_congestion_controls, no_congestion_control
from experiments.netlab.spec import Family
from experiments.traffic.running import FlowSockets, Outcome, TrafficResult
from experiments.traffic.spec import OnOff

_PROGRAM: Final = str(Path(__file__).with_name("pulses.py"))
_GRACE_S: Final = 35.0
"""Extra time for the source beyond the duration of its flow [s]; connecting may take several tries."""
_END_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.01


class OnOffTraffic:
    """A running on/off transfer.

    Attributes:
        sockets: The sockets that carry it.
        started_us: Its start, CLOCK_MONOTONIC [us].
    """

    def __init__(
        self,
        spec: OnOff,
        sender: Host,
        receiver: Host,
        *,
        congestion: str,
        family: Family = "ipv4",
        duration_s: float,
        seed: int = 1,
        port: int | None = None,
    ) -> None:
        """Start sink and source; arguments and errors as in `start_traffic`."""
        port = receiver.new_port() if port is None else port
        own_port = sender.new_port()
        if congestion not in available_congestion_controls():
            raise no_congestion_control(congestion, f"host {sender.name}")
        place = {
            "family": family,
            "address": receiver.address(family),
            "port": port,
            "congestion": congestion,
        }
        order: dict[str, Any] = {
            **place,
            "own_port": own_port,
            "on_s": spec.on_s,
            "off_s": spec.off_s,
            "distribution": spec.distribution,
            "rate_bytes_per_s": spec.rate_bytes_per_s,
            "seed": seed,
        }
        self._where = f"host {sender.name}: pulses to {place['address']} port {port}"
        self.sockets = FlowSockets.of(sender, sports=(own_port, own_port), dports=(port, port))
        self._sink = receiver.popen(_command("sink", place), stderr=subprocess.PIPE)
        try:
            wait_until_listening(receiver, port, self._sink)
            self.started_us = clock.now_us()
            end_s = time.monotonic() + duration_s
            self._deadline_s = end_s + _GRACE_S
            order["end_s"] = end_s
            pipe = subprocess.PIPE
            self._source = sender.popen(_command("source", order), stdout=pipe, stderr=pipe)
        except BaseException:
            process.end([self._sink])
            raise
        self._outcome = Outcome()

    @property
    def running(self) -> bool:
        """Whether the source is sending or pausing."""
        return not self._outcome.known and self._source.poll() is None

    def wait(self) -> TrafficResult:
        """Wait until its time is over, and return the result.

        Raises:
            LabError: `lab.command_failed` or `lab.timeout`.
        """
        while self.running and time.monotonic() < self._deadline_s:
            time.sleep(_POLL_S)
        return self._outcome.find(self._finish)

    def stop(self) -> None:
        """Stop the transfer.

        Raises:
            LabError: `lab.command_failed`, if it had failed before.
        """
        self._outcome.find(self._interrupt if self.running else self._finish)

    def _finish(self) -> TrafficResult:
        try:
            done = process.finish(self._source, timeout_s=_END_TIMEOUT_S, where=self._where)
        finally:
            process.end([self._source, self._sink])
        return _read(done.stdout)

    def _interrupt(self) -> TrafficResult:
        process.kill(self._source, signal.SIGTERM)
        try:
            done = process.finish(self._source, timeout_s=_END_TIMEOUT_S, where=self._where, check=False)
        finally:
            process.end([self._source, self._sink])
        if done.stdout:
            return _read(done.stdout)
        elapsed_s = (clock.now_us() - self.started_us) / 1e6  # it was still starting or connecting
        return TrafficResult(received_bytes=None, duration_s=elapsed_s, complete=False)


def _command(part: str, order: dict[str, Any]) -> list[str]:
    return [sys.executable, "-I", "-S", _PROGRAM, part, json.dumps(order)]


def _read(text: str) -> TrafficResult:
    account = json.loads(text)
    return TrafficResult(
        received_bytes=account["acked_bytes"],
        duration_s=account["duration_s"],
        complete=account["complete"],
        retrans_pkts=account["retrans_pkts"],
    )
