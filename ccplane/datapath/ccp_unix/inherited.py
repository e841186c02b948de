"""Flows that began under an agent before this one, on datapaths that are built on libccp.

Such a datapath announces no flow a second time, and the protocol has no question. But an agent that writes to
it is there for it again, and a flow that is given the law tells within 100 ms how it fares. So the law is the
question, for each flow that the ledger has and for each that measures without being known; its report is the
answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ccplane.datapath.ccp_unix.flows import head_of
from ccplane.datapath.ccp_unix.ledger import Ledger
from ccplane.datapath.ccp_unix.programs import Installed
from ccplane.datapath.wire import Create, Measure

UNKNOWN_MSS_BYTES: Final = 1448
"""MSS of a flow of which only its number is known [bytes]: TCP's with timestamps, on Ethernet."""


class Inherited:
    """What is known of flows that no datapath has announced to this agent."""

    def __init__(self, ledger: Ledger, law: Installed, ask: Callable[[str, Create], None]) -> None:
        """Take what the agent before has left.

        Args:
            ledger: It has been read.
            law: The law.
            ask: Gives the law to a flow of the datapath of this name.
        """
        self._known = {name: dict(creates) for name, creates in ledger.known.items()}
        self._law = law
        self._ask = ask

    def greet(self, datapath: str) -> None:
        """Ask all flows of a datapath that the agent before had."""
        for create in self._known.get(datapath, {}).values():
            self._ask(datapath, create)

    def forget(self, datapath: str) -> None:
        """Forget a datapath: it begins anew, or is gone."""
        self._known.pop(datapath, None)

    def answered(self, datapath: str, measure: Measure) -> Create | None:
        """Return how a flow would be announced now, if this is its answer; else ask it.

        Args:
            datapath: Name of its datapath, which has this agent's programs.
            measure: What it said.
        """
        nothing = Create(measure.flow, 0, UNKNOWN_MSS_BYTES, 0, 0, 0, 0, "")
        create = self._known.get(datapath, {}).get(measure.flow, nothing)
        law = self._law
        if measure.program != law.uid or len(measure.fields) != law.sent.n_reports:
            self._ask(datapath, create)
            return None
        ends = create.src_ip, create.src_port, create.dst_ip, create.dst_port
        cwnd_bytes = head_of(law, measure.fields)["cwnd_bytes"]
        return Create(create.flow, cwnd_bytes, create.mss_bytes, *ends, create.algorithm)
