"""Helpers for drawing paths at random."""

from __future__ import annotations

import math
from random import Random
from typing import Final

from experiments.netlab.cellular import OPPORTUNITY_BYTES
from experiments.netlab.spec import GilbertElliott, Red

RTTS_MS: Final = (5.0, 200.0)
CELL_RATES_MBIT: Final = (2.0, 50.0)
"""Mean rates of traces."""
LOSSES: Final = (1e-4, 0.03)
MIN_BUFFER_PKTS: Final = 4


def log_uniform(rng: Random, minimum: float, maximum: float) -> float:
    """Return a log-uniformly distributed number, rounded to three digits."""
    return float(f"{math.exp(rng.uniform(math.log(minimum), math.log(maximum))):.3g}")


def random_red(rng: Random, bdp_bytes: float, ecn: bool) -> Red:
    """Return a RED queue that starts to drop or mark at 10 to 30 % of the BDP."""
    min_bytes = round(max(bdp_bytes * rng.uniform(0.1, 0.3), 5 * OPPORTUNITY_BYTES))
    return Red(min_bytes, 3 * min_bytes, ecn=ecn)


def random_bursts(rng: Random) -> GilbertElliott:
    """Return losses in bursts: 0.01 to 0.3 % of packets start a burst of 1.7 to 5 packets on average."""
    return GilbertElliott(log_uniform(rng, 1e-4, 3e-3), round(rng.uniform(0.2, 0.6), 2))
