"""The packets of a connection as qlog events, from captures of both directions of its sender's link.

TCP has no packet numbers: here each transmission of a segment has one, in the order of sending. The packet
type is that of QUIC's data, and the stream's offset is the sequence number from the first byte on.

- A packet is acknowledged by the first ACK that covers it, cumulatively or by SACK (RFC 2018).
- TCP's loss detection is not on the wire. A packet counts as lost when it is retransmitted before an ACK
  covers it, also if the retransmission is spurious; a later ACK then acknowledges the newest transmission.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.errors import ResultError
from experiments.events import SetLink
from experiments.netlab import pcapng
from experiments.netlab.spec import Direction
from experiments.results import Result

Event = dict[str, Any]

PACKET_TYPE: Final = "1RTT"
_TCP: Final = 6
_EXTENSIONS: Final = (0, 60)
"""Extension headers that in-band telemetry uses: hop-by-hop and destination options."""
_SYN, _FIN, _ACK = 0x02, 0x01, 0x10
_SACK: Final = 5


@dataclasses.dataclass(frozen=True)
class Segment:
    """A TCP segment on the wire.

    Attributes:
        t_us: Time since 1970 [us].
        ports: Source and destination port.
        seq: Sequence number.
        ack: Acknowledgment number; None without one.
        flags: TCP's flags.
        len_bytes: Its IP packet.
        payload_bytes: Its payload.
        sacks: First sequence number, and the one after the last, of each SACK range.
    """

    t_us: float
    ports: tuple[int, int]
    seq: int
    ack: int | None
    flags: int
    len_bytes: int
    payload_bytes: int
    sacks: tuple[tuple[int, int], ...] = ()


def segments(capture: bytes) -> Iterator[Segment]:
    """Yield the TCP segments of a capture.

    Raises:
        ValueError: If it is not one of the emulator's.
    """
    for t_ns, packet in pcapng.packets(capture):
        at = _tcp_at(packet)
        if at is None or len(packet) < at + 20:
            continue
        tcp = packet[at:]
        header_bytes, flags = 4 * (tcp[12] >> 4), tcp[13]
        # By its header: a capture may have the first bytes only.
        len_bytes = _number(packet[2:4]) if packet[0] >> 4 == 4 else 40 + _number(packet[4:6])
        yield Segment(
            t_ns / 1000,
            (_number(tcp[:2]), _number(tcp[2:4])),
            _number(tcp[4:8]),
            _number(tcp[8:12]) if flags & _ACK else None,
            flags,
            len_bytes,
            len_bytes - at - header_bytes,
            tuple(_sacks(tcp[20:header_bytes])),
        )


def _tcp_at(packet: bytes) -> int | None:
    """Return where TCP's header begins; None in other packets."""
    if packet[0] >> 4 == 4:
        return 4 * (packet[0] & 15) if packet[9] == _TCP else None
    kind, at = packet[6], 40
    while kind in _EXTENSIONS and at + 2 <= len(packet):
        kind, at = packet[at], at + 8 * (packet[at + 1] + 1)
    return at if kind == _TCP else None


def _sacks(options: bytes) -> Iterator[tuple[int, int]]:
    while len(options) > 1 and options[0]:
        length = 1 if options[0] == 1 else max(2, options[1])
        if options[0] == _SACK:
            for at in range(2, length - 7, 8):
                yield _number(options[at : at + 4]), _number(options[at + 4 : at + 8])
        options = options[length:]


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


