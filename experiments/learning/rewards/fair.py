"""The reward of `hyvar.py`, held against an equal part of the path for each connection that sends.

More than that part is worth nothing: it is others', and costs them. A queue is counted against the path's
RTT, but only up to MOST_BEYOND: beside connections that fill the buffer it is not the learner's, and less
would only make it yield.

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.) for the
quotient of rate and RTT; Liao et al., "Astraea: Towards Fair and Efficient Learning-based Congestion
Control", EuroSys 2024, for a reward that knows the fair share.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LOSS_WEIGHT: Final = 5.0
"""What a lost byte costs in delivered ones; epsilon of the slides."""
MOST_BEYOND: Final = 2.0
LEAST: Final = -1.0


def reward(rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Return how good intervals were, 1 at best."""
    rtt_us = np.where(rows["rtt_us"] > 0, rows["rtt_us"], rows["srtt_us"])
    beyond = np.clip(rtt_us / rows["path_rtt_us"], 1.0, MOST_BEYOND)
    thr, fair = rows["thr_bytes_per_s"], np.maximum(rows["fair_bytes_per_s"], 1.0)
    part = np.minimum(thr / fair, 1.0)
    lost = rows["loss_bytes_per_s"] / np.maximum(thr + rows["loss_bytes_per_s"], 1.0)
    good: NDArray[np.float64] = (part - LOSS_WEIGHT * lost * part) / beyond
    return np.maximum(good, LEAST)
