"""Hyvar's state collector: intervals of flows, out of totals that the fold program reports.

What a flow was like in its last interval is kept in arrays, a row for each slot of the datapath; all flows
of a batch are collected at once.

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.), State
Collector: network states that are consecutive and normalised. Deviation: what is normalised how is not
said there. Here it is the queueing delay in minimum RTTs, RTT / RTT_min - 1, and its gradient is the
difference to the interval before, not divided by time: what is asked is how far the queue came, whatever
the interval. `View` says what else than in the slides the policy can be shown, and why.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ccp_algs.hyvar.observation import observe

Floats = NDArray[np.float64]

_SLOT: Final = np.uint64(0xFFFF_FFFF)
_KEPT: Final = np.dtype(
    [
        ("flow_id", "u8"),
        ("now_us", "f8"),
        ("delivered_pkts", "f8"),
        ("lost_pkts", "f8"),
        ("rtt_sum_us", "f8"),
        ("rtt_samples", "f8"),
        ("thr_max_bytes_per_s", "f8"),
        ("thr_max_before_bytes_per_s", "f8"),
        ("span_began_us", "f8"),
        ("queue_rtts", "f8"),
        ("mtp_us", "f8"),
    ]
)
_TOTALS: Final = ("now_us", "delivered_pkts", "lost_pkts", "rtt_sum_us", "rtt_samples")
_FIRST_SLOTS: Final = 64


@dataclasses.dataclass(frozen=True)
class View:
    """How the policy is shown a path that a flow may share; the defaults are what the slides have.

    A flow that holds on to the best throughput it ever had takes the path for its own when others come, and
    one that came late never learns what there is. Forgetting alone only keeps the shares as they are. What
    moves them are packets that each flow may have in the queue, and does not see: the queue of n flows is n
    times as many, so that the delay tells each flow its share, as in Vegas and Copa.

    Attributes:
        window_rtts: The best throughput is that of so many minimum RTTs, and of the last two intervals at
            least; half of them are forgotten at once.
        own_pkts: Packets in the queue that do not count: they are taken off window and RTTs.

    Source: L. Brakmo and L. Peterson, "TCP Vegas", IEEE JSAC 13(8), 1995 (packets in the queue as a target);
    N. Cardwell et al., "BBR", ACM Queue 14(5), 2016 (a best of the last ten round trips).
    """

    window_rtts: float = float("inf")
    own_pkts: float = 0.0


@dataclasses.dataclass(frozen=True)
class States:
    """What n flows were like in the interval that ended; arrays of shape (n,).

    Attributes:
        flow_ids: The flows, each once.
        observations: What the policy sees, (n, 7) float32.
        queue_rtts: Queueing delay in minimum RTTs, RTT / RTT_min - 1, >= 0.
        gradient_rtts: What that grew by since the interval before.
        loss_ratio: Lost, as part of what was sent.
        rtt_min_us: Minimum RTT of the flow [us].
        mtp_us: Length of the interval that was asked for [us].
        in_slow_start: CUBIC was in slow start at its end.
        now_us: Its end [us].
        lost: Something was lost.
        srtt_us: Smoothed RTT at its end [us].
        cwnd_bytes: Window at its end [bytes].
    """

    flow_ids: NDArray[np.uint64]
    observations: NDArray[np.float32]
    queue_rtts: Floats
    gradient_rtts: Floats
    loss_ratio: Floats
    rtt_min_us: Floats
    mtp_us: Floats
    in_slow_start: NDArray[np.bool_]
    now_us: Floats
    lost: NDArray[np.bool_]
    srtt_us: Floats
    cwnd_bytes: Floats


_AS_THE_SLIDES: Final = View()


class Collector:
    """Keeps what is known of flows."""

    def __init__(self) -> None:
        """Begin without flows."""
        self._kept = np.zeros(0, _KEPT)

    def add(self, flow_id: int, mtp_us: float) -> None:
        """Take a flow; its first interval begins with `begin`."""
        slot = flow_id & int(_SLOT)
        if slot >= len(self._kept):
            more = max(_FIRST_SLOTS, slot + 1 - len(self._kept), len(self._kept))
            self._kept = np.concatenate((self._kept, np.zeros(more, _KEPT)))
        self._kept[slot] = np.zeros((), _KEPT)
        self._kept[slot]["flow_id"] = flow_id
        self._kept[slot]["mtp_us"] = mtp_us

    def remove(self, flow_id: int) -> None:
        """Forget a flow."""
        slot = flow_id & int(_SLOT)
        if self._kept[slot]["flow_id"] == flow_id:
            self._kept[slot] = np.zeros((), _KEPT)

    def begin(self, reports: NDArray[np.void]) -> None:
        """Count from these reports on: the fold programs have just started.

        Args:
            reports: As of `VectorAlgorithm.on_reports`.
        """
        slots = _slots(reports)
        for name in _TOTALS:
            self._kept[name][slots] = reports[name]

    def mtp_us(self, flow_ids: NDArray[np.uint64]) -> Floats:
        """Return the lengths of the intervals of flows [us]."""
        lengths_us: Floats = self._kept["mtp_us"][(flow_ids & _SLOT).astype(np.intp)]
        return lengths_us

    def set_mtp_us(self, flow_ids: NDArray[np.uint64], mtp_us: Floats) -> None:
        """Take note of what the lengths of the intervals of flows are from now on [us]."""
        self._kept["mtp_us"][(flow_ids & _SLOT).astype(np.intp)] = mtp_us

    def end(self, reports: NDArray[np.void], view: View = _AS_THE_SLIDES) -> States | None:
        """End the intervals of the flows that report so; their next ones begin.

        Args:
            reports: As of `VectorAlgorithm.on_reports`, those with `due`. Of several of one flow the last
                holds, for all of the time.
            view: What the observations show.

        Returns:
            What the intervals were like; None without any. Reports that are not behind the one before tell
            nothing.
        """
        reports = _last_of_each(reports)
        slots = _slots(reports)
        fresh = reports["now_us"] > self._kept["now_us"][slots]
        if not fresh.all():
            reports, slots = reports[fresh], slots[fresh]
        if not len(reports):
            return None
        kept = self._kept[slots]
        mss_bytes = reports["mss_bytes"].astype(np.float64)
        elapsed_s = (reports["now_us"] - kept["now_us"]) / 1e6
        # What was taken for lost and had not been lowers the total.
        grown = {name: np.maximum(reports[name] - kept[name], 0.0) for name in _TOTALS[1:]}
        thr_bytes_per_s = grown["delivered_pkts"] * mss_bytes / elapsed_s
        loss_bytes_per_s = grown["lost_pkts"] * mss_bytes / elapsed_s
        rtt_us = grown["rtt_sum_us"] / np.maximum(grown["rtt_samples"], 1.0)
        rtt_min_us = reports["rtt_min_us"].astype(np.float64)
        window_us = view.window_rtts * np.maximum(rtt_min_us, 1.0)
        thr_max_bytes_per_s = _best(kept, reports["now_us"], thr_bytes_per_s, window_us)
        cwnd_bytes, srtt_us = (reports[name].astype(np.float64) for name in ("cwnd_bytes", "srtt_us"))
        queue_rtts = np.maximum(rtt_us / np.maximum(rtt_min_us, 1.0) - 1, 0.0)
        heard = grown["rtt_samples"] > 0
        if not heard.all():
            queue_rtts = np.where(heard, queue_rtts, kept["queue_rtts"])
        gradient_rtts = queue_rtts - kept["queue_rtts"]
        for name in _TOTALS:
            kept[name] = reports[name]
        kept["queue_rtts"] = queue_rtts
        self._kept[slots] = kept
        own_bytes = view.own_pkts * mss_bytes
        own_us = own_bytes * 1e6 / np.maximum(thr_bytes_per_s, 1.0)
        return States(
            flow_ids=np.ascontiguousarray(reports["flow_id"]),
            observations=observe(
                thr_bytes_per_s=thr_bytes_per_s,
                thr_max_bytes_per_s=thr_max_bytes_per_s,
                rtt_us=_without(rtt_us, own_us, rtt_min_us),
                rtt_min_us=rtt_min_us,
                loss_bytes_per_s=loss_bytes_per_s,
                cwnd_bytes=np.maximum(cwnd_bytes - own_bytes, np.minimum(mss_bytes, cwnd_bytes)),
                srtt_us=_without(srtt_us, own_us, rtt_min_us),
                mss_bytes=mss_bytes,
            ),
            queue_rtts=queue_rtts,
            gradient_rtts=gradient_rtts,
            loss_ratio=loss_bytes_per_s / np.maximum(thr_bytes_per_s + loss_bytes_per_s, 1.0),
            rtt_min_us=rtt_min_us,
            mtp_us=kept["mtp_us"],
            in_slow_start=reports["in_slow_start"] > 0,
            now_us=reports["now_us"].astype(np.float64),
            lost=grown["lost_pkts"] > 0,
            srtt_us=srtt_us,
            cwnd_bytes=cwnd_bytes,
        )


def _best(kept: NDArray[np.void], now_us: Floats, thr_bytes_per_s: Floats, window_us: Floats) -> Floats:
    """Return the best throughput of the window [bytes/s], and keep what it takes for the next one."""
    over = now_us - kept["span_began_us"] > window_us / 2
    for name, value in (
        ("thr_max_before_bytes_per_s", kept["thr_max_bytes_per_s"]),
        ("thr_max_bytes_per_s", 0.0),
        ("span_began_us", now_us),
    ):
        kept[name] = np.where(over, value, kept[name])
    kept["thr_max_bytes_per_s"] = np.maximum(kept["thr_max_bytes_per_s"], thr_bytes_per_s)
    best: Floats = np.maximum(kept["thr_max_bytes_per_s"], kept["thr_max_before_bytes_per_s"])
    return best


def _without(rtt_us: Floats, own_us: Floats, rtt_min_us: Floats) -> Floats:
    """Return RTTs without what a flow's own packets wait; 0 is none, and stays."""
    return np.where(rtt_us > 0, np.maximum(rtt_us - own_us, np.minimum(rtt_min_us, rtt_us)), 0.0)


def _slots(reports: NDArray[np.void]) -> NDArray[np.intp]:
    return (reports["flow_id"] & _SLOT).astype(np.intp)


def _last_of_each(reports: NDArray[np.void]) -> NDArray[np.void]:
    """Return the last report of each flow."""
    if len(reports) < 2:
        return reports
    _, behind = np.unique(reports["flow_id"][::-1], return_index=True)
    return reports if len(behind) == len(reports) else reports[len(reports) - 1 - behind]
