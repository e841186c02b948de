"""Media over RTP as traffic of a flow."""

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
from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic.running import (
    FlowSockets,
    Media,
    MediaPacket,
    MediaReport,
    Outcome,
    TrafficResult,
)
from experiments.traffic.spec import DRAIN_S, Rtp

_PROGRAM: Final = str(Path(__file__).with_name("rtp_ends.py"))
_GRACE_S: Final = 10.0
_END_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.01


class RtpTraffic:
    """Running media.

    Attributes:
        sockets: The sockets that carry it; they are UDP's.
        started_us: Its start, CLOCK_MONOTONIC [us].
    """

    def __init__(
        self,
        spec: Rtp,
        sender: Host,
        receiver: Host,
        *,
        family: Family = "ipv4",
        duration_s: float,
        port: int | None = None,
    ) -> None:
        """Start sink and source; arguments and errors as in `start_traffic`."""
        port = receiver.new_port() if port is None else port
        own_port = sender.new_port()
        self._spec = spec
        order: dict[str, Any] = {
            "family": family,
            "address": receiver.address(family),
            "port": port,
            "own_port": own_port,
            "fps": spec.frames_per_s,
            "frame": spec.packets_bytes,
            "report_ns": round(spec.reports_every_s * 1e9),
            "drain_ns": round(DRAIN_S * 1e9),
        }
        self._where = f"host {sender.name}: media to {order['address']} port {port}"
        self.sockets = FlowSockets.of(sender, sports=(own_port, own_port), dports=(port, port))
        pipe = subprocess.PIPE
        self._sink = receiver.popen(_command("sink", order), stdout=pipe, stderr=pipe)
        try:
            self._await_sink(receiver, port)
            self.started_us = clock.now_us()
            order["end_s"] = time.monotonic() + duration_s
            self._drained_s = order["end_s"] + DRAIN_S
            self._source = sender.popen(_command("source", order), stdout=pipe, stderr=pipe)
        except BaseException:
            process.end([self._sink])
            raise
        self._outcome = Outcome()

    def _await_sink(self, receiver: Host, port: int) -> None:
        assert self._sink.stdout is not None
        assert self._sink.stderr is not None
        if self._sink.stdout.readline().strip() != "open":
            raise LabError(
                "lab.not_listening",
                f"nothing listens on UDP port {port}",
                f"host {receiver.name}",
                self._sink.stderr.read().strip()[-process.TAIL_CHARACTERS :] or "the receiver of media ended",
                "choose another port, or omit it",
            )

    @property
    def running(self) -> bool:
        """Whether the source is sending, or waiting for the last packets."""
        return not self._outcome.known and self._source.poll() is None

    def wait(self) -> TrafficResult:
        """Wait until its time is over and the last packets arrived, and return the result.

        Raises:
            LabError: `lab.command_failed` or `lab.timeout`.
        """
        # Its output may be longer than a pipe holds: then it exits only while the output is read.
        while self.running and time.monotonic() < self._drained_s:
            time.sleep(_POLL_S)
        return self._outcome.find(self._finish)

    def stop(self) -> None:
        """Stop the media.

        Raises:
            LabError: `lab.command_failed`, if a program had failed before.
        """
        self._outcome.find(self._interrupt if self.running else self._finish)

    def _interrupt(self) -> TrafficResult:
        process.kill(self._source, signal.SIGTERM)
        return self._finish(check=False)

    def _finish(self, *, check: bool = True) -> TrafficResult:
        try:
            sent = process.finish(self._source, timeout_s=_GRACE_S, where=self._where, check=check)
            process.kill(self._sink, signal.SIGTERM)
            arrived = process.finish(self._sink, timeout_s=_END_TIMEOUT_S, where=self._where)
        finally:
            process.end([self._source, self._sink])
        if not sent.stdout:  # it was still starting
            elapsed_s = (clock.now_us() - self.started_us) / 1e6
            return TrafficResult(received_bytes=None, duration_s=elapsed_s, complete=False)
        return _result(self._spec, json.loads(sent.stdout), json.loads(arrived.stdout))


def _command(part: str, order: dict[str, Any]) -> list[str]:
    return [sys.executable, "-I", "-S", _PROGRAM, part, json.dumps(order)]


def _result(spec: Rtp, sent: dict[str, Any], received: dict[str, Any]) -> TrafficResult:
    arrived_ns: dict[int, int] = dict(received["arrived"])
    packets = tuple(
        MediaPacket(frame, size, at_ns // 1000, arrived_ns[number] // 1000 if number in arrived_ns else None)
        for number, (frame, at_ns, size) in enumerate(sent["sent"])
    )
    reports = tuple(
        MediaReport(**one | {"fraction_lost": one["fraction_lost"] / 256}) for one in sent["reports"]
    )
    end_ns = sent["sent"][-1][1] + round(1e9 / spec.frames_per_s) if sent["sent"] else sent["start_ns"]
    return TrafficResult(
        received_bytes=sum(one.len_bytes for one in packets if one.arrived_us is not None),
        duration_s=(end_ns - sent["start_ns"]) / 1e9,
        complete=sent["complete"],
        media=Media(packets, reports, 1 / spec.frames_per_s, spec.reports_every_s, spec.playout_ms * 1000),
    )
