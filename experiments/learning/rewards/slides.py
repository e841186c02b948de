"""The reward of the slides: ((thr - LOSS_WEIGHT loss) / RTT) / (thr_max / RTT_min), at least MINIMUM.

`thr_max` and `RTT_min` are the connection's own best values so far, so a connection that is slow from the
start gets a good reward (docs/learning.md).

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.). Deviations:
the lower bound, since the slides' reward has none for intervals with only losses; the smoothed RTT where
there is no RTT sample.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LOSS_WEIGHT: Final = 5.0
"""Cost of a lost byte, in delivered bytes; epsilon of the slides."""
MINIMUM: Final = -10.0


def reward(rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Return the rewards of intervals; the maximum is about 1."""
    rtt_us = np.where(rows["rtt_us"] > 0, rows["rtt_us"], rows["srtt_us"])
    beyond = np.maximum(rtt_us / np.maximum(rows["rtt_min_us"], 1.0), 1.0)
    gained = rows["thr_bytes_per_s"] - LOSS_WEIGHT * rows["loss_bytes_per_s"]
    good: NDArray[np.float64] = gained / np.maximum(rows["thr_max_bytes_per_s"], 1.0) / beyond
    return np.maximum(good, MINIMUM)
