"""Rates at which data leaves and arrives, by a connection's own acknowledgements.

Source: draft-ietf-ccwg-bbr, "Delivery Rate Samples", as Linux has it: of the newest packet acknowledged, what
was delivered since it was sent, by the time that passed at the sender and at the receiver.
"""

from __future__ import annotations

from dataclasses import dataclass

from aioquic.quic.packet_builder import QuicSentPacket


@dataclass(frozen=True, slots=True)
class _Sent:
    """The connection when a packet was sent."""

    first_sent_s: float
    delivered_bytes: int
    delivered_s: float


class Rates:
    """Rates of one connection.

    Attributes:
        outgoing_bytes_per_s: Of the last sample that there was; 0 before.
        incoming_bytes_per_s: The same.
    """

    def __init__(self) -> None:
        """Begin with a path that is empty."""
        self.outgoing_bytes_per_s = self.incoming_bytes_per_s = 0
        self._sent: dict[int, _Sent] = {}
        self._first_sent_s = self._delivered_s = 0.0
        self._delivered_bytes = 0

    def sent(self, packet: QuicSentPacket, *, was_empty: bool) -> None:
        """A packet was sent, onto a path that was empty or not."""
        assert packet.sent_time is not None
        if was_empty:
            self._first_sent_s = self._delivered_s = packet.sent_time
        self._sent[id(packet)] = _Sent(self._first_sent_s, self._delivered_bytes, self._delivered_s)

    def forget(self, packet: QuicSentPacket) -> None:
        """A packet was lost, or given up."""
        self._sent.pop(id(packet), None)

    def acked(self, now_s: float, packet: QuicSentPacket) -> None:
        """A packet was acknowledged; aioquic tells of those of one ACK in the order of sending."""
        self._delivered_bytes += packet.sent_bytes
        self._delivered_s = now_s
        then = self._sent.pop(id(packet), None)
        if then is None or packet.sent_time is None or packet.sent_time < self._first_sent_s:
            return
        self._first_sent_s = packet.sent_time
        delivered_bytes = self._delivered_bytes - then.delivered_bytes
        if (sending_s := packet.sent_time - then.first_sent_s) > 0:
            self.outgoing_bytes_per_s = int(delivered_bytes / sending_s)
        if (arriving_s := now_s - then.delivered_s) > 0:
            self.incoming_bytes_per_s = int(delivered_bytes / arriving_s)
