"""R-TCP-Hyvar: Hyvar (`algorithms.py`) within the token bucket that limits its client (`rtcp/mixin.py`).

    window = min(Hyvar's, R sRTT)       pacing rate = R while there is a limit

`RateLimited` is for algorithms with an instance for each flow. So here each flow has an instance of Hyvar's
decisions, and its reports are arrays of one row: the same code as for all flows at once.

Source: S. Zhu et al., "R-TCP: A Framework to Optimize TCP Performance Over Rate-Limiting Networks", NSDI
2026, appendix M: the limiter over a learned congestion control.

Parameters: those of Hyvar and of R-TCP.

Deviation: while the cap is raised CUBIC is in slow start, as in `r_tcp_cubic.py`; the policy may end it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ccp_algs.api import Algorithm, FlowInfo, Updates
from ccp_algs.hyvar.algorithms import Adaptive
from ccp_algs.hyvar.fold import HyvarFold
from ccp_algs.r_tcp_cubic import NO_THRESHOLD_BYTES
from ccp_algs.registry import register
from ccp_algs.rtcp.limit import RateLimit
from ccp_algs.rtcp.mixin import RateLimited

_ROW: Final = np.dtype(
    [(name, "u8") for name in ("flow_id", "now_us", "cwnd_bytes", *HyvarFold.report_fields)]
)


class OneFlow(Adaptive, Algorithm):
    """Hyvar for one flow."""

    def on_create(self, info: FlowInfo) -> None:
        """Take the flow."""
        self.flow.set(**self.add(info))

    def on_report(self, report: Any) -> None:
        """Decide as for many flows."""
        row = np.array([tuple(getattr(report, name) for name in _ROW.names or ())], _ROW)
        self._write(self.decide(row))

    def on_params(self, names: frozenset[str]) -> None:
        """Hand them to the fold program."""
        self._write(self.all_registers())

    def _write(self, decided: list[Updates]) -> None:
        for updates in decided:
            self.flow.set(**{name: int(values[0]) for name, values in updates.registers.items()})


@register("r_tcp_hyvar")
class RTcpHyvar(RateLimited, OneFlow):
    """Hyvar within a rate limit; see the module."""

    caps_cwnd = True

    def on_rate_limit(self, limit: RateLimit) -> None:
        """Grow fast while the cap is raised."""
        if limit.seeks:
            self.flow.set(ssthresh_bytes=NO_THRESHOLD_BYTES)
