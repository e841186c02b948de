"""Hyvar's state collector: derives intervals of flows from the totals that the fold program reports.

The learning environment (`experiments/learning/worlds.py`) uses the same code.

Each flow's last interval is kept in arrays, one row per slot of the datapath. All flows of a batch are
collected together.

Source: the slides "Hybrid Congestion Control with Variable Monitoring Time Period" (Qiu et al.), "State
Collector" (consecutive, normalised network states). Deviation: the slides do not define the normalisation.
Here the queueing delay is measured in minimum RTTs, RTT / RTT_min - 1, and its gradient is the difference
from the previous interval, not divided by time: it shows the change of the queue, whatever the interval's
length. `View` lists what else the policy can be shown, beyond the slides, and why.
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
        ("train_bytes_per_s", "f8"),
        ("queue_rtts", "f8"),
        ("smoothed_loss_ratio", "f8"),
        ("mtp_us", "f8"),
    ]
)
_TOTALS: Final = ("now_us", "delivered_pkts", "lost_pkts", "rtt_sum_us", "rtt_samples")
_FIRST_SLOTS: Final = 64
_LATEST: Final = 0.2
"""Weight of the latest interval in the smoothed loss: a single overflow counts little, repeated ones much."""


@dataclasses.dataclass(frozen=True)
class View:
    """Determines the path's best throughput in the observations; the defaults are the slides'.

    A flow that keeps its best throughput forever claims the whole path when other flows arrive, and a flow
    that arrives late never learns the path's rate. Packets that left together show all flows the same rate.
    The smaller a flow's share of the path, the longer a queue the policy tolerates: flows with a small share
    grow, flows with a large share yield.

    Attributes:
        window_rtts: Window over which the best throughput is remembered, in minimum RTTs, and at least two
            intervals; the older half is forgotten in one step.
        trains: Use the rate of the latest train (`trains.py`) where it is higher.
    """

    window_rtts: float = float("inf")
    trains: bool = False


@dataclasses.dataclass(frozen=True)
class States:
    """States of n flows in the interval that ended; arrays of shape (n,).

    Attributes:
        flow_ids: The flows, each once.
        observations: The policy's input, (n, 7) float32.
        seen: What the observations were computed from: the arguments of `observation.observe`.
        queue_rtts: Queueing delay in minimum RTTs, RTT / RTT_min - 1, >= 0.
        gradient_rtts: Change of `queue_rtts` since the previous interval.
        loss_ratio: Lost packets as a fraction of packets sent.
        smoothed_loss_ratio: `loss_ratio`, smoothed over intervals.
        part_ratio: Throughput as a fraction of the path's best, 0 to 1.
        rtt_min_us: Minimum RTT of the flow [us].
        mtp_us: Requested length of the interval [us].
        in_slow_start: Whether CUBIC was in slow start at its end.
    """

    flow_ids: NDArray[np.uint64]
    observations: NDArray[np.float32]
    seen: dict[str, Floats]
    queue_rtts: Floats
    gradient_rtts: Floats
    loss_ratio: Floats
    smoothed_loss_ratio: Floats
    part_ratio: Floats
    rtt_min_us: Floats
    mtp_us: Floats
    in_slow_start: NDArray[np.bool_]


_AS_THE_SLIDES: Final = View()


class Collector:
    """Keeps the state of all flows."""

    def __init__(self) -> None:
        """Start without flows."""
        self._kept = np.zeros(0, _KEPT)

    def add(self, flow_id: int, mtp_us: float) -> None:
        """Add a flow; its first interval begins with `begin`."""
        slot = flow_id & int(_SLOT)
        if slot >= len(self._kept):
            more = max(_FIRST_SLOTS, slot + 1 - len(self._kept), len(self._kept))
            self._kept = np.concatenate((self._kept, np.zeros(more, _KEPT)))
        self._kept[slot] = np.zeros((), _KEPT)
        self._kept[slot]["flow_id"] = flow_id
        self._kept[slot]["mtp_us"] = mtp_us

    def remove(self, flow_id: int) -> None:
        """Remove a flow."""
        slot = flow_id & int(_SLOT)
        if self._kept[slot]["flow_id"] == flow_id:
            self._kept[slot] = np.zeros((), _KEPT)

    def begin(self, reports: NDArray[np.void]) -> None:
        """Start counting with these reports, whose fold programs have just started.

        Args:
            reports: As for `VectorAlgorithm.on_reports`.
        """
        slots = _slots(reports)
        for name in _TOTALS:
            self._kept[name][slots] = reports[name]

    def mtp_us(self, flow_ids: NDArray[np.uint64]) -> Floats:
        """Return the lengths of the flows' intervals [us]."""
        lengths_us: Floats = self._kept["mtp_us"][(flow_ids & _SLOT).astype(np.intp)]
        return lengths_us

    def set_mtp_us(self, flow_ids: NDArray[np.uint64], mtp_us: Floats) -> None:
        """Record the new lengths of the flows' intervals [us]."""
        self._kept["mtp_us"][(flow_ids & _SLOT).astype(np.intp)] = mtp_us

    def end(self, reports: NDArray[np.void], view: View = _AS_THE_SLIDES) -> States | None:
        """End the intervals of the flows in these reports, and start the next intervals of these flows.

        Args:
            reports: As for `VectorAlgorithm.on_reports`, those with `due`. Of several reports of a flow the
                last one counts, for the whole time.
            view: How the observations are computed.

        Returns:
            The states of the intervals; None if there are none. Reports no later than the flow's previous one
            are ignored.
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
        # The total falls when a packet marked lost turns out to have arrived.
        grown = {name: np.maximum(reports[name] - kept[name], 0.0) for name in _TOTALS[1:]}
        thr_bytes_per_s = grown["delivered_pkts"] * mss_bytes / elapsed_s
        loss_bytes_per_s = grown["lost_pkts"] * mss_bytes / elapsed_s
        rtt_us = grown["rtt_sum_us"] / np.maximum(grown["rtt_samples"], 1.0)
        rtt_min_us = reports["rtt_min_us"].astype(np.float64)
        window_us = view.window_rtts * np.maximum(rtt_min_us, 1.0)
        thr_max_bytes_per_s = _best(kept, reports["now_us"], thr_bytes_per_s, window_us)
        if view.trains:
            trains = reports["train_bytes_per_s"]
            kept["train_bytes_per_s"] = np.where(trains > 0, trains, kept["train_bytes_per_s"])
            thr_max_bytes_per_s = np.maximum(thr_max_bytes_per_s, kept["train_bytes_per_s"])
        queue_rtts = np.maximum(rtt_us / np.maximum(rtt_min_us, 1.0) - 1, 0.0)
        received = grown["rtt_samples"] > 0
        if not received.all():
            queue_rtts = np.where(received, queue_rtts, kept["queue_rtts"])
        gradient_rtts = queue_rtts - kept["queue_rtts"]
        for name in _TOTALS:
            kept[name] = reports[name]
        kept["queue_rtts"] = queue_rtts
        loss_ratio = loss_bytes_per_s / np.maximum(thr_bytes_per_s + loss_bytes_per_s, 1.0)
        kept["smoothed_loss_ratio"] += _LATEST * (loss_ratio - kept["smoothed_loss_ratio"])
        self._kept[slots] = kept
        seen = {
            "thr_bytes_per_s": thr_bytes_per_s,
            "thr_max_bytes_per_s": thr_max_bytes_per_s,
            "rtt_us": rtt_us,
            "rtt_min_us": rtt_min_us,
            "loss_bytes_per_s": loss_bytes_per_s,
            "cwnd_bytes": reports["cwnd_bytes"],
            "srtt_us": reports["srtt_us"],
            "mss_bytes": mss_bytes,
        }
        return States(
            flow_ids=np.ascontiguousarray(reports["flow_id"]),
            observations=observe(**seen),
            seen=seen,
            queue_rtts=queue_rtts,
            gradient_rtts=gradient_rtts,
            loss_ratio=loss_ratio,
            smoothed_loss_ratio=kept["smoothed_loss_ratio"],
            part_ratio=thr_bytes_per_s / np.maximum(thr_max_bytes_per_s, 1.0),
            rtt_min_us=rtt_min_us,
            mtp_us=kept["mtp_us"],
            in_slow_start=reports["in_slow_start"] > 0,
        )


def _best(kept: NDArray[np.void], now_us: Floats, thr_bytes_per_s: Floats, window_us: Floats) -> Floats:
    """Return the best throughput of the window [bytes/s], and store what the next call needs."""
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


def _slots(reports: NDArray[np.void]) -> NDArray[np.intp]:
    return (reports["flow_id"] & _SLOT).astype(np.intp)


def _last_of_each(reports: NDArray[np.void]) -> NDArray[np.void]:
    """Return the last report of each flow."""
    if len(reports) < 2:
        return reports
    _, behind = np.unique(reports["flow_id"][::-1], return_index=True)
    return reports if len(behind) == len(reports) else reports[len(reports) - 1 - behind]
