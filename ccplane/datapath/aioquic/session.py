"""What is between an agent and the connections of a process: programs by number, flows by number, messages.

There is no clock: connections say what time it is, and nothing is done while none of them sends or hears.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from ccplane.base import native
from ccplane.base.errors import CcpError
from ccplane.datapath import wire
from ccplane.datapath.link import Link, Watch

if TYPE_CHECKING:
    from ccplane.base._native import Program
    from ccplane.datapath.aioquic.controller import CcpCongestionControl

log = logging.getLogger("ccplane.wire")

AGENT: Final = Path("/tmp/ccp/portus")
"""Where agents have their socket: those made with portus, and `ccp run --datapath quic`."""

PATIENCE_S: Final = 2.0
"""How long an agent may leave all messages unread [s]; then it counts as gone until it reads again."""

_sessions = count()


class Session:
    """Connections that an agent steers. All of it is one thread's, but for `closed`.

    Attributes:
        flows: Connections by number, which congestion control has each.
    """

    def __init__(self, agent: Path = AGENT) -> None:
        """Begin to look for the agent whose socket is, or will be, at `agent`.

        Args:
            agent: Name of the agent's socket; ours is beside it.

        Raises:
            UsageError: `wire.no_socket`.
        """
        self.flows: WeakValueDictionary[int, CcpCongestionControl] = WeakValueDictionary()
        self._programs: dict[int, Program] = {}
        self._numbers = count(1)
        self._heard: deque[bytes] = deque()
        self._closed: deque[int] = deque()
        self._read_s = 0.0
        self._link = Link(agent, agent.with_name(f"aioquic-{os.getpid()}-{next(_sessions)}"))
        self._link.start(self._heard.append)
        self._watch = Watch(self._link, os.getpid(), self._announced, self._let_go)
        atexit.register(self.close)

    def close(self) -> None:
        """Leave the agent: connections go on with their law."""
        atexit.unregister(self.close)
        self._let_go()
        self._link.lose(None)
        self._link.close()

    def add(self, flow: CcpCongestionControl) -> int:
        """Take a flow that begins, and return the number that it has from now on."""
        flow.number = next(self._numbers)
        self.flows[flow.number] = flow
        self._link.send(flow.create().octets())
        return flow.number

    def closed(self, number: int) -> None:
        """Note that a flow closed, on whatever thread; `flush` tells the agent."""
        self._closed.append(number)

    def flush(self) -> None:
        """Tell the agent of flows that closed."""
        while self._closed:
            number = self._closed.popleft()
            self.flows.pop(number, None)
            self._link.send(wire.Measure(number, 0).octets())

    def report(self, number: int, program: int, fields: Sequence[int]) -> None:
        """Send a report; it waits if the agent has no room."""
        self._link.send(wire.Measure(number, program, fields).octets())

    def turn(self, now_s: float) -> None:
        """Do what the agent said, and see whether it is there.

        Args:
            now_s: Time [s], monotonic.
        """
        self.flush()
        if self._heard:
            self._link.flush()
        while self._heard:
            self._hear(self._heard.popleft())
        self._watch.look(now_s)
        if not self._link.is_full:
            self._read_s = now_s
        elif now_s - self._read_s > PATIENCE_S:
            self._link.lose("it reads nothing")

    def _announced(self) -> list[wire.Create]:
        return [flow.create() for flow in self.flows.values()]

    def _let_go(self) -> None:
        self._programs.clear()
        for flow in self.flows.values():
            flow.let_go()

    def _hear(self, datagram: bytes) -> None:
        try:
            for message in wire.messages(datagram):
                self._do(message)
        except CcpError as error:
            log.error("what the agent sent is not done: %s", error)

    def _do(self, message: wire.Message) -> None:
        if isinstance(message, wire.Install):
            name, head = str(message.program), (message.n_events, message.n_instrs)
            self._programs[message.program] = native.Program.from_bytecode(
                *head, message.code, name, "<the agent>"
            )
        elif isinstance(message, wire.ChangeProgram | wire.Update):
            with suppress(KeyError):  # it closed, and the agent will hear of it
                flow = self.flows[message.flow]
                values = wire.values(message.fields)
                if isinstance(message, wire.Update):
                    flow.set(values)
                elif message.program in self._programs:
                    flow.take(message.program, self._programs[message.program], values)
                else:
                    log.error("flow %d gets program %d, which is not installed", flow.number, message.program)
        else:
            log.warning("agents send no %s; ignored", type(message).__name__)
