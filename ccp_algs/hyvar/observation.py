"""The policy's input for an interval: seven numbers from -1 to 1, the observation `hyvar-1`.

    0  thr / thr_max                  fraction of the best throughput
    1  log2(1 + bdp / mss) / 16       size of the path, bdp = thr_max * rtt_min
    2  rtt_min / rtt                  1 without a queue
    3  log2(1 + rtt_min / 1 ms) / 12  length of the path
    4  loss / (thr + loss)            fraction of the sent data that was lost
    5  log2(cwnd / bdp) / 4           window relative to the path
    6  rtt_min / srtt                 as 2, over a longer time

Training and run time share this code. If the meaning changes, the name must change, so that no policy
receives observations that it was not trained on.

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.), table of the
state (thr, thr_max, RTT, RTT_min, loss, cwnd, sRTT). Deviation: the slides do not define the normalisation.
Ratios and logarithms keep every number within bounds on any path.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

OBSERVATION: Final = "hyvar-1"
"""Name of the observation, stored with every policy."""
N_FEATURES: Final = 7
"""Numbers in an observation."""

_LOG2_BDP_PKTS: Final = 16.0
_LOG2_RTT_MS: Final = 12.0
_LOG2_WINDOW: Final = 4.0


def observe(
    *,
    thr_bytes_per_s: ArrayLike,
    thr_max_bytes_per_s: ArrayLike,
    rtt_us: ArrayLike,
    rtt_min_us: ArrayLike,
    loss_bytes_per_s: ArrayLike,
    cwnd_bytes: ArrayLike,
    srtt_us: ArrayLike,
    mss_bytes: ArrayLike,
) -> NDArray[np.float32]:
    """Return the observations of n intervals.

    All arguments have the shape (n,) or are numbers, finite and >= 0.

    Args:
        thr_bytes_per_s: Delivered in the interval [bytes/s].
        thr_max_bytes_per_s: Maximum throughput of the flow so far [bytes/s].
        rtt_us: Mean RTT of the interval [us]; 0: no sample.
        rtt_min_us: Minimum RTT of the flow so far [us].
        loss_bytes_per_s: Lost in the interval [bytes/s].
        cwnd_bytes: Window at its end [bytes].
        srtt_us: Smoothed RTT at its end [us]; 0: none.
        mss_bytes: Segment size [bytes].

    Returns:
        Array of shape (n, 7), float32, all from -1 to 1. An undefined quotient counts as 1 for RTTs (no known
        queue), as 0 for throughput and loss, and as 1 for the window (nothing delivered to compare it with).
    """
    thr, thr_max = _floats(thr_bytes_per_s), _floats(thr_max_bytes_per_s)
    loss, cwnd = _floats(loss_bytes_per_s), _floats(cwnd_bytes)
    rtt, rtt_min, srtt, mss = _floats(rtt_us), _floats(rtt_min_us), _floats(srtt_us), _floats(mss_bytes)
    seen = np.empty((np.broadcast(thr, thr_max, rtt, rtt_min, loss, cwnd, srtt, mss).size, N_FEATURES))
    with np.errstate(all="ignore"):  # divisions by 0 are replaced, infinite values are clipped
        bdp = thr_max * rtt_min / 1e6
        seen[:, 0] = np.where(thr_max > 0, thr / thr_max, 0)
        seen[:, 1] = np.log2(1 + np.where(mss > 0, bdp / mss, 0)) / _LOG2_BDP_PKTS
        seen[:, 2] = np.where(rtt > 0, rtt_min / rtt, 1)
        seen[:, 3] = np.log2(1 + rtt_min / 1e3) / _LOG2_RTT_MS
        seen[:, 4] = np.where(thr + loss > 0, loss / (thr + loss), 0)
        seen[:, 5] = np.log2(np.where(bdp > 0, cwnd / bdp, np.inf)) / _LOG2_WINDOW
        seen[:, 6] = np.where(srtt > 0, rtt_min / srtt, 1)
    observations: NDArray[np.float32] = seen.clip(-1.0, 1.0).astype(np.float32)
    return observations


def _floats(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)
