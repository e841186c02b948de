"""P-MODRL: the token bucket whose line b + r t lies closest above the acknowledged data.

After each ACK, every bucket size gets the lowest rate at which no ACK is above its line; the best size is the
one with the smallest area between line and data. The connection is limited after `HITS` consecutive ACKs in
each of which

* the rate is below `REDUCTION` of the mean rate up to V, the last ACK that the full bucket alone would allow,
* V is more than `SETTLED_ACKS` ACKs ago, and
* the area between line and data since V is less than `MAX_AREA_RATIO` of the area under the line.

Source: rules and constants of the authors' program, PMODRL.c of github.com/mclab-cuhk/P-MODRL (S. Zhu et al.,
"On Rate-Limiting in Mobile Data Networks", IEEE Transactions on Mobile Computing, 2024). Differences:

* The line of the smallest area is computed instead of searched: by Theorem 1 of the R-TCP paper it is the
  lowest one at half of the time, where it touches the upper hull of the data.
* The program reads bytes that were acknowledged cumulatively; here selectively acknowledged packets count
  when they arrive, as for all detectors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from experiments.papers.r_tcp.baselines.acks import MSS_BYTES, US_PER_S, Ack, Finding

STEP_BYTES: Final = 1024
"""Difference of successive bucket sizes."""
REDUCTION: Final = 0.6
MAX_AREA_RATIO: Final = 0.075
SETTLED_ACKS: Final = 10
HITS: Final = 20


def p_modrl_like(acks: Sequence[Ack]) -> Finding:
    """Return the best bucket and rate at the end, and the time of the first `HITS` consecutive hits."""
    received = [ack for ack in acks if not ack.start]
    if not received:
        return Finding(limited=False, why="no ACKs")
    line = _Line()
    hits = 0
    detected_at_us = None
    for ack in received:
        line.add(ack.time_us - acks[0].time_us, (ack.delivered_pkts - acks[0].delivered_pkts) * MSS_BYTES)
        if detected_at_us is None:
            hits = hits + 1 if line.limits() else 0
            if hits >= HITS:
                detected_at_us = ack.time_us
    if detected_at_us is None:
        return Finding(limited=False, why="no abrupt reduction, or the data are not near the line")
    return Finding(True, detected_at_us, line.bucket_bytes, line.bytes_per_us * US_PER_S)


class _Line:
    """The best line for the data so far: `bucket_bytes` + `bytes_per_us` x time."""

    def __init__(self) -> None:
        self.bucket_bytes = 0
        self.bytes_per_us = 0.0
        self._times_us: list[int] = []
        self._delivered_bytes: list[int] = []
        self._under: list[float] = []
        """Area under the data up to each ACK [bytes us]."""
        self._hull_us: list[int] = []
        self._hull_bytes: list[int] = []

    def add(self, time_us: int, delivered_bytes: int) -> None:
        """Add an ACK, and find the best line."""
        grown = 0.0
        if self._times_us:
            grown = self._under[-1] + self._delivered_bytes[-1] * (time_us - self._times_us[-1])
        self._times_us.append(time_us)
        self._delivered_bytes.append(delivered_bytes)
        self._under.append(grown)
        if time_us > 0:
            self._extend_hull(time_us, delivered_bytes)
            self._find(time_us)

    def _extend_hull(self, time_us: int, delivered_bytes: int) -> None:
        times_us, heights = self._hull_us, self._hull_bytes
        if times_us and times_us[-1] == time_us:
            times_us.pop()
            heights.pop()
        while len(times_us) >= 2 and (
            (heights[-1] - heights[-2]) * (time_us - times_us[-1])
            <= (delivered_bytes - heights[-1]) * (times_us[-1] - times_us[-2])
        ):
            times_us.pop()
            heights.pop()
        times_us.append(time_us)
        heights.append(delivered_bytes)

    def _find(self, time_us: int) -> None:
        right = bisect_right(self._hull_us, time_us / 2)
        at_bytes = 0.0
        if right:
            (t1_us, t2_us), (y1, y2) = (
                self._hull_us[right - 1 : right + 1],
                self._hull_bytes[right - 1 : right + 1],
            )
            at_bytes = max(0.0, y1 - (y2 - y1) / (t2_us - t1_us) * t1_us)
        below = int(at_bytes // STEP_BYTES) * STEP_BYTES
        lines = [(bucket, self._lowest_rate(bucket, right)) for bucket in (below, below + STEP_BYTES)]
        self.bucket_bytes, self.bytes_per_us = min(lines, key=lambda one: one[0] + one[1] * time_us / 2)

    def _lowest_rate(self, bucket_bytes: int, place: int) -> float:
        """Return the lowest rate at which a bucket allows all data, by the hull around `place`."""

        def rate(at: int) -> float:
            return (self._hull_bytes[at] - bucket_bytes) / self._hull_us[at]

        while place and rate(place - 1) >= rate(place):
            place -= 1
        while place + 1 < len(self._hull_us) and rate(place + 1) > rate(place):
            place += 1
        return max(0.0, rate(place))

    def limits(self) -> bool:
        """Return whether the data follow the line after an abrupt reduction."""
        last = len(self._times_us) - 1
        v = bisect_right(self._delivered_bytes, self.bucket_bytes) - 1
        if v < 0 or v + SETTLED_ACKS >= last:
            return False
        v_us, now_us = self._times_us[v], self._times_us[last]
        if not self.bytes_per_us * v_us < REDUCTION * self._delivered_bytes[v]:
            return False
        line = (now_us - v_us) * (2 * self.bucket_bytes + self.bytes_per_us * (v_us + now_us)) / 2
        return line - (self._under[last] - self._under[v]) < MAX_AREA_RATIO * line
