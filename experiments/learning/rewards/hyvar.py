"""What the shipped policy was trained with: the slides' reward, held against the path instead of the flow.

Rate and RTT of the path are what only a simulator knows: a connection that is slow is not its own best any
more. LEAST is nearer, so that rare intervals that lose a whole burst do not dominate (docs/learning.md).

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.), with the
deviations above.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LOSS_WEIGHT: Final = 5.0
"""What a lost byte costs in delivered ones; epsilon of the slides."""
LEAST: Final = -1.0


def reward(rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Return how good intervals were, 1 at best."""
    rtt_us = np.where(rows["rtt_us"] > 0, rows["rtt_us"], rows["srtt_us"])
    beyond = np.maximum(rtt_us / rows["path_rtt_us"], 1.0)
    gained = rows["thr_bytes_per_s"] - LOSS_WEIGHT * rows["loss_bytes_per_s"]
    # What was delivered was possible, if a mean says so or not.
    possible = np.maximum(rows["path_bytes_per_s"], rows["thr_bytes_per_s"])
    good: NDArray[np.float64] = gained / possible / beyond
    return np.maximum(good, LEAST)
