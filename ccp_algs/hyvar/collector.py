"""Hyvar's state collector: intervals of flows, out of totals that the fold program reports.

The learning environment (`experiments/learning/worlds.py`) collects with the same code.

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
        ("train_bytes_per_s", "f8"),
        ("queue_rtts", "f8"),
        ("smoothed_loss_ratio", "f8"),
        ("mtp_us", "f8"),
    ]
)
_TOTALS: Final = ("now_us", "delivered_pkts", "lost_pkts", "rtt_sum_us", "rtt_samples")
_FIRST_SLOTS: Final = 64
_LATEST: Final = 0.2
"""Weight of the latest interval in the smoothed loss: one overflow costs little, many in a row do."""


@dataclasses.dataclass(frozen=True)
class View:
    """How the best throughput of a path is known that the policy is shown; the defaults are the slides'.

    A flow that holds on to the best throughput that it ever had takes the path for its own when others come,
    and one that came late never learns what there is. With what packets that left together tell of the path,
    both know the same. The smaller a flow's part of the path, the more of a queue the policy bears: who has
    little takes more, who has much makes room.

    Attributes:
        window_rtts: The best throughput is that of so many minimum RTTs, and of the last two intervals at
            least; half of them are forgotten at once.
        trains: It is the rate of the latest train (`trains.py`), where that is higher.
    """

    window_rtts: float = float("inf")
    trains: bool = False


@dataclasses.dataclass(frozen=True)
class States:
    """What n flows were like in the interval that ended; arrays of shape (n,).

    Attributes:
        flow_ids: The flows, each once.
        observations: What the policy sees, (n, 7) float32.
        seen: What they were made of: the arguments of `observation.observe`.
        queue_rtts: Queueing delay in minimum RTTs, RTT / RTT_min - 1, >= 0.
        gradient_rtts: What that grew by since the interval before.
        loss_ratio: Lost, as part of what was sent.
        smoothed_loss_ratio: The same, smoothed over intervals.
        part_ratio: Throughput by the best that the path has to offer, 0 to 1.
        rtt_min_us: Minimum RTT of the flow [us].
        mtp_us: Length of the interval that was asked for [us].
        in_slow_start: CUBIC was in slow start at its end.
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
        if view.trains:
            trains = reports["train_bytes_per_s"]
            kept["train_bytes_per_s"] = np.where(trains > 0, trains, kept["train_bytes_per_s"])
            thr_max_bytes_per_s = np.maximum(thr_max_bytes_per_s, kept["train_bytes_per_s"])
        queue_rtts = np.maximum(rtt_us / np.maximum(rtt_min_us, 1.0) - 1, 0.0)
        heard = grown["rtt_samples"] > 0
        if not heard.all():
            queue_rtts = np.where(heard, queue_rtts, kept["queue_rtts"])
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


def _slots(reports: NDArray[np.void]) -> NDArray[np.intp]:
    return (reports["flow_id"] & _SLOT).astype(np.intp)


def _last_of_each(reports: NDArray[np.void]) -> NDArray[np.void]:
    """Return the last report of each flow."""
    if len(reports) < 2:
        return reports
    _, behind = np.unique(reports["flow_id"][::-1], return_index=True)
    return reports if len(behind) == len(reports) else reports[len(reports) - 1 - behind]
