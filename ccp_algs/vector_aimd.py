"""`example_aimd` for all flows together: one call per batch of reports, computed in NumPy.

State is kept in arrays indexed by the flow's slot, the low 32 bits of its id. If a batch contains several
reports of a flow, each is evaluated with the state before the batch, and the last decision applies.

Source and deviations: those of `example_aimd.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ccp_algs.api import FlowInfo, Updates, VectorAlgorithm
from ccp_algs.example_aimd import AimdFold
from ccp_algs.fold import Flow, latest
from ccp_algs.params import Param
from ccp_algs.registry import register

_SLOT = np.uint64(0xFFFF_FFFF)


class VectorAimdFold(AimdFold):
    """The fields of `AimdFold`, and the segment size, so that it need not be stored per flow."""

    mss_bytes = latest(Flow.mss)


@register("aimd_vec")
class VectorAimd(VectorAlgorithm):
    """Additive increase, multiplicative decrease, vectorised."""

    program = VectorAimdFold
    increase_pkts = Param(1.0, min=0.1, max=100.0, unit="segments", doc="growth per round trip")
    decrease = Param(0.5, min=0.1, max=0.9, doc="window after a loss, as a fraction of the window before it")

    def __init__(self) -> None:
        """Start without flows."""
        self.cwnd_bytes = np.zeros(0)
        self.ssthresh_bytes = np.zeros(0)
        self.calm_until_us = np.zeros(0)

    def on_create(self, info: FlowInfo) -> None:
        """Begin in slow start."""
        slot = info.flow_id & int(_SLOT)
        if slot >= len(self.cwnd_bytes):
            more = max(64, slot + 1 - len(self.cwnd_bytes), len(self.cwnd_bytes))
            self.cwnd_bytes, self.ssthresh_bytes, self.calm_until_us = (
                np.concatenate((array, np.zeros(more)))
                for array in (self.cwnd_bytes, self.ssthresh_bytes, self.calm_until_us)
            )
        self.cwnd_bytes[slot] = info.init_cwnd_bytes
        self.ssthresh_bytes[slot] = np.inf
        self.calm_until_us[slot] = 0

    def on_reports(self, reports: NDArray[np.void], program: str) -> Updates | None:
        """Decide for every report like `Aimd.on_report`."""
        slots = (reports["flow_id"] & _SLOT).astype(np.intp)
        cwnd = reports["cwnd_bytes"].astype(np.float64)
        mss = reports["mss_bytes"].astype(np.float64)
        now_us = reports["now_us"].astype(np.float64)
        ssthresh = self.ssthresh_bytes[slots]

        lossy = reports["lost"] > 0
        cut = lossy & (now_us >= self.calm_until_us[slots])
        acked = np.minimum(reports["acked"], cwnd)
        growth = np.where(cwnd < ssthresh, acked, self.increase_pkts * mss * acked / np.maximum(cwnd, 1))
        after_cut = np.maximum(self.decrease * np.maximum(cwnd, self.cwnd_bytes[slots]), 2 * mss)

        self.ssthresh_bytes[slots[cut]] = after_cut[cut]
        self.calm_until_us[slots[cut]] = (now_us + reports["srtt_us"])[cut]
        grows = ~lossy & (reports["limited"] > 0)
        cwnd = np.where(cut, np.minimum(cwnd, after_cut), np.where(grows, cwnd + growth, cwnd))

        decided = cut | ~lossy
        self.cwnd_bytes[slots[decided]] = cwnd[decided]
        if not decided.any():
            return None
        return Updates(reports["flow_id"][decided], cwnd[decided].astype(np.uint64))
