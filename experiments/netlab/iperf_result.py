"""Results of iperf3, parsed from its JSON.

Versions of iperf3 report different fields, and a receiving client reports less than a sending one: missing
values are None, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from experiments.netlab.errors import LabError
from experiments.netlab.sockets import no_congestion_control

_TAIL_CHARACTERS: Final = 500
_CONGESTION_REFUSED: Final = "unable to set TCP_CONGESTION"


@dataclass(frozen=True)
class IperfInterval:
    """One stream during one interval.

    Attributes:
        stream: Number of the stream, from 0.
        start_s: Start, since the start of the transfer [s].
        end_s: End [s].
        transferred_bytes: Bytes written to the socket, or read from it by a receiving client.
        retransmits_pkts: Retransmitted segments; None at a receiver.
        cwnd_bytes: Congestion window at the end; None at a receiver.
        rtt_us: Smoothed round-trip time at the end [us]; None at a receiver.
    """

    stream: int
    start_s: float
    end_s: float
    transferred_bytes: int
    retransmits_pkts: int | None
    cwnd_bytes: int | None
    rtt_us: int | None

    @property
    def throughput_bytes_per_s(self) -> float:
        """Rate over the interval [bytes/s]."""
        return self.transferred_bytes / (self.end_s - self.start_s) if self.end_s > self.start_s else 0.0


@dataclass(frozen=True)
class IperfResult:
    """A whole transfer.

    Attributes:
        congestion: Congestion control of the sending side, as named by the kernel; None if not reported.
        duration_s: Duration at the receiver [s].
        sent_bytes: Bytes written to the sockets.
        received_bytes: Bytes read from the sockets by the receiver.
        goodput_bytes_per_s: Application bytes received per second.
        retransmits_pkts: Retransmitted segments of all streams.
        rtt_mean_us: Mean of the smoothed round-trip time, over intervals and streams [us].
        rtt_min_us: Minimum of the smoothed round-trip time [us].
        rtt_max_us: Maximum of the smoothed round-trip time [us].
        cwnd_max_bytes: Maximum congestion window of a stream.
        client_cpu_ratio: CPU usage of the client process; 1 is one processor.
        server_cpu_ratio: CPU usage of the server process.
        intervals: All streams and intervals, in order of time.
    """

    congestion: str | None
    duration_s: float
    sent_bytes: int
    received_bytes: int
    goodput_bytes_per_s: float
    retransmits_pkts: int | None
    rtt_mean_us: float | None
    rtt_min_us: int | None
    rtt_max_us: int | None
    cwnd_max_bytes: int | None
    client_cpu_ratio: float | None
    server_cpu_ratio: float | None
    intervals: tuple[IperfInterval, ...]

    @property
    def goodput_bit_per_s(self) -> float:
        """Application bits received per second, for tables and plots."""
        return 8 * self.goodput_bytes_per_s


def parse_result(text: str, *, where: str, complaint: str = "") -> IperfResult:
    """Parse the output of `iperf3 --json`.

    Raises:
        LabError: `lab.iperf3`, if iperf3 reports an error or the output is incomplete or not JSON;
            `lab.no_congestion_control`, if that is the reported error.
    """
    report = _report(text, where, complaint)
    if message := report.get("error"):
        if _CONGESTION_REFUSED in message:
            name = report.get("start", {}).get("test_start", {}).get("congestion") or _option(where, "-C")
            raise no_congestion_control(name, where)
        raise _failed("iperf3 reported an error", where, message)
    end = report.get("end", {})
    sent, received = end.get("sum_sent"), end.get("sum_received")
    if not sent or not received:
        raise _failed(
            "iperf3 reported no totals", where, "the transfer was cut off before both sides exchanged results"
        )
    senders = [stream["sender"] for stream in end.get("streams", []) if "sender" in stream]
    cpu = end.get("cpu_utilization_percent", {})
    return IperfResult(
        congestion=end.get("sender_tcp_congestion"),
        duration_s=received["seconds"],
        sent_bytes=sent["bytes"],
        received_bytes=received["bytes"],
        goodput_bytes_per_s=received["bits_per_second"] / 8,
        retransmits_pkts=sent.get("retransmits"),
        rtt_mean_us=_over(senders, "mean_rtt", lambda values: sum(values) / len(values)),
        rtt_min_us=_over(senders, "min_rtt", min),
        rtt_max_us=_over(senders, "max_rtt", max),
        cwnd_max_bytes=_over(senders, "max_snd_cwnd", max),
        client_cpu_ratio=_ratio(cpu.get("host_total")),
        server_cpu_ratio=_ratio(cpu.get("remote_total")),
        intervals=tuple(_intervals(report.get("intervals", []))),
    )


def parse_intervals(text: str, *, where: str) -> tuple[IperfInterval, ...]:
    """Parse the intervals of a transfer that may have been cut off.

    Raises:
        LabError: `lab.iperf3`, if the output is not JSON.
    """
    return tuple(_intervals(_report(text, where).get("intervals", [])))


def _report(text: str, where: str, complaint: str = "") -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        why = (complaint or text).strip()[-_TAIL_CHARACTERS:] or "iperf3 wrote nothing"
        raise _failed("iperf3 wrote no JSON", where, why) from error
    return report


def _intervals(reported: list[dict[str, Any]]) -> Iterable[IperfInterval]:
    numbers: dict[int, int] = {}  # iperf3 numbers streams by socket
    for interval in reported:
        for stream in interval.get("streams", []):
            number = numbers.setdefault(stream["socket"], len(numbers))
            if not stream.get("omitted"):
                yield IperfInterval(
                    stream=number,
                    start_s=stream["start"],
                    end_s=stream["end"],
                    transferred_bytes=stream["bytes"],
                    retransmits_pkts=stream.get("retransmits"),
                    cwnd_bytes=stream.get("snd_cwnd"),
                    rtt_us=stream.get("rtt"),
                )


def _over(streams: list[dict[str, Any]], name: str, combine: Callable[[list[Any]], Any]) -> Any:
    values = [stream[name] for stream in streams if stream.get(name)]  # 0: not measured
    return combine(values) if values else None


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _option(command: str, option: str) -> str:
    words = command.split()
    return words[words.index(option) + 1] if option in words[:-1] else "?"


def _failed(message: str, where: str, why: str) -> LabError:
    return LabError(
        "lab.iperf3", message, where, why, "run the command manually in the host to see its full output"
    )
