"""Paced flows with both halves of their algorithm over one bottleneck, in virtual time.

A packet waits its turn at a drop-tail queue, and its ACK is back `rtt_us` later. A packet is taken for lost
when one that was sent four packets later is acknowledged. Rates are sampled as the kernel does it
(draft-ietf-ccwg-bbr-06 section 4.1.2). Every packet is new data: what is sent again is not told apart.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Callable
from typing import Any

from ccp_algs.api import Algorithm, programs_of
from ccp_algs.check import FakeInfo, FakeReport
from ccplane.base._native import Interpreter, compile
from tests.unit.ccp_algs.folded import INFINITY, MSS, NO_SAMPLE, OPEN, RECOVERY

REORDERING_PKTS = 3


@dataclasses.dataclass
class Packet:
    """One transmission, and what the kernel keeps with it."""

    number: int
    sent_us: float
    delivered: int
    delivered_us: float
    first_sent_us: float
    app_limited: bool


class Link:
    """The bottleneck, and virtual time."""

    def __init__(
        self,
        bytes_per_s: float,
        rtt_us: float,
        buffer_pkts: float = 1e9,
        is_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.rtt_us = rtt_us
        self.buffer_pkts = buffer_pkts
        self.is_lost = is_lost
        self.now_us = 1_000_000.0
        self.free_us = 0.0
        self.dropped = 0
        self.flows: list[Sender] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def queue_us(self) -> float:
        return max(self.free_us - self.now_us, 0.0)

    def at(self, when_us: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when_us, next(self._order), do))

    def run(self, seconds: float) -> None:
        end_us = self.now_us + 1e6 * seconds
        while self._events and self._events[0][0] <= end_us:
            self.now_us, _, do = heapq.heappop(self._events)
            do()
        self.now_us = end_us

    def send(self, packet: Packet, flow: Sender) -> None:
        if self.queue_us * self.bytes_per_s / 1e6 >= self.buffer_pkts * MSS or self.is_lost():
            self.dropped += 1
            return
        self.free_us = max(self.free_us, self.now_us) + 1e6 * MSS / self.bytes_per_s
        self.at(self.free_us + self.rtt_us, lambda: flow.ack(packet))


class Sender:
    """A flow with its fold program and its algorithm; letters arrive before the next ACK.

    Attributes:
        states: Time [us] and state of the algorithm, each time that it changed.
        prims: Primitives that are to have other values than they would.
        last: The last report.
    """

    def __init__(
        self, link: Link, cls: type[Algorithm], flow_id: int = 1, start_s: float = 0.0, **params: Any
    ) -> None:
        self.link = link
        self.info = FakeInfo(flow_id=flow_id)
        (source,) = programs_of(cls).values()
        self.interpreter = Interpreter(compile(source), int(link.now_us))
        self.interpreter.cwnd_bytes = self.info.init_cwnd_bytes
        self.app_bytes_per_s = float("inf")
        self.delivered = 0
        self.lost = 0
        self.out: dict[int, Packet] = {}
        self.states: list[tuple[float, str]] = []
        self.prims: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self._numbers = itertools.count()
        self._delivered_us = self._first_sent_us = link.now_us
        self._next_us = 0.0
        self._app_us = link.now_us + 1e6 * start_s
        self._app_limited_until = 0
        self._srtt_us = 0.0
        self._min_rtt_us = float("inf")
        self._ca_state = OPEN
        self._recover = 0
        self._ssthresh = INFINITY
        self._rates = (0.0, 0.0)
        self._waiting = False
        self.algorithm: Any = cls()
        self.algorithm.flow = self
        for name, value in params.items():
            setattr(self.algorithm, name, value)
        self.algorithm.on_create(self.info)
        link.flows.append(self)
        link.at(self._app_us, self.transmit)

    def set(self, **registers: float) -> None:
        for name, value in registers.items():
            self.interpreter.set(name, int(value))

    def __getitem__(self, register: str) -> int:
        return self.interpreter.controls[register]

    @property
    def state(self) -> str:
        return str(self.algorithm.state)

    @property
    def cwnd_pkts(self) -> int:
        return max(self.interpreter.cwnd_bytes // MSS, 2)

    def transmit(self) -> None:
        """Send what window, pacing and application allow."""
        link = self.link
        while len(self.out) < self.cwnd_pkts:
            ready_us = max(self._next_us, self._app_us)
            if link.now_us < ready_us:
                if self._app_us > self._next_us:
                    self._app_limited_until = self.delivered + self.lost + len(self.out) + 1
                if not self._waiting:
                    self._waiting = True
                    link.at(ready_us, self._wake)
                return
            self._send_one()

    def pause(self, seconds: float) -> None:
        """Let the application be silent."""
        self._app_us = max(self._app_us, self.link.now_us) + 1e6 * seconds

    def _wake(self) -> None:
        self._waiting = False
        self.transmit()

    def _send_one(self) -> None:
        now_us, gone = self.link.now_us, self.delivered + self.lost
        if not self.out:
            self._delivered_us = self._first_sent_us = now_us
        packet = Packet(
            next(self._numbers), now_us, self.delivered, self._delivered_us, self._first_sent_us,
            self._app_limited_until > gone,
        )  # fmt: skip
        self.out[packet.number] = packet
        rate = self.interpreter.rate_bytes_per_s
        self._next_us = max(self._next_us, now_us) + (1e6 * MSS / rate if rate else 0)
        self._app_us = max(self._app_us, now_us - 1e6) + 1e6 * MSS / self.app_bytes_per_s
        self.link.send(packet, self)

    def ack(self, packet: Packet) -> None:
        """Take an ACK: count, sample, find losses, fold, and send what may be sent now."""
        now_us = self.link.now_us
        if self.out.pop(packet.number, None) is None:
            return
        self.delivered += 1
        self._delivered_us = now_us
        self._first_sent_us = packet.sent_us
        rtt_us = now_us - packet.sent_us
        self._min_rtt_us = min(self._min_rtt_us, rtt_us)
        self._srtt_us += (rtt_us - self._srtt_us) / 8 if self._srtt_us else rtt_us
        self._sample(packet, now_us)
        lost = [number for number in self.out if number < packet.number - REORDERING_PKTS]
        for number in lost:
            del self.out[number]
        self.lost += len(lost)
        self._follow_recovery(packet, lost)
        self._fold(packet, len(lost), rtt_us)
        self.transmit()

    def _sample(self, packet: Packet, now_us: float) -> None:
        sent_us = packet.sent_us - packet.first_sent_us
        got_us = now_us - packet.delivered_us
        if max(sent_us, got_us) >= self._min_rtt_us and sent_us > 0:
            bytes_us = 1e6 * (self.delivered - packet.delivered) * MSS
            self._rates = (bytes_us / got_us, bytes_us / sent_us)

    def _follow_recovery(self, packet: Packet, lost: list[int]) -> None:
        if lost and self._ca_state == OPEN:
            self._ca_state = RECOVERY
            self._ssthresh = self.cwnd_pkts // 2 * MSS
            self._recover = max(self.out, default=packet.number)
        elif self._ca_state == RECOVERY and packet.number > self._recover:
            self._ca_state = OPEN

    def _fold(self, packet: Packet, lost: int, rtt_us: float) -> None:
        values = {
            "Ack.bytes_acked": MSS,
            "Ack.packets_acked": 1,
            "Ack.lost_pkts_sample": lost,
            "Ack.now": int(self.link.now_us),
            "Flow.app_limited": int(packet.app_limited),
            "Flow.bytes_in_flight": len(self.out) * MSS,
            "Flow.bytes_pending": len(self.out) * MSS if self._app_us > self.link.now_us else INFINITY,
            "Flow.ca_state": self._ca_state,
            "Flow.cwnd_limited": int(len(self.out) + 1 >= self.cwnd_pkts),
            "Flow.delivered": self.delivered,
            "Flow.delivered_bytes": self.delivered * MSS,
            "Flow.lost": self.lost,
            "Flow.min_rtt_us": int(self._min_rtt_us),
            "Flow.mss": MSS,
            "Flow.packets_in_flight": len(self.out),
            "Flow.rate_incoming": int(self._rates[0]),
            "Flow.rate_outgoing": int(self._rates[1]),
            "Flow.rtt_sample_us": int(rtt_us) if rtt_us else NO_SAMPLE,
            "Flow.snd_ssthresh": self._ssthresh,
            "Flow.srtt_us": int(self._srtt_us),
        }
        report = self.interpreter.ack(int(self.link.now_us), values | self.prims)
        if report is None:
            return
        self.last = report
        head = {
            "now_us": int(self.link.now_us),
            "cwnd_bytes": self.interpreter.cwnd_bytes,
            "rate_bytes_per_s": self.interpreter.rate_bytes_per_s,
        }
        self.algorithm.on_report(FakeReport(head, report, type(self.algorithm).__name__))
        if not self.states or self.states[-1][1] != self.state:
            self.states.append((self.link.now_us, self.state))
