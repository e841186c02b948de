"""Flows of an earlier agent, on datapaths built on libccp.

Such a datapath does not announce a flow again, and the protocol has no query. But a message from the agent
reconnects the datapath, and a flow with the fallback program reports within 100 ms. So the agent sends the
fallback program to each flow in the ledger, and to each unknown flow that reports; the fallback's report is
the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ccplane.datapath.ccp_unix.flows import head_of
from ccplane.datapath.ccp_unix.ledger import Ledger
from ccplane.datapath.ccp_unix.programs import Installed
from ccplane.datapath.wire import Create, Measure

UNKNOWN_MSS_BYTES: Final = 1448
"""MSS of a flow with unknown properties [bytes]: TCP with timestamps, on Ethernet."""


class Inherited:
    """Flows that no datapath has announced to this agent."""

    def __init__(self, ledger: Ledger, fallback: Installed, ask: Callable[[str, Create], None]) -> None:
        self._known = {name: dict(creates) for name, creates in ledger.known.items()}
        self._fallback = fallback
        self._ask = ask

    def greet(self, datapath: str) -> None:
        """Ask all flows of a datapath in the ledger."""
        for create in self._known.get(datapath, {}).values():
            self._ask(datapath, create)

    def forget(self, datapath: str) -> None:
        """Forget a datapath that restarted or exited."""
        self._known.pop(datapath, None)

    def answered(self, datapath: str, measure: Measure) -> Create | None:
        """Return a flow's announcement if this report is its answer; else ask the flow, and return None."""
        nothing = Create(measure.flow, 0, UNKNOWN_MSS_BYTES, 0, 0, 0, 0, "")
        create = self._known.get(datapath, {}).get(measure.flow, nothing)
        fallback = self._fallback
        if measure.program != fallback.uid or len(measure.fields) != fallback.sent.n_reports:
            self._ask(datapath, create)
            return None
        ends = create.src_ip, create.src_port, create.dst_ip, create.dst_port
        cwnd_bytes = head_of(fallback, measure.fields)["cwnd_bytes"]
        return Create(create.flow, cwnd_bytes, create.mss_bytes, *ends, create.algorithm)
