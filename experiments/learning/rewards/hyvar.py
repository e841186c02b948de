"""The reward of the shipped policy: the slides' reward, relative to the path instead of the flow's own best.

Only a simulator knows the path's rate and RTT. Relative to them, a connection that is always slow scores low.
MINIMUM is closer to 0, so that rare intervals that lose a whole burst do not dominate (docs/learning.md).

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.), with the
deviations above.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LOSS_WEIGHT: Final = 5.0
"""Cost of a lost byte, in delivered bytes; epsilon of the slides."""
MINIMUM: Final = -1.0


def reward(rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Return the rewards of intervals; the maximum is 1."""
    rtt_us = np.where(rows["rtt_us"] > 0, rows["rtt_us"], rows["srtt_us"])
    beyond = np.maximum(rtt_us / rows["path_rtt_us"], 1.0)
    gained = rows["thr_bytes_per_s"] - LOSS_WEIGHT * rows["loss_bytes_per_s"]
    # The delivered rate was possible, even where it exceeds the mean.
    possible = np.maximum(rows["path_bytes_per_s"], rows["thr_bytes_per_s"])
    good: NDArray[np.float64] = gained / possible / beyond
    return np.maximum(good, MINIMUM)