class Scoreboard:
    """The packets of a connection that are not acknowledged yet, by sequence number from its SYN on."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._newest = 0
        self._count = 0
        self._starts: list[int] = []
        self._waiting: dict[int, tuple[int, int]] = {}
        """Start -> number of the packet, and its end."""

    def send(self, segment: Segment) -> tuple[int, int, list[int]]:
        """Return the number of a new packet, its position, and the numbers of those that it repeats."""
        if self._first is None:
            self._first = segment.seq
        start = self._position(segment.seq)
        opens_or_closes = bool(segment.flags & _SYN) + bool(segment.flags & _FIN)
        end = start + segment.payload_bytes + opens_or_closes
        self._newest = max(self._newest, end)
        lost = self._take(max(0, bisect.bisect_right(self._starts, start) - 1), start, end, whole=False)
        number, self._count = self._count, self._count + 1
        bisect.insort(self._starts, start)
        self._waiting[start] = number, end
        return number, start, lost

    def acknowledge(self, segment: Segment) -> list[int]:
        """Return the numbers of the packets that an ACK is the first to cover, ascending."""
        if segment.ack is None or self._first is None:
            return []
        found = self._take(0, 0, self._position(segment.ack), whole=True)
        for left, right in segment.sacks:
            start, end = self._position(left), self._position(right)
            found += self._take(bisect.bisect_left(self._starts, start), start, end, whole=True)
        return sorted(found)

    def _take(self, at: int, start: int, end: int, *, whole: bool) -> list[int]:
        """Take out packets from an index on: those inside of a range, or those that overlap it."""
        taken = []
        while at < len(self._starts) and self._starts[at] < end:
            number, its_end = self._waiting[self._starts[at]]
            if (its_end <= end) if whole else (its_end > start):
                taken.append(number)
                del self._waiting[self._starts.pop(at)]
            else:
                at += 1
        return taken

    def _position(self, number: int) -> int:
        """Return a position without wrap-around, the one nearest to the newest data."""
        assert self._first is not None
        ahead = (number - self._first - self._newest) & 0xFFFFFFFF
        return self._newest + (ahead if ahead < 1 << 31 else ahead - (1 << 32))


def events(sent: Iterable[Segment], received: Iterable[Segment]) -> Iterator[tuple[float, str, Event]]:
    """Yield time since 1970 [us], name and data of a connection's events, in order of time.

    Args:
        sent: What the sender sent, and when.
        received: What reached it, and when.
    """
    board, acks = Scoreboard(), 0
    both = sorted([*((one, True) for one in sent), *((one, False) for one in received)], key=_when)
    for one, is_sent in both:
        raw = {"length": one.len_bytes, "payload_length": one.payload_bytes}
        if is_sent and (one.payload_bytes or one.flags & (_SYN | _FIN)):
            number, start, lost = board.send(one)
            yield from ((one.t_us, "recovery:packet_lost", {"header": _header(each)}) for each in lost)
            offset = max(0, start - 1)  # without the SYN
            frame = {"frame_type": "stream", "stream_id": 0, "offset": offset, "length": one.payload_bytes}
            made = {"header": _header(number), "raw": raw, "frames": [frame] if one.payload_bytes else []}
            yield one.t_us, "transport:packet_sent", made
        elif not is_sent and one.ack is not None:
            frame = {"frame_type": "ack"}
            if ranges := _ranges(board.acknowledge(one)):
                frame["acked_ranges"] = ranges
            yield (
                one.t_us,
                "transport:packet_received",
                {"header": _header(acks), "raw": raw, "frames": [frame]},
            )
            acks += 1


def _when(one: tuple[Segment, bool]) -> float:
    return one[0].t_us


def _header(number: int) -> Event:
    return {"packet_type": PACKET_TYPE, "packet_number": number}


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Return ascending numbers as first and last of each range."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


class Captured:
    """The captures of a run."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._about: Mapping[str, Any] = result.metadata.get("captures") or {}
        self._read: dict[str, list[Segment]] = {}

    def why_not(self, flow: str) -> str:
        """Return why a flow has no packets in the result, and what it takes; empty if it has."""
        sender = next(one.sender for one in self._result.scenario.flows if one.name == flow)
        out, back, direction = self._link_of(sender)
        if self._result.scenario.datapath == "sim":
            return "the simulator keeps no packets: run the scenario on real sockets, with `captures`"
        if missing := [name for name in (out, back) if name not in self._result.scenario.captures]:
            return f"add {' and '.join(f'`{name}`' for name in missing)} to `captures` of the scenario"
        changed = [one.link for one in self._result.scenario.events if isinstance(one, SetLink)]
        if {out, out[:-1]} & set(changed) or msgspec.structs.replace(direction, delay_us=0) != Direction():
            return (
                f"captures are made at the end of a link, and `{out}` loses or queues packets: "
                "give the sender a link with nothing but a delay, as in a dumbbell"
            )
        if flow not in (self._about.get("connections") or {}):
            return "no connection was sampled, or an earlier version of ccplane made the result"
        return ""

    def events(self, flow: str, connection: int) -> Iterator[tuple[float, str, Event]]:
        """Yield time of the run [s], name and data of the events of a connection, in order.

        Raises:
            ResultError: `result.broken`, if a capture cannot be read.
        """
        ports = tuple(self._about["connections"][flow][connection])
        sender = next(one.sender for one in self._result.scenario.flows if one.name == flow)
        out, back, direction = self._link_of(sender)
        sent = [
            dataclasses.replace(one, t_us=one.t_us - direction.delay_us)
            for one in self._segments(out)
            if one.ports == ports
        ]
        received = [one for one in self._segments(back) if one.ports == ports[::-1]]
        for t_us, name, data in events(sent, received):
            yield (t_us - self._about["start_unix_us"]) / 1e6, name, data

    def _link_of(self, host: str) -> tuple[str, str, Direction]:
        """Return the directions from a host and to it, and the properties of the first."""
        link = next(one for one in self._result.scenario.network.links if host in (one.a, one.b))
        if link.a == host:
            return f"{link.name}>", f"{link.name}<", link.forward
        return f"{link.name}<", f"{link.name}>", link.back

    def _segments(self, direction: str) -> list[Segment]:
        if direction not in self._read:
            file = (self._result.directory or Path()) / f"{direction}.pcapng"
            try:
                self._read[direction] = list(segments(file.read_bytes()))
            except (OSError, ValueError) as error:
                raise ResultError(
                    "result.broken",
                    f"cannot read {file}",
                    str(file),
                    str(error),
                    "restore the file, or run the scenario again",
                ) from error
        return self._read[direction]
