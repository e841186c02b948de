"""Access to a running agent loop, to observe and change it: loader, streams, control socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.audit import Audit
from ccplane.agent.control import Control, ControlOptions
from ccplane.agent.files import Files
from ccplane.agent.inbox import Inbox
from ccplane.agent.reload import Loader
from ccplane.agent.requests import Requests
from ccplane.agent.streams import Streams
from ccplane.agent.telemetry_dispatch import TelemetryDispatch
from ccplane.datapath.protocol import Compile, Program


@dataclass(frozen=True, slots=True)
class Management:
    """Access to an agent loop.

    Attributes:
        loader: Loads algorithms.
        streams: Messages to be sent.
        requests: Executes requests.
        control: The control socket, if there is one.
    """

    loader: Loader
    streams: Streams
    requests: Requests
    control: Control | None = None

    def start(self) -> None:
        """Start the threads.

        Raises:
            LoadError: `control.cannot_listen`.
            UsageError: `control.bad_keys`.
        """
        self.loader.start()
        if self.control is not None:
            self.control.start()

    def receive(self, agent_loop: AgentLoop, inbox: Inbox, host: str) -> TelemetryDispatch:
        """Start delivering the telemetry of an inbox to the flows of an agent loop."""
        dispatch = TelemetryDispatch(agent_loop, inbox, host)
        dispatch.on_sample = self.streams.sample
        self.requests.dispatch, self.requests.inbox = dispatch, inbox
        return dispatch


@contextmanager
def managed(
    agent_loop: AgentLoop,
    compile_program: Compile[Program],
    control: ControlOptions | None,
    *,
    start: bool = True,
    files: Files | None = None,
    audit: Audit | None = None,
) -> Iterator[Management]:
    """Provide access to an agent loop during a block.

    Args:
        agent_loop: The agent loop.
        compile_program: The compiler.
        control: Where to listen; None for no control socket.
        start: Whether to start the threads now. They inherit the capabilities of this thread.
        files: Reads files of algorithms; None reads them with the process's permissions.
        audit: Records changes; None for no audit log.

    Raises:
        LoadError: `control.cannot_listen`.
        UsageError: `control.no_keys` or `control.bad_keys`.
    """
    loader, streams = Loader(agent_loop, compile_program, files=files), Streams(agent_loop)
    requests = Requests(agent_loop, loader, streams)
    listening = None if control is None else Control(control, requests, streams, audit)
    ways = Management(loader, streams, requests, listening)
    try:
        if start:
            ways.start()
        yield ways
    finally:
        loader.close()
        if listening is not None:
            listening.close()
