"""A view of a datapath that only its agent can observe, for `ccp flows` and `ccp top`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ccplane.agent import messages as ask
from ccplane.agent import runfile
from ccplane.agent.client import Client
from ccplane.agent.requests import TOTALS
from ccplane.base.flows import FlowInfo, FlowStats
from ccplane.datapath import ebpf
from ccplane.datapath.protocol import FALLBACK_PROGRAM, DatapathView

ANSWER_S: Final = 2.0
"""Timeout for the agent's answer [s]."""

_INFO: Final = (
    "flow_id",
    "src_addr",
    "src_port",
    "dst_addr",
    "dst_port",
    "mss_bytes",
    "cc_name",
    "created_us",
)


class AgentView:
    """Asks the agent for all flows, and returns their totals from the same answer."""

    def __init__(
        self, rows: Callable[[], Sequence[Mapping[str, Any]]], handles: Callable[[], Mapping[str, int]]
    ):
        self._ask = rows
        self._handles = handles
        self._rows: Sequence[Mapping[str, Any]] = ()

    def flows(self) -> Sequence[FlowInfo]:
        """Ask for the current flows."""
        self._rows = self._ask()
        return [FlowInfo(**{name: row[name] for name in _INFO}, init_cwnd_bytes=0) for row in self._rows]

    def all_stats(self) -> Sequence[FlowStats]:
        """Return the totals of the flows from the last call of `flows`."""
        handles = self._handles()
        return [
            FlowStats(
                flow_id=row["flow_id"],
                mss_bytes=row["mss_bytes"],
                program=FALLBACK_PROGRAM
                if row["fallback"]
                else handles.get(f"{row['algorithm']}/{row['program']}", FALLBACK_PROGRAM),
                **{name: row[name] for name in TOTALS},
            )
            for row in self._rows
            if row["fallback"] is not None
        ]

    def counters(self) -> dict[str, int]:
        """Return nothing: these datapaths do not report counters."""
        return {}


def view_of(place: str) -> DatapathView:
    """Return a view of a datapath: of a pin directory, or through the agent that listens on a socket.

    Raises:
        LoadError: If nothing is loaded there, or permission is denied.
    """
    if not runfile.is_socket(place):
        return ebpf.observe(place)

    def rows() -> Sequence[Mapping[str, Any]]:
        with Client(pin_dir=place, timeout_s=ANSWER_S) as client:
            return list(client.ask(ask.Flows()))

    def handles() -> Mapping[str, int]:
        agent = runfile.running(place)
        return {} if agent is None else {name: handle for handle, name in agent.programs.items()}

    return AgentView(rows, handles)
