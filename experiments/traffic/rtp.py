"""Media over RTP as traffic of a flow."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, Final

from experiments.netlab import process
from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.traffic.running import Media, MediaPacket, MediaReport, TrafficResult
from experiments.traffic.spec import DRAIN_S, Rtp
from experiments.traffic.two_programs import TwoPrograms

_SINK_END_TIMEOUT_S: Final = 5.0


class RtpTraffic(TwoPrograms):
    """Running media; its sockets are UDP's."""

    program = Path(__file__).with_name("rtp_ends.py")
    what = "media"
    grace_s = DRAIN_S
    end_timeout_s = 10.0

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
        self._spec = spec
        order = {
            "family": family,
            "address": receiver.address(family),
            "fps": spec.frames_per_s,
            "frame": spec.packets_bytes,
            "report_ns": round(spec.reports_every_s * 1e9),
            "drain_ns": round(DRAIN_S * 1e9),
        }
        super().__init__(order, sender, receiver, port=port, duration_s=duration_s)

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

    def _received(self) -> str:
        process.kill(self._sink, signal.SIGTERM)
        return process.finish(self._sink, timeout_s=_SINK_END_TIMEOUT_S, where=self._where).stdout

    def _result(self, sent: dict[str, Any], received: dict[str, Any]) -> TrafficResult:
        spec = self._spec
        arrived_ns: dict[int, int] = dict(received["arrived"])
        packets = tuple(
            MediaPacket(
                frame, size, at_ns // 1000, arrived_ns[number] // 1000 if number in arrived_ns else None
            )
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
            media=Media(
                packets, reports, 1 / spec.frames_per_s, spec.reports_every_s, spec.playout_ms * 1000
            ),
        )
