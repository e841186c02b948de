"""How Hyvar's flows come to know a path that they share: a queue that stands is drained now and then.

A flow that begins while others have packets in the queue takes a longer RTT for the shortest. It sees no
queue where they see one, and takes what they give. So a flow that has not seen the path without a queue for
`drain_s` lowers its window, for one and a half round trips, and has it back afterwards: to 0.85 BDP of its
own where the queue is short, which costs a lone flow hardly anything, and to half a BDP where it is long.
What shows then is news to all flows of the path: they drain together next time, as in BBR. A flow also drains
when its slow start ends, as the queue that it sees then is for the most part its own.

    WATCHING --(a queue for drain_s)--> EMPTYING --(a round trip)--> LOOKING --(half of one)--> WATCHING

Source: N. Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016, ProbeRTT.
Deviations: parts of a BDP, not four packets, for round trips instead of 200 ms; a queue of 3 % of the RTT
counts as none.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs.hyvar.collector import Floats, States

WATCHING: Final = 0
EMPTYING: Final = 1
LOOKING: Final = 2

_GENTLE_BDP: Final = 0.85
_DEEP_BDP: Final = 0.5
_LOOK_SRTTS: Final = 0.5
_EMPTY_RTTS: Final = 0.03
_NEWS_RATIO: Final = 0.99
_MOST_GAIN: Final = 16.0
_NEVER_US: Final = -np.inf
_SLOT: Final = np.uint64(0xFFFF_FFFF)
_KEPT: Final = np.dtype(
    [("flow_id", "u8"), ("stage", "u1"), ("empty_us", "f8"), ("rtt_min_us", "f8"), ("window_bytes", "f8")]
)


@dataclasses.dataclass(frozen=True)
class Drained:
    """What drains make of the next intervals of n flows; arrays of shape (n,).

    Attributes:
        mtp_us: Their length, where it is above 0 [us].
        gain: Factors for the window, where they are above 0.
        held: The policy has no say.
    """

    mtp_us: Floats
    gain: Floats
    held: NDArray[np.bool_]


class Drains:
    """Who has seen the path without a queue, and when."""

    def __init__(self) -> None:
        """Begin without flows."""
        self._kept = np.zeros(0, _KEPT)

    def follow(self, states: States, drain_s: float, long_rtts: float) -> Drained:
        """Return what the next intervals are to be like.

        Args:
            states: Of the intervals that ended.
            drain_s: Time with a queue after which a flow drains it [s].
            long_rtts: A queueing delay above which a queue is long [minimum RTTs].
        """
        slots = (states.flow_ids & _SLOT).astype(np.intp)
        if (missing := slots.max() + 1 - len(self._kept)) > 0:
            self._kept = np.concatenate((self._kept, np.zeros(max(missing, len(self._kept)), _KEPT)))
        kept = self._kept[slots]
        new = kept["flow_id"] != states.flow_ids
        kept[new] = np.zeros((), _KEPT)
        kept["empty_us"][new] = _NEVER_US
        now_us, queue_rtts = states.now_us, states.queue_rtts
        watches, emptied, looked = (kept["stage"] == stage for stage in (WATCHING, EMPTYING, LOOKING))
        news = (queue_rtts < _EMPTY_RTTS) | (states.rtt_min_us < _NEWS_RATIO * kept["rtt_min_us"])
        drained_once = kept["empty_us"] > _NEVER_US
        seen_us = np.where(news & (drained_once | ~states.in_slow_start), now_us, kept["empty_us"])
        begins = watches & ~states.in_slow_start & (now_us - seen_us > 1e6 * drain_s)
        lower = np.where(queue_rtts > long_rtts, _DEEP_BDP, _GENTLE_BDP) / (1 + queue_rtts)
        # A window that was reduced for a loss meanwhile stays so.
        back = np.clip(kept["window_bytes"] / np.maximum(states.cwnd_bytes, 1.0), 1.0, _MOST_GAIN)
        kept["flow_id"] = states.flow_ids
        kept["stage"] = np.where(begins, EMPTYING, np.where(emptied, LOOKING, WATCHING))
        kept["empty_us"] = np.where(begins, now_us, seen_us)
        kept["rtt_min_us"] = states.rtt_min_us
        kept["window_bytes"] = np.where(begins, states.cwnd_bytes, kept["window_bytes"])
        self._kept[slots] = kept
        return Drained(
            states.srtt_us * np.where(begins, 1.0, np.where(emptied, _LOOK_SRTTS, 0.0)),
            np.where(begins, lower, np.where(looked & ~states.lost, back, 0.0)),
            begins | emptied | looked,
        )
