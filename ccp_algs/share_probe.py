r"""Measure a flow's share of the queue: send slightly slower, then faster, and watch the delay.

Let the flow send at rate r and other flows at rate z over a link of rate C that has a queue; the delay then
grows by (r + z) / C - 1 per second. If r changes by a fraction x for a while, this growth changes by x r / C:
by x if no other flow sends, and otherwise by x times the flow's share of the arrivals. The measurement
requires no knowledge of the link, and no earlier time without competition. Competing flows that react to the
delay make the echo even smaller.

    rate    ----+    +----+    +----      r (1 + x)
                |    |    |    |
                +----+    +----+          r (1 - x), first: the queue never grows beyond what it was
    delay   ----                ----
                \      /\      /
                 \    /  \    /           deepest at the end of each slow half, by x * half
                  \  /    \  /
                   \/      \/

Each RTT counts for the time when its packet was sent. The mean delay in the outer quarters of all periods
minus the mean delay in the inner quarters is half of the echo's depth, even if the delay drifts meanwhile.
All flows of a host follow one clock and vary together, so there is one echo per host, not one per flow. Each
host has its own period, so that hosts do not mistake each other's echo for their own.

Limits: the queue must be deeper than the part that a slow half drains, x * half; otherwise there is no echo.
Losses and switches of the program end a probe. Flows of a host that do not probe count as competing flows.

Source: pulsed rates and the response of cross traffic, P. Goyal et al., "Elasticity Detection: A Building
Block for Internet Congestion Control", SIGCOMM 2022. Deviation: the paper asks whether cross traffic reacts,
and knows the link's rate; here the depth of the delay shows the share.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import deque
from typing import Final, Protocol

from ccp_algs.episodes import OPEN, Episodes
from ccp_algs.fold import (
    Ack,
    Block,
    Cwnd,
    Flow,
    Part,
    Rate,
    Register,
    control,
    field,
    let,
    max_,
    min_,
    on,
    state,
)

DEPTH_PERMILLE: Final = 50
"""Fraction x by which the rate goes down and up."""
HALF_US: Final = 50_000
"""Length of a slow or fast half of a period [us]; hosts deviate from it by up to `SPREAD`."""
SPREAD: Final = 0.2
PERIODS: Final = 4
RATE_US: Final = 500_000
"""Window over which the rate before a probe is measured [us]."""
ALONE: Final = 0.85
"""A measured share above this value counts as the whole queue. Measured shares: 0.93 to 1 for a flow without
competitors, 0.89 if competitors send a tenth of the data."""

NONE, PROBING, DONE = range(3)
"""Values of the report field `probe_phase`."""


@dataclasses.dataclass(frozen=True)
class Probe(Part):
    """Registers and lines of probes; they go after the lines that set the window and the rate.

    Attributes:
        outer_sum_us: Reported: sum of the RTTs of outer quarters [us].
        outer_rtts: Reported: number of these RTTs.
        inner_sum_us: Reported: sum of the RTTs of inner quarters [us].
        inner_rtts: Reported: number of these RTTs.
        probe_phase: Reported: NONE, PROBING or DONE; NONE also after a loss, or if the queue was too short.
        probe_rate_bytes_per_s: Rate before the probe [bytes/s].
        probe_room_bytes: Extra window that the fast halves need [bytes].
        probe_half_us: Length of half a period [us].
        probe_from_us: Start of the probe [us].
        probe_until_us: End of the probe [us]; 0: no probe.
        probe_queue_us: Minimum queueing delay for a probe [us].
    """

    outer_sum_us: Register
    outer_rtts: Register
    inner_sum_us: Register
    inner_rtts: Register
    probe_rate_bytes_per_s: Register
    probe_room_bytes: Register
    probe_half_us: Register
    probe_from_us: Register
    probe_until_us: Register
    probe_queue_us: Register
    probe_phase: Register
    begun_from_us: Register
    window_before_bytes: Register
    rate_before_bytes_per_s: Register
    run: Block


def share_probe(loss: Episodes) -> Probe:
    """Build the registers and lines of probes.

    Args:
        loss: The program's loss episodes; an episode ends a probe.
    """
    outer_sum_us, outer_rtts, inner_sum_us, inner_rtts = (field(volatile=False) for _ in range(4))
    rate, room_bytes, from_us, until_us, queue_us = (control() for _ in range(5))
    half_us, phase = control(HALF_US), field(volatile=False)
    begun_from_us, window_before_bytes, rate_before = state(), state(), state()
    begins = let((Ack.now >= from_us) & (begun_from_us < from_us), "probe_begins")
    is_fit = let((Flow.srtt_us >= Flow.min_rtt_us + queue_us) & (loss.episode == OPEN), "is_fit")
    spoilt = let((phase == PROBING) & (loss.episode > OPEN), "spoilt")
    reduced_bytes = let(max_(window_before_bytes * loss.cut_permille // 1000, 2 * Flow.mss), "reduced_bytes")
    probing = let((phase == PROBING) & (Ack.now < until_us), "probing")
    ends = let((phase == PROBING) & (Ack.now >= until_us), "probe_ends")
    halves = let((Ack.now - from_us) // half_us, "halves")
    is_fast = let(halves - halves // 2 * 2 > 0, "is_fast")
    # One extra period: the first ACKs acknowledge data sent before the probe.
    quarters = let((Ack.now + 2 * half_us - from_us - Flow.rtt_sample_us) // (half_us // 2), "quarters")
    quarter = let(quarters - quarters // 4 * 4, "quarter")
    is_outer = let((quarter == 0) | (quarter == 3), "is_outer")
    is_inner = let((quarter == 1) | (quarter == 2), "is_inner")
    is_own = let(probing & (Ack.now >= from_us + Flow.rtt_sample_us), "is_own")
    return Probe(
        outer_sum_us=outer_sum_us,
        outer_rtts=outer_rtts,
        inner_sum_us=inner_sum_us,
        inner_rtts=inner_rtts,
        probe_rate_bytes_per_s=rate,
        probe_room_bytes=room_bytes,
        probe_half_us=half_us,
        probe_from_us=from_us,
        probe_until_us=until_us,
        probe_queue_us=queue_us,
        probe_phase=phase,
        begun_from_us=begun_from_us,
        window_before_bytes=window_before_bytes,
        rate_before_bytes_per_s=rate_before,
        run=on(
            until_us > 0,
            (begins, is_fit),
            begun_from_us.set(from_us, when=begins),
            phase.set(NONE, when=begins),
            # The reduction is relative to the window before the probe: the fast halves did not need all their
            # room.
            (spoilt, reduced_bytes),
            loss.prior_bytes.set(window_before_bytes, when=spoilt),
            loss.ssthresh_bytes.set(reduced_bytes, when=spoilt),
            Cwnd.set(min_(Cwnd, reduced_bytes), when=spoilt),
            Rate.set(rate_before, when=spoilt),
            phase.set(NONE, when=spoilt),
            phase.set(PROBING, when=begins & is_fit),
            window_before_bytes.set(Cwnd, when=begins),
            rate_before.set(Rate, when=begins),
            [one.set(0, when=begins) for one in (outer_sum_us, outer_rtts, inner_sum_us, inner_rtts)],
            (probing, halves, is_fast),
            Rate.set(rate * (1000 - DEPTH_PERMILLE) // 1000, when=probing),
            Rate.set(rate * (1000 + DEPTH_PERMILLE) // 1000, when=probing & is_fast),
            Cwnd.set(window_before_bytes + room_bytes, when=probing),
            (quarters, quarter, is_outer, is_inner, is_own),
            outer_sum_us.add(Flow.rtt_sample_us, when=is_own & is_outer),
            outer_rtts.add(1, when=is_own & is_outer),
            inner_sum_us.add(Flow.rtt_sample_us, when=is_own & is_inner),
            inner_rtts.add(1, when=is_own & is_inner),
            ends,
            Cwnd.set(min_(Cwnd, window_before_bytes), when=ends),
            Rate.set(rate_before, when=ends),
            phase.set(DONE, when=ends),
        ),
    )


class ProbeReport(Protocol):
    """The fields of a report about probes."""

    now_us: int
    acked: int
    outer_sum_us: int
    outer_rtts: int
    inner_sum_us: int
    inner_rtts: int
    probe_phase: int


class Prober:
    """Plans the probes of one flow, and evaluates them."""

    def __init__(self, address: str) -> None:
        """Start.

        Args:
            address: The host's own address; it determines the periods of all its flows.
        """
        part = zlib.crc32(address.encode()) / 2**32
        self._half_us = round(HALF_US * (1 + SPREAD * (2 * part - 1)))
        self._acked: deque[tuple[int, int]] = deque()
        self._until_us = 0

    @property
    def drains_us(self) -> float:
        """Queueing delay that the slow half of a period removes, if no other flow sends [us]."""
        return self._half_us * DEPTH_PERMILLE / 1000

    def take(self, report: ProbeReport) -> float | None:
        """Process a report; return the share of the queue if a valid probe has just ended."""
        now_us = report.now_us
        self._acked.append((now_us, report.acked))
        while self._acked[0][0] < now_us - RATE_US:
            self._acked.popleft()
        if not self._until_us or now_us < self._until_us:
            return None
        self._until_us = 0
        if report.probe_phase != DONE or not (report.outer_rtts and report.inner_rtts):
            return None
        higher_us = report.outer_sum_us / report.outer_rtts - report.inner_sum_us / report.inner_rtts
        return 2 * higher_us / self.drains_us

    def plan(self, now_us: int, every_us: int) -> dict[str, int]:
        """Return the registers of the next probe; no registers if a probe is planned, or if it is too early.

        Args:
            now_us: The datapath's clock [us].
            every_us: Probes of all flows of the host begin together, at multiples of this [us].
        """
        if self._until_us or len(self._acked) < 2:
            return {}
        passed_us = now_us - self._acked[0][0]
        rate_bytes_per_s = sum(acked for _, acked in list(self._acked)[1:]) / passed_us * 1e6
        from_us = (now_us // every_us + 1) * every_us
        if from_us - now_us > RATE_US:  # the measured rate would be outdated
            return {}
        self._until_us = from_us + 2 * PERIODS * self._half_us
        return {
            "probe_rate_bytes_per_s": round(rate_bytes_per_s),
            "probe_room_bytes": round(2 * rate_bytes_per_s * self.drains_us / 1e6),
            "probe_half_us": self._half_us,
            "probe_from_us": from_us,
            "probe_until_us": self._until_us,
            "probe_queue_us": round(self.drains_us),
        }

    def forget(self) -> None:
        """Forget the flow's state, because its program was replaced."""
        self._until_us = 0
        self._acked.clear()
