"""The congestion control that aioquic calls: a fold program with its agent, or else one of aioquic's own.

aioquic reports an ACK packet by packet, then the RTT, then losses. The program runs when the RTT is reported,
and again for losses; an ACK without an RTT counts with the next ACK.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aioquic.quic.congestion.base import QuicCongestionControl, create_congestion_control
from aioquic.quic.packet_builder import QuicSentPacket

from ccplane.base.native import WireFlow

if TYPE_CHECKING:
    from ccplane.datapath.aioquic.session import Session

SPACES: Final = 3
"""Packet number spaces of a connection (RFC 9000 section 12.3); the last one is never discarded."""


class CcpCongestionControl(QuicCongestionControl):
    """A congestion control that an agent controls; without an agent, one of aioquic's takes over."""

    def __init__(self, session: Session, algorithm: str, fallback: str, *, max_datagram_size: int) -> None:
        """Start with aioquic's congestion control.

        Args:
            session: Connection to the agent.
            algorithm: Algorithm requested from the agent.
            fallback: Name of aioquic's congestion control.
            max_datagram_size: Size of a full packet [bytes].
        """
        super().__init__(max_datagram_size=max_datagram_size)
        self._session, self._algorithm, self._fallback_name = session, algorithm, fallback
        self._mss_bytes = max_datagram_size
        self._fallback: QuicCongestionControl | None = create_congestion_control(
            fallback, max_datagram_size=max_datagram_size
        )
        self._flow: WireFlow | None = None
        self._has_lost = self._is_full = False
        self._now_s = self._srtt_s = 0.0
        self._n_spaces = SPACES
        self._settle()

    @property
    def number(self) -> int:
        """The flow's number on the wire; 0 before the flow has sent data."""
        return 0 if self._flow is None else self._flow.number

    @property
    def is_steered(self) -> bool:
        """Whether an agent's program controls the connection."""
        return self._flow is not None and self._flow.is_steered

    def _receive(self, now_s: float) -> None:
        """Apply the agent's messages. Without it aioquic's takes over, in slow start if nothing was lost."""
        self._now_s = now_s
        if self._flow is not None and self._flow.receive(now_s, self.congestion_window):
            self._fallback = None
        elif self._fallback is None:
            fallback = create_congestion_control(self._fallback_name, max_datagram_size=self._mss_bytes)
            fallback.congestion_window, fallback.bytes_in_flight = (
                self.congestion_window,
                self.bytes_in_flight,
            )
            fallback.ssthresh = self.congestion_window if self._has_lost else None
            self._fallback = fallback

    # Callbacks from aioquic

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        """See `QuicCongestionControl`."""
        assert packet.sent_time is not None
        if self._flow is None:
            window_bytes = self.congestion_window
            self._flow = WireFlow(
                self._session.link, packet.sent_time, self._algorithm, window_bytes, self._mss_bytes
            )
            self._session.flows[self._flow.number] = self
        self._receive(packet.sent_time)
        self._flow.sent(packet.sent_time, packet.sent_bytes)
        self.bytes_in_flight += packet.sent_bytes
        if self._fallback is not None:
            self._fallback.on_packet_sent(packet=packet)
        self._settle()

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        """See `QuicCongestionControl`."""
        assert packet.sent_time is not None
        self._is_full = self._is_full or 2 * self.bytes_in_flight > self.congestion_window
        self.bytes_in_flight -= packet.sent_bytes
        if self._flow is not None:
            self._flow.acked(packet.sent_time, packet.sent_bytes)
        if self._fallback is not None:
            self._fallback.on_packet_acked(now=now, packet=packet)
            self._settle()

    def on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        """See `QuicCongestionControl`."""
        self._srtt_s += (rtt - self._srtt_s) / 8 if self._srtt_s else rtt
        self._receive(now)
        if self._fallback is not None:
            self._fallback.on_rtt_measurement(now=now, rtt=rtt)
        if self._flow is not None:
            self._flow.ack_ended(now, self.bytes_in_flight, is_app_limited=not self._is_full)
        self._is_full = False
        self._settle()

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """See `QuicCongestionControl`."""
        self._receive(now)
        self._has_lost = True
        lost = self._given_up(packets)
        if self._fallback is not None:
            self._fallback.on_packets_lost(now=now, packets=lost)
        if self._flow is not None:
            self._flow.lost(now, lost_bytes=sum(packet.sent_bytes for packet in lost), lost_pkts=len(lost))
        self._settle()

    def on_persistent_congestion(self) -> None:
        """See `QuicCongestionControl`; aioquic has already reported the losses."""
        if self._fallback is not None:
            self._fallback.on_persistent_congestion()
        if self._flow is not None:
            self._flow.lost(self._now_s, was_timeout=True)
        self._settle()

    def on_packets_expired(self, *, packets: Iterable[QuicSentPacket]) -> None:
        """See `QuicCongestionControl`: a probe replaces the packets, or their space is discarded.

        Packets of a discarded space come as a filter, packets replaced by a probe as a list.
        """
        expired = self._given_up(packets)
        if self._fallback is not None:
            self._fallback.on_packets_expired(packets=expired)
            self._settle()
        self._n_spaces -= not isinstance(packets, list)
        if self._n_spaces == 0 and self._flow is not None:
            self._session.flows.pop(self._flow.number, None)
            self._flow = None

    def _given_up(self, packets: Iterable[QuicSentPacket]) -> list[QuicSentPacket]:
        gone = list(packets)
        self.bytes_in_flight -= sum(packet.sent_bytes for packet in gone)
        return gone

    def _settle(self) -> None:
        """Update window and ssthresh."""
        if self._fallback is not None:
            self.congestion_window, self.ssthresh = self._fallback.congestion_window, self._fallback.ssthresh
        if self._flow is not None:
            wanted_bytes = self._flow.settle(self.congestion_window, self._srtt_s)
            if wanted_bytes is not None:
                self.congestion_window, self.ssthresh = wanted_bytes, None
