"""A sender over a path with a token bucket, packet by packet, and its ACKs as the detector hears them.

Small, not faithful to any TCP: selective acknowledgements, losses seen by later deliveries, retransmission
timeouts, a CUBIC and a BBR of few lines. What matters is how data gets through a bucket.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ccp_algs.rtcp import Progress

MSS = 1448
MBIT = 125_000.0
"""Bytes a second in a Mbit/s."""

OfTime = Callable[[float], float]


class Event(NamedTuple):
    """A row of a trace: `kind` is S (a transfer starts) or A (an ACK)."""

    kind: str
    progress: Progress


@dataclass
class Path:
    """One direction with a link, its buffer and a token bucket; rates in bytes/s, times in s."""

    rtt_s: float = 0.04
    link: float | OfTime = 40 * MBIT
    buffer_bytes: float = 500_000
    bucket_bytes: float = 0.0
    limit: float | OfTime = math.inf
    shaped_bytes: float = 0.0
    fill_ratio: float = 1.0
    loss_ratio: float = 0.0
    ack_batch_s: float = 0.0
    seed: int = 1
    limited_until_s: float = math.inf
    _free_s: float = field(default=0.0, init=False)
    _level: float = field(default=0.0, init=False)
    _at_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._level = self.bucket_bytes * self.fill_ratio

    def send(self, now_s: float) -> float | None:
        """Return when the ACK of a packet sent now comes back; None if the packet is lost."""
        at_s = now_s + self.rtt_s / 4
        if self._random.random() < self.loss_ratio:
            return None
        passed_s = self._pass(at_s)
        if passed_s is None:
            return None
        rate = self.link(passed_s) if callable(self.link) else self.link
        begin_s = max(passed_s, self._free_s)
        if (begin_s - passed_s) * rate > self.buffer_bytes:
            return None
        self._free_s = begin_s + MSS / rate
        back_s = self._free_s + 3 * self.rtt_s / 4
        batch_s = self.ack_batch_s
        return math.ceil(back_s / batch_s) * batch_s if batch_s else back_s

    def _pass(self, at_s: float) -> float | None:
        """Return when a packet leaves the token bucket: at once or never, if it is no shaper."""
        if not self.bucket_bytes or at_s > self.limited_until_s:
            return at_s
        limit = self.limit(at_s) if callable(self.limit) else self.limit
        self._level = min(self.bucket_bytes, self._level + (at_s - self._at_s) * limit)
        self._at_s = at_s
        if self._level - MSS < -self.shaped_bytes:
            return None
        self._level -= MSS
        return at_s + max(0.0, -self._level) / limit


class Control:
    """A window, and a rate or none; both change on ACKs."""

    cwnd = 10.0
    rate = math.inf

    def ack(self, sender: Sender, acked: int) -> None: ...
    def loss(self, sender: Sender) -> None: ...
    def timeout(self, sender: Sender) -> None: ...


class Cubic(Control):
    ssthresh = math.inf
    w_max = 0.0
    epoch_s = 0.0

    def ack(self, sender: Sender, acked: int) -> None:
        if sender.in_recovery and not sender.timed_out:
            # Proportional rate reduction: what an ACK delivers, and one more.
            self.cwnd = min(self.ssthresh, max(sender.in_flight + acked + 1, 1.0))
            return
        if self.cwnd < self.ssthresh:
            self.cwnd += acked
            return
        k_s = (self.w_max * 0.3 / 0.4) ** (1 / 3)
        target = self.w_max + 0.4 * (sender.now_s - self.epoch_s + sender.srtt_s - k_s) ** 3
        self.cwnd += acked * max(0.01, min(target - self.cwnd, 0.5 * self.cwnd)) / self.cwnd

    def loss(self, sender: Sender) -> None:
        self.w_max, self.epoch_s = self.cwnd, sender.now_s
        self.ssthresh = max(2.0, self.cwnd * 0.7)
        self.cwnd = max(1.0, sender.in_flight)

    def timeout(self, sender: Sender) -> None:
        if not sender.in_recovery:
            self.loss(sender)
        self.cwnd = 1.0


class Bbr(Control):
    """Startup, drain and the gain cycle; its window follows what is delivered for a round after loss."""

    def __init__(self) -> None:
        self.samples: deque[tuple[int, float]] = deque()
        self.bw = 10 * MSS / 0.1
        self.full, self.stale, self.round = 0.0, 0, 0
        self.state = "startup"
        self.rate = 2.89 * self.bw
        self.recovery_until = -1

    def ack(self, sender: Sender, acked: int) -> None:
        while self.samples and self.samples[0][0] < sender.round - 10:
            self.samples.popleft()
        while self.samples and self.samples[-1][1] <= sender.sample:
            self.samples.pop()
        self.samples.append((sender.round, sender.sample))
        self.bw = self.samples[0][1]
        if sender.round != self.round:
            self.round = sender.round
            self._new_round()
        bdp = self.bw * sender.min_rtt_s / MSS
        if self.state == "drain" and sender.in_flight <= bdp:
            self.state = "probe"
        cycle = (1.25, 0.75, 1, 1, 1, 1, 1, 1)
        gain = {"startup": 2.89, "drain": 0.35, "probe": cycle[self.round % 8]}[self.state]
        self.rate = max(gain * self.bw, MSS / 0.1)
        target = max(4.0, (2.89 if self.state == "startup" else 2) * bdp)
        if self.round <= self.recovery_until:
            target = min(target, max(4.0, sender.in_flight + acked))
        self.cwnd = min(self.cwnd + acked, target) if self.state != "startup" else max(self.cwnd + acked, 10)

    def _new_round(self) -> None:
        if self.state == "startup":
            if self.bw >= 1.25 * self.full:
                self.full, self.stale = self.bw, 0
            else:
                self.stale += 1
                if self.stale >= 3:
                    self.state = "drain"

    def loss(self, sender: Sender) -> None:
        self.recovery_until = sender.round
        self.cwnd = max(4.0, sender.in_flight)

    def timeout(self, sender: Sender) -> None:
        self.cwnd = 1.0


class _Sent(NamedTuple):
    number: int
    packet: int
    at_s: float
    delivered: int
    delivered_at_s: float


class Sender:
    """Transfers objects one after the other."""

    def __init__(self, path: Path, control: Control) -> None:
        self.path, self.control = path, control
        self.now_s = 0.0
        self.min_rtt_s = math.inf
        self.srtt_s = 0.1
        self.in_flight = 0
        self.delivered = self.lost = self.una = 0
        self.round, self.sample = 0, 0.0
        self.in_recovery = self.timed_out = False
        self._next = self._end = self._number = 0
        self._coming: deque[tuple[float, _Sent]] = deque()
        self._doomed: deque[_Sent] = deque()
        self._resend: deque[int] = deque()
        self._got: set[int] = set()
        self._recover = self._round_end = 0
        self._delivered_at_s = 0.0
        self._send_at_s = 0.0
        self._rto_s, self._rto_from_s = 1.0, 0.0

    def run(self, until_s: float, objects: list[tuple[float, float]] | None = None) -> Iterator[Event]:
        """Yield what happens. Objects: (idle time before it [s], size [bytes]); None: one without an end."""
        waiting = deque(objects or [(0.0, math.inf)])
        begin_s: float | None = self.now_s + waiting[0][0]
        while True:
            can_send = self.in_flight < self.control.cwnd and (self._resend or self._next < self._end)
            back_s = self._coming[0][0] if self._coming else math.inf
            send_s = max(self._send_at_s, self.now_s) if can_send else math.inf
            rto_s = self._rto_from_s + self._rto_s if self.in_flight or self._resend else math.inf
            first_s = min(back_s, send_s, rto_s, math.inf if begin_s is None else begin_s)
            if first_s > until_s:
                return
            self.now_s = first_s
            if first_s == begin_s:
                begin_s = None
                size = waiting.popleft()[1]
                self._end = math.inf if size == math.inf else self._next + math.ceil(size / MSS)
                self._rto_from_s = self.now_s
                yield Event("S", self._progress())
            elif first_s == back_s:
                yield from self._hear()
                if self.una == self._end and waiting:
                    begin_s = self.now_s + waiting[0][0]
            elif first_s == send_s:
                if self.in_flight == 0 and self._resend and self._next == self._end:
                    yield Event("S", self._progress())
                self._transmit()
            else:
                self._time_out()

    def _progress(self) -> Progress:
        min_rtt_us = 0 if self.min_rtt_s == math.inf else round(self.min_rtt_s * 1e6)
        return Progress(round(self.now_s * 1e6), self.delivered, self.lost, min_rtt_us)

    def _transmit(self) -> None:
        if self._resend:
            packet = self._resend.popleft()
        else:
            packet, self._next = self._next, self._next + 1
        if self.in_flight == 0:
            self._delivered_at_s = self._rto_from_s = self.now_s
        back_s = self.path.send(self.now_s)
        sent = _Sent(self._number, packet, self.now_s, self.delivered, self._delivered_at_s)
        if back_s is None:
            self._doomed.append(sent)
        else:
            self._coming.append((back_s, sent))
        self._number += 1
        self.in_flight += 1
        self._send_at_s = self.now_s + MSS / self.control.rate

    def _hear(self) -> Iterator[Event]:
        sent = self._coming.popleft()[1]
        self.in_flight -= 1
        rtt_s = self.now_s - sent.at_s
        self.min_rtt_s = min(self.min_rtt_s, rtt_s)
        self.srtt_s += (rtt_s - self.srtt_s) / 8
        self._rto_s, self._rto_from_s = max(0.2, 2 * self.srtt_s), self.now_s
        if sent.packet >= self.una and sent.packet not in self._got:
            self.delivered += 1
            self._got.add(sent.packet)
        self._delivered_at_s = self.now_s
        while self.una in self._got:
            self._got.remove(self.una)
            self.una += 1
        if sent.delivered >= self._round_end:
            self._round_end = self.delivered
            self.round += 1
        interval_s = max(self.now_s - sent.delivered_at_s, 1e-6)
        self.sample = (self.delivered - sent.delivered) * MSS / max(interval_s, self.min_rtt_s)
        while self._doomed and self._doomed[0].number <= sent.number - 3:
            self._lose(self._doomed.popleft())
        if self.in_recovery and self.una >= self._recover:
            self.in_recovery = self.timed_out = False
        if self._resend and not self.in_recovery:
            self.in_recovery, self._recover = True, self._next
            self.control.loss(self)
        self.control.ack(self, 1)
        yield Event("A", self._progress())

    def _lose(self, sent: _Sent) -> None:
        self.in_flight -= 1
        self.lost += 1
        if sent.packet >= self.una and sent.packet not in self._got:
            self._resend.append(sent.packet)

    def _time_out(self) -> None:
        outstanding = sorted([*self._doomed, *(sent for _, sent in self._coming)])
        self._doomed.clear()
        self._coming.clear()
        for sent in outstanding:
            self._lose(sent)
        self._rto_s, self._rto_from_s = min(60.0, 2 * self._rto_s), self.now_s
        self.control.timeout(self)
        self.in_recovery, self.timed_out, self._recover = True, True, self._next
