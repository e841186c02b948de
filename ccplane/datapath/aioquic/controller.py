"""What aioquic calls: a law of its own, or a fold program and its agent.

aioquic tells of an ACK packet by packet, then of its RTT, and then of what is lost. The program runs at the
RTT, and once more for losses; an ACK that brings no RTT counts with what comes next.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from aioquic.quic.congestion.base import (
    K_MINIMUM_WINDOW,
    QuicCongestionControl,
    create_congestion_control,
)
from aioquic.quic.packet_builder import QuicSentPacket

from ccplane.datapath.aioquic.fold import Fold
from ccplane.datapath.aioquic.rates import Rates
from ccplane.datapath.wire import Create

if TYPE_CHECKING:
    from ccplane.base._native import Program
    from ccplane.datapath.aioquic.session import Session

SPACES: Final = 3
"""A connection numbers packets in so many spaces (RFC 9000 section 12.3); it gives up the last as it ends."""


class CcpCongestionControl(QuicCongestionControl):
    """A congestion control whose law is an agent's, while there is one, and aioquic's own else.

    Attributes:
        number: The flow's, on the wire; 0 before it sent.
    """

    def __init__(self, session: Session, algorithm: str, law: str, *, max_datagram_size: int) -> None:
        """Begin with aioquic's law.

        Args:
            session: What is between agent and connections.
            algorithm: What the agent is asked for.
            law: Name of the law.
            max_datagram_size: Octets of a full-size packet [bytes].
        """
        super().__init__(max_datagram_size=max_datagram_size)
        self.number = 0
        self._session, self._algorithm, self._law_name = session, algorithm, law
        self._mss_bytes = max_datagram_size
        self._law: QuicCongestionControl | None = create_congestion_control(
            law, max_datagram_size=max_datagram_size
        )
        self._fold: Fold | None = None
        self._has_lost = False
        self._rates = Rates()
        self._began_s = self._now_s = self._srtt_s = 0.0
        self._acked_bytes = self._acked_pkts = 0
        self._delivered_s, self._delivered_bytes = 0.0, 0
        self._is_full = False
        self._n_spaces = SPACES
        self._end: weakref.finalize[..., CcpCongestionControl] | None = None
        self._settle()

    @property
    def is_steered(self) -> bool:
        """Whether a program of an agent has the connection."""
        return self._fold is not None

    def create(self) -> Create:
        """Return the message that announces the flow, as it is now. aioquic tells no addresses."""
        return Create(self.number, self.congestion_window, self._mss_bytes, 0, 0, 0, 0, self._algorithm)

    # What the agent wants

    def take(self, number: int, program: Program, values: Mapping[str, int]) -> None:
        """Go on with a program of the agent's.

        Raises:
            CcpError: `register.unknown`; then the flow goes on as it is.
        """
        rate_bytes_per_s = 0 if self._fold is None else self._fold.rate_bytes_per_s
        fold = Fold(number, program, self.congestion_window, rate_bytes_per_s, self._now_us())
        fold.set(values)
        if self._fold is None:
            self._acked_bytes = self._acked_pkts = 0  # these moved the law's window
        self._fold, self._law = fold, None
        self._settle()

    def set(self, values: Mapping[str, int]) -> None:
        """Set registers, window and rate; a flow without program stays as it is.

        Raises:
            CcpError: `register.unknown`; then nothing is set.
        """
        if self._fold is not None:
            self._fold.set(values)
            self._settle()

    def let_go(self) -> None:
        """Go on with aioquic's law: in slow start if nothing was lost yet, else as after a loss."""
        if self._fold is None:
            return
        law = create_congestion_control(self._law_name, max_datagram_size=self._mss_bytes)
        law.congestion_window, law.bytes_in_flight = self.congestion_window, self.bytes_in_flight
        law.ssthresh = self.congestion_window if self._has_lost else None
        self._law, self._fold = law, None
        self._settle()

    # What aioquic tells

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        """See `QuicCongestionControl`."""
        assert packet.sent_time is not None
        self._now_s = packet.sent_time
        if self._end is None or not self._end.alive:
            self._began_s = packet.sent_time
            self.number = self._session.add(self)
            self._end = weakref.finalize(self, self._session.closed, self.number)
        self._session.turn(packet.sent_time)
        self._rates.sent(packet, was_empty=self.bytes_in_flight == 0)
        self.bytes_in_flight += packet.sent_bytes
        if self._law is not None:
            self._law.on_packet_sent(packet=packet)
            self._settle()

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        """See `QuicCongestionControl`."""
        self._now_s = now
        self._is_full = self._is_full or 2 * self.bytes_in_flight > self.congestion_window
        self.bytes_in_flight -= packet.sent_bytes
        self._rates.acked(now, packet)
        self._acked_bytes += packet.sent_bytes
        self._acked_pkts += 1
        if self._law is not None:
            self._law.on_packet_acked(now=now, packet=packet)
            self._settle()

    def on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        """See `QuicCongestionControl`."""
        self._now_s = now
        self._srtt_s += (rtt - self._srtt_s) / 8 if self._srtt_s else rtt
        self._session.turn(now)
        if self._law is not None:
            self._law.on_rtt_measurement(now=now, rtt=rtt)
        self._run({"Flow.rtt_sample_us": max(1, round(rtt * 1e6))})

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """See `QuicCongestionControl`."""
        self._now_s = now
        self._session.turn(now)
        self._has_lost = True
        lost = self._given_up(packets)
        if self._law is not None:
            self._law.on_packets_lost(now=now, packets=lost)
        self._run({"Ack.lost_pkts_sample": len(lost)})

    def on_persistent_congestion(self) -> None:
        """See `QuicCongestionControl`; aioquic told of the losses before."""
        if self._law is not None:
            self._law.on_persistent_congestion()
        self._run({"Flow.was_timeout": 1})

    def on_packets_expired(self, *, packets: Iterable[QuicSentPacket]) -> None:
        """See `QuicCongestionControl`: a probe has taken their place, or their space is given up.

        The packets of a space come in a filter, those of a probe in a list.
        """
        expired = self._given_up(packets)
        if self._law is not None:
            self._law.on_packets_expired(packets=expired)
            self._settle()
        self._n_spaces -= not isinstance(packets, list)
        if self._n_spaces == 0 and self._end is not None:
            self._end()
            self._session.flush()

    def _given_up(self, packets: Iterable[QuicSentPacket]) -> list[QuicSentPacket]:
        gone = list(packets)
        for packet in gone:
            self._rates.forget(packet)
            self.bytes_in_flight -= packet.sent_bytes
        return gone

    def _run(self, happened: Mapping[str, int]) -> None:
        """Run the program, if one has the connection, with what its ACKs brought."""
        # A recovery lets through what is in flight and what an ACK delivered. In the run for losses that it
        # shows, behind that for its RTT, nothing is delivered any more, but what was is not sent for yet.
        if self._acked_bytes:
            self._delivered_s, self._delivered_bytes = self._now_s, self._acked_bytes
            in_flight_bytes = self.bytes_in_flight
        else:
            is_second = self._delivered_s == self._now_s
            in_flight_bytes = self.bytes_in_flight + (self._delivered_bytes if is_second else 0)
        if self._fold is not None:
            acked = {
                "Ack.bytes_acked": self._acked_bytes,
                "Ack.packets_acked": self._acked_pkts,
                "Flow.bytes_in_flight": in_flight_bytes,
                "Flow.packets_in_flight": -(-in_flight_bytes // self._mss_bytes),
                "Flow.bytes_pending": self._mss_bytes if self._is_full else 0,
                "Flow.rate_incoming": self._rates.incoming_bytes_per_s,
                "Flow.rate_outgoing": self._rates.outgoing_bytes_per_s,
            }
            report = self._fold.run(self._now_us(), {**acked, **happened})
            if report is not None:
                self._session.report(self.number, self._fold.number, report)
        self._acked_bytes, self._acked_pkts, self._is_full = 0, 0, False
        self._settle()

    def _now_us(self) -> int:
        return round((self._now_s - self._began_s) * 1e6)

    def _settle(self) -> None:
        """Take the window that there is now."""
        if self._law is not None:
            self.congestion_window, self.ssthresh = self._law.congestion_window, self._law.ssthresh
        elif self._fold is not None:
            least_bytes = K_MINIMUM_WINDOW * self._mss_bytes
            srtt_us = round(self._srtt_s * 1e6)
            self.congestion_window = self._fold.window_bytes(srtt_us, least_bytes)
            self.ssthresh = None
