"""An algorithm that answers to in-band telemetry, on any datapath."""

from __future__ import annotations


def answering(asked_bytes: int) -> str:
    """Return the source of an algorithm that sets a window once it hears of its path's two routers.

    Args:
        asked_bytes: That window [bytes].
    """
    return f"""
from ccp_algs import Algorithm


class Answering(Algorithm):
    program = "(def (Report (volatile acked 0))) (when (> Micros 1000000) (report) (:= Micros 0))"

    def on_telemetry(self, sample):
        flow, info = sample.body.flow, self.flow.info
        own = (flow.src, flow.src_port) == (info.src_addr, info.src_port)
        if own and [hop.node_id for hop in sample.body.hops] == [2, 3]:
            self.flow.set(cwnd_bytes={asked_bytes})
"""
