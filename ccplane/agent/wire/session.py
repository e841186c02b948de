"""What is between an agent made with portus and our flows: programs by number, flows by number, messages.

To the plane it is an algorithm: its flows and their reports go to the agent, and what the agent answers is
done as any algorithm would. Without an agent the fallback law has them. All but `hear` runs on the agent's
thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from ccp_algs import Algorithm
from ccplane.agent.flow import FlowControl, describe
from ccplane.agent.pyportus import DatapathInfo
from ccplane.base import native
from ccplane.base.errors import CcpError, FlowGone
from ccplane.datapath import wire
from ccplane.datapath.link import Link, Watch
from ccplane.datapath.protocol import LAW_PROGRAM
from ccplane.datapath.wire import ChangeProgram, Create, Install, Measure, Update

if TYPE_CHECKING:
    from ccplane.agent.plane import Plane
    from ccplane.agent.programs import ProgramSet

log = logging.getLogger("ccplane.wire")

NUMBER: Final = 1
"""Of this datapath."""


@dataclass(slots=True)
class _Steered:
    """A flow, and its number on the wire."""

    flow: FlowControl
    number: int


class Session:
    """Flows of one plane that an agent steers.

    Attributes:
        name: The algorithm that the plane knows.
    """

    def __init__(self, link: Link, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Take a link on which nothing was said yet.

        Args:
            link: To the agent.
            name: Name of the algorithm.
            clock: Seconds, monotonic.
        """
        self.name = name
        self._link = link
        self._clock = clock
        self._watch = Watch(link, NUMBER, lambda: map(_create, self._by_number.values()), self._let_go)
        self._numbers = count(1)
        self._by_id: dict[int, _Steered] = {}
        self._by_number: dict[int, _Steered] = {}
        self._plane: Plane | None = None

    def algorithm(self) -> type[Algorithm]:
        """Return the algorithm that hands its flows to the agent."""
        session = self

        class Portus(Algorithm):
            """Steered by an agent that was made with portus."""

            def on_create(self, info: Any) -> None:
                """Tell the agent."""
                session.created(cast(FlowControl, self.flow))

            def on_report(self, report: Any) -> None:
                """Hand a report on."""
                session.reported(cast(FlowControl, self.flow), report)

            def on_close(self, stats: Any) -> None:
                """Tell the agent."""
                session.closed(cast(FlowControl, self.flow))

        Portus.name = self.name
        return Portus

    def attach(self, plane: Plane) -> None:
        """Begin: flows that the plane has are told to the agent as soon as there is one."""
        self._plane = plane
        self._link.start(lambda datagram: plane.call(lambda: self.heard(datagram)))
        plane.each_turn.append(self.look)

    # What the plane tells

    def created(self, flow: FlowControl) -> None:
        """Tell the agent of a flow."""
        steered = _Steered(flow, next(self._numbers))
        self._by_id[flow.info.flow_id] = self._by_number[steered.number] = steered
        self._link.send(_create(steered).octets())

    def reported(self, flow: FlowControl, report: Any) -> None:
        """Hand a report on."""
        number = self._by_id[flow.info.flow_id].number
        self._link.send(Measure(number, int(report.program), list(report.as_dict().values())).octets())

    def closed(self, flow: FlowControl) -> None:
        """Tell the agent that a flow closed."""
        steered = self._by_id.pop(flow.info.flow_id, None)
        if steered is not None:
            del self._by_number[steered.number]
            self._link.send(Measure(steered.number, 0).octets())

    def look(self) -> None:
        """See whether the agent is there still, or again; called after each batch."""
        self._link.flush()
        self._watch.look(self._clock())

    def _let_go(self) -> None:
        """Give all flows to the fallback law."""
        assert self._plane is not None
        for flow_id, steered in self._by_id.items():
            steered.flow.retire()
            self._plane.datapath.update(flow_id, program=LAW_PROGRAM)

    # What the agent tells

    def heard(self, datagram: bytes) -> None:
        """Do what the agent says."""
        if not self._link.connected:
            self._watch.find(self._clock())  # portus 0.5 sends programs before it is told anything
        if not self._link.connected:
            return
        try:
            for message in wire.messages(datagram):
                self._do(message)
        except CcpError as error:
            log.error("what the agent sent is not done: %s", error)

    def _do(self, message: wire.Message) -> None:
        if isinstance(message, Install):
            self._install(message)
        elif isinstance(message, ChangeProgram | Update):
            steered = self._by_number.get(message.flow)
            if steered is None:
                return  # it closed, and the agent will hear of it
            try:
                values = wire.values(message.fields)
                if isinstance(message, ChangeProgram):
                    steered.flow.set_program(str(message.program), **values)
                else:
                    steered.flow.set(**values)
            except FlowGone:
                pass  # its close event follows
            except CcpError as error:
                log.error("flow %s goes on as it is: %s", describe(steered.flow.info), error)
        else:
            log.warning("agents send no %s; ignored", type(message).__name__)

    def _install(self, message: Install) -> None:
        name = str(message.program)
        program = native.Program.from_bytecode(
            message.n_events, message.n_instrs, message.code, name, "<the agent>", with_rtt=True
        )
        self._programs.replace(name, program)

    @property
    def _programs(self) -> ProgramSet:
        assert self._plane is not None
        return self._plane.hosts[self.name].programs


def _create(steered: _Steered) -> Create:
    info = DatapathInfo(steered.flow.info)
    asked = steered.flow.info.cc_name.partition(".")[2]
    ends = (info.src_ip, info.src_port, info.dst_ip, info.dst_port)
    return Create(steered.number, info.init_cwnd, info.mss, *ends, asked)
