"""Traffic between two Python programs: a source on the sender's host, and a sink on the receiver's.

Both are one file, which is run with the Python of this process, the name of the part and an order in JSON.
The source prints its results as JSON, at its end or on SIGTERM.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar, Final

from ccplane.base import clock
from experiments.netlab import process
from experiments.netlab.host import Host
from experiments.traffic.running import FlowSockets, Outcome, TrafficResult

_POLL_S: Final = 0.01


class TwoPrograms:
    """A running source with its sink.

    Attributes:
        program: The file of both programs.
        what: The traffic, for errors.
        grace_s: Time in which the source ends by itself when its time is over [s].
        end_timeout_s: Timeout of its end after that [s].
        sockets: The sockets that carry the traffic.
        started_us: Its start, CLOCK_MONOTONIC [us].
    """

    program: ClassVar[Path]
    what: ClassVar[str]
    grace_s: ClassVar[float]
    end_timeout_s: ClassVar[float]

    def __init__(
        self, order: dict[str, Any], sender: Host, receiver: Host, *, port: int | None, duration_s: float
    ) -> None:
        """Start both programs.

        Args:
            order: What they get, with `address`; completed with the ports, and for the source `end_s`.
            sender: Host of the source.
            receiver: Host of the sink.
            port: Port of the sink; None for an unused one.
            duration_s: Duration of the traffic [s].

        Raises:
            LabError: As in `start_traffic`.
        """
        port = receiver.new_port() if port is None else port
        own_port = sender.new_port()
        order = {**order, "port": port, "own_port": own_port}
        self._where = f"host {sender.name}: {self.what} to {order['address']} port {port}"
        self.sockets = FlowSockets.of(sender, sports=(own_port, own_port), dports=(port, port))
        pipe = subprocess.PIPE
        self._sink = receiver.popen(self._command("sink", order), stdout=pipe, stderr=pipe)
        try:
            self._await_sink(receiver, port)
            self.started_us = clock.now_us()
            end_s = time.monotonic() + duration_s
            self._deadline_s = end_s + self.grace_s
            command = self._command("source", {**order, "end_s": end_s})
            self._source = sender.popen(command, stdout=pipe, stderr=pipe)
        except BaseException:
            process.end([self._sink])
            raise
        self._outcome = Outcome()

    @property
    def running(self) -> bool:
        """Whether the source is sending, pausing or waiting for the last packets."""
        return not self._outcome.known and self._source.poll() is None

    def wait(self) -> TrafficResult:
        """Wait until its time is over, and return the result.

        Raises:
            LabError: `lab.command_failed` or `lab.timeout`.
        """
        # Its output may be longer than a pipe holds: then it exits only while the output is read.
        while self.running and time.monotonic() < self._deadline_s:
            time.sleep(_POLL_S)
        return self._outcome.find(self._finish)

    def stop(self) -> None:
        """Stop the traffic.

        Raises:
            LabError: `lab.command_failed`, if a program had failed before.
        """
        self._outcome.find(self._interrupt if self.running else self._finish)

    def _interrupt(self) -> TrafficResult:
        process.kill(self._source, signal.SIGTERM)
        return self._finish(check=False)

    def _finish(self, *, check: bool = True) -> TrafficResult:
        try:
            sent = process.finish(self._source, timeout_s=self.end_timeout_s, where=self._where, check=check)
            received = self._received()
        finally:
            process.end([self._source, self._sink])
        if not sent.stdout:  # it was still starting or connecting
            elapsed_s = (clock.now_us() - self.started_us) / 1e6
            return TrafficResult(received_bytes=None, duration_s=elapsed_s, complete=False)
        return self._result(json.loads(sent.stdout), json.loads(received))

    def _command(self, part: str, order: dict[str, Any]) -> list[str]:
        return [sys.executable, "-I", "-S", str(self.program), part, json.dumps(order)]

    def _await_sink(self, receiver: Host, port: int) -> None:
        """Return once the sink can receive."""
        raise NotImplementedError

    def _received(self) -> str:
        """Return what the sink reports once the source has ended, as JSON; nothing by default."""
        return "{}"

    def _result(self, sent: dict[str, Any], received: dict[str, Any]) -> TrafficResult:
        """Return the result of what both report."""
        raise NotImplementedError
