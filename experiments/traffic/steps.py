"""The steps of a download client."""

from __future__ import annotations

import itertools

from experiments.traffic.spec import Http, Quic


def steps(spec: Http | Quic) -> list[int | float]:
    """Return sizes [bytes] (int) and pauses between them [s] (float), in order; without pauses of 0."""
    gaps_s = itertools.cycle(spec.gaps_s or (0.0,))
    found: list[int | float] = []
    for size_bytes in spec.objects * spec.repeat:
        if found and (gap_s := float(next(gaps_s))) > 0:
            found.append(gap_s)
        found.append(size_bytes)
    return found
