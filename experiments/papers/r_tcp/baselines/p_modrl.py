"""A stand-in for P-MODRL: the token bucket that fits a recorded connection best, if the rate drops abruptly.

P-MODRL (S. Zhu et al., "On Rate-Limiting in Mobile Data Networks", IEEE Transactions on Mobile Computing,
2024) works offline; its program was not used. The R-TCP paper says: it estimates size and rate about as
accurately as R-TCP, mistakes sudden drops of the bandwidth for a limit, with losses or without, and does not
account for tokens that accumulate in idle times.

Of all lines b + r t that the delivered data never exceed, the stand-in takes the line with the smallest area
between data and line (equation 5 of the R-TCP paper). By Theorem 1 this line is the lowest one at half of the
time, and an edge of the upper hull. The connection is limited if r is less than 0.6 of the mean rate up to
the first contact of delivered data and line (equation 13), and if the delivered data stay near the line from
there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from experiments.papers.r_tcp.baselines.acks import MSS_BYTES, US_PER_S, Ack, Finding

REDUCTION: Final = 0.6
MEETS: Final = 0.05
"""Maximum distance of data below the line b + r t that counts as contact, relative to the bucket's size."""
NEAR: Final = 0.5
"""Maximum distance of data below the line b + r t after the first contact, relative to the bucket's size."""

_Point = tuple[int, int]
"""Time since the start [us], delivered since then [bytes]."""


def p_modrl_like(acks: Sequence[Ack]) -> Finding:
    """Return the bucket and rate that fit the connection best, if the rate drops abruptly."""
    if not acks:
        return Finding(limited=False, why="no ACKs")
    origin = acks[0]
    points = [
        (ack.time_us - origin.time_us, (ack.delivered_pkts - origin.delivered_pkts) * MSS_BYTES)
        for ack in acks
    ]
    hull: list[_Point] = []
    for point in points:
        while len(hull) >= 2 and not _turns_down(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    half_us = hull[-1][0] / 2
    edge = next((edge for edge in pairwise(hull) if edge[1][0] > max(edge[0][0], half_us)), None)
    if edge is None:
        return Finding(limited=False, why="it took no time")
    (t_us, size_bytes), (next_us, next_bytes) = edge
    per_us = (next_bytes - size_bytes) / (next_us - t_us)
    bucket_bytes = size_bytes - per_us * t_us
    below_bytes = [bucket_bytes + per_us * at_us - delivered for at_us, delivered in points]
    met = next(i for i, below in enumerate(below_bytes) if below <= MEETS * bucket_bytes or below <= 0)
    at_us, delivered_bytes = points[met]
    if at_us == 0 or not per_us < REDUCTION * delivered_bytes / at_us:
        return Finding(limited=False, why="no abrupt reduction")
    if max(below_bytes[met:]) > NEAR * bucket_bytes:
        return Finding(limited=False, why="what was delivered is not near the line")
    return Finding(limited=True, bucket_bytes=bucket_bytes, rate_bytes_per_s=per_us * US_PER_S)


def _turns_down(first: _Point, second: _Point, third: _Point) -> bool:
    (x1, y1), (x2, y2), (x3, y3) = first, second, third
    return (y2 - y1) * (x3 - x2) > (y3 - y2) * (x2 - x1)
