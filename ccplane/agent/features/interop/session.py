"""Connects an agent built with portus to flows: maps programs and flows to numbers, and translates messages.

For ccplane's agent loop, a session is an algorithm. The session forwards flows and reports to the portus
agent, and executes the answers. Without a portus agent the flows run the fallback. The session runs on the
agent's thread.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ccp_algs import Algorithm
from ccplane.agent.flow import FlowControl, describe
from ccplane.base.errors import CcpError, FlowGone
from ccplane.base.loglimit import LogLimit
from ccplane.datapath import wire
from ccplane.datapath.protocol import FALLBACK_PROGRAM
from ccplane.datapath.wire import ChangeProgram, Install, Update

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop
    from ccplane.agent.programs import ProgramSet
    from ccplane.base._native import WireLink

log = logging.getLogger("ccplane.wire")


class Session:
    """The flows that a portus agent controls.

    Attributes:
        name: Name of the algorithm in ccplane's agent.
    """

    def __init__(self, agent: Path, own: Path, name: str) -> None:
        """Prepare; nothing is sent before `attach`."""
        self.name = name
        self._agent, self._own = agent, own
        self._link: WireLink | None = None
        self._numbers: dict[int, int] = {}
        self._flows: dict[int, FlowControl] = {}
        self._adopted: dict[int, FlowControl] = {}
        self._loop: AgentLoop | None = None
        self._log_limit = LogLimit()

    def algorithm(self) -> type[Algorithm]:
        """Return the algorithm that forwards its flows to the portus agent."""
        session = self

        class Portus(Algorithm):
            """Controlled by an agent built with portus."""

            def on_create(self, info: Any) -> None:
                """Announce the flow."""
                session.created(cast(FlowControl, self.flow))

            def on_report(self, report: Any) -> None:
                """Forward a report."""
                session.reported(cast(FlowControl, self.flow), report)

            def on_close(self, stats: Any) -> None:
                """Announce the close."""
                session.closed(cast(FlowControl, self.flow))

        Portus.name = self.name
        return Portus

    def attach(self, agent_loop: AgentLoop) -> None:
        """Start looking for the portus agent, and announce existing flows to it.

        Raises:
            UsageError: `wire.no_socket`.
        """
        self._loop = agent_loop
        self._link = wire.link(
            self._agent,
            self._own,
            gone=lambda: agent_loop.call(self.let_go),
            datagram=lambda datagram: agent_loop.call(lambda: self.received(datagram)),
        )
        for flow in self._adopted.values():
            self.created(flow)
        self._adopted.clear()

    def close(self) -> None:
        """Disconnect."""
        if self._link is not None:
            self._link.close()

    # To the portus agent

    def created(self, flow: FlowControl) -> None:
        """Announce a new flow."""
        if self._link is None:
            self._adopted[flow.info.flow_id] = flow
            return
        info = flow.info
        ends = ((info.src_addr, info.src_port), (info.dst_addr, info.dst_port))
        asked = info.cc_name.partition(".")[2]
        number = self._link.announce(ends, asked, info.init_cwnd_bytes, info.mss_bytes)
        self._numbers[info.flow_id], self._flows[number] = number, flow

    def reported(self, flow: FlowControl, report: Any) -> None:
        """Forward a report."""
        assert self._link is not None
        values = list(report.as_dict().values())
        self._link.measured(self._numbers[flow.info.flow_id], int(report.program), values)

    def closed(self, flow: FlowControl) -> None:
        """Announce that a flow closed."""
        self._adopted.pop(flow.info.flow_id, None)
        number = self._numbers.pop(flow.info.flow_id, None)
        if number is not None and self._link is not None:
            del self._flows[number]
            self._link.remove(number)

    def let_go(self) -> None:
        """Move all flows to the fallback."""
        assert self._loop is not None
        for flow_id, number in self._numbers.items():
            self._flows[number].retire()
            self._loop.datapath.update(flow_id, program=FALLBACK_PROGRAM)

    # From the portus agent

    def received(self, datagram: bytes) -> None:
        """Execute the messages of a datagram."""
        if self._link is None or not self._link.connected:
            return
        try:
            for message in wire.messages(datagram):
                self._do(message)
        except CcpError as error:
            if admitted := self._log_limit.admit(("message", error.slug)):
                log.error("refused a message of the portus agent: %s%s", error, admitted)

    def _do(self, message: wire.Message) -> None:
        if isinstance(message, Install):
            self._install(message)
        elif isinstance(message, ChangeProgram | Update):
            flow = self._flows.get(message.flow)
            if flow is None:
                return  # it closed; the agent will receive the close
            try:
                values = wire.values(message.fields)
                if isinstance(message, ChangeProgram):
                    flow.set_program(str(message.program), **values)
                else:
                    flow.set(**values)
            except FlowGone:
                pass  # its close event follows
            except CcpError as error:
                if admitted := self._log_limit.admit(("update", error.slug)):
                    log.error("refused an update of flow %s: %s%s", describe(flow.info), error, admitted)
        elif admitted := self._log_limit.admit(type(message).__name__):
            kind = type(message).__name__
            log.warning("ignored a %s message, which agents must not send%s", kind, admitted)

    def _install(self, message: Install) -> None:
        name = str(message.program)
        program = wire.from_bytecode(
            message.n_events, message.n_instrs, message.code, name, "<the agent>", with_rtt=True
        )
        self._programs.replace(name, program)

    @property
    def _programs(self) -> ProgramSet:
        assert self._loop is not None
        return self._loop.hosts[self.name].programs
