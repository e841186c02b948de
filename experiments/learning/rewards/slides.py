"""The reward of the slides: ((thr - LOSS_WEIGHT loss) / RTT) / (thr_max / RTT_min), at least LEAST.

`thr_max` and `RTT_min` are the connection's own best so far: one that is slow from its first second on has a
good reward (docs/learning.md).

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.). Deviations:
the bound, as an interval with nothing but losses has none there; the smoothed RTT where there is no sample.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LOSS_WEIGHT: Final = 5.0
"""What a lost byte costs in delivered ones; epsilon of the slides."""
LEAST: Final = -10.0


def reward(rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Return how good intervals were, about 1 at best."""
    rtt_us = np.where(rows["rtt_us"] > 0, rows["rtt_us"], rows["srtt_us"])
    beyond = np.maximum(rtt_us / np.maximum(rows["rtt_min_us"], 1.0), 1.0)
    gained = rows["thr_bytes_per_s"] - LOSS_WEIGHT * rows["loss_bytes_per_s"]
    good: NDArray[np.float64] = gained / np.maximum(rows["thr_max_bytes_per_s"], 1.0) / beyond
    return np.maximum(good, LEAST)
