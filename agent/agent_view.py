"""A datapath that only its agent can see, as the agent tells of it: for `ccp flows` and `ccp top`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agent import messages as ask
from agent import runfile
from agent.client import Client
from agent.requests import TOTALS
from ccp_base.flows import FlowInfo, FlowStats
from datapath import ebpf
from datapath.protocol import LAW_PROGRAM, DatapathView

ANSWER_S: Final = 2.0
"""How long the agent has to answer [s]."""

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
    """Asks for all flows at once, and tells of them until they are asked for again."""

    def __init__(
        self, rows: Callable[[], Sequence[Mapping[str, Any]]], handles: Callable[[], Mapping[str, int]]
    ):
        """Take what is asked.

        Args:
            rows: Flows, as `ask.Flows` has them.
            handles: Handles of programs by `ALGORITHM/PROGRAM`.
        """
        self._ask = rows
        self._handles = handles
        self._rows: Sequence[Mapping[str, Any]] = ()

    def flows(self) -> Sequence[FlowInfo]:
        """Return all flows of now."""
        self._rows = self._ask()
        return [FlowInfo(**{name: row[name] for name in _INFO}, init_cwnd_bytes=0) for row in self._rows]

    def all_stats(self) -> Sequence[FlowStats]:
        """Return the totals of the same flows."""
        handles = self._handles()
        return [
            FlowStats(
                flow_id=row["flow_id"],
                mss_bytes=row["mss_bytes"],
                program=LAW_PROGRAM
                if row["law"]
                else handles.get(f"{row['algorithm']}/{row['program']}", LAW_PROGRAM),
                **{name: row[name] for name in TOTALS},
            )
            for row in self._rows
            if row["law"] is not None
        ]

    def counters(self) -> dict[str, int]:
        """Return nothing: what datapaths had no room for, they do not tell."""
        return {}


def view_of(place: str) -> DatapathView:
    """Return a view of a datapath: of a directory of pins, or as the agent of a socket tells of it.

    Raises:
        LoadError: If nothing is loaded there, or it may not be read.
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
