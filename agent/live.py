"""Everything that lets others look at and change a running plane: loader, streams, control socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent.control import Control, ControlOptions
from agent.hearing import Hearing
from agent.inbox import Inbox
from agent.plane import Plane
from agent.reload import Loader
from agent.requests import Requests
from agent.streams import Streams
from datapath.protocol import Compile, Program


@dataclass(frozen=True, slots=True)
class Live:
    """What serves a plane.

    Attributes:
        loader: Loads algorithms.
        streams: Holds what is to be sent.
        requests: Does what is asked for.
    """

    loader: Loader
    streams: Streams
    requests: Requests

    def hear(self, plane: Plane, inbox: Inbox, host: str) -> Hearing:
        """Deliver the telemetry of an inbox from now on.

        Args:
            plane: Whose flows hear it.
            inbox: Where it comes in.
            host: Name of this host, for samples that name one.
        """
        hearing = Hearing(plane, inbox, host)
        hearing.on_sample = self.streams.sample
        self.requests.hearing, self.requests.inbox = hearing, inbox
        return hearing


@contextmanager
def live(plane: Plane, compile_program: Compile[Program], control: ControlOptions | None) -> Iterator[Live]:
    """Let a plane be looked at and changed for the length of a block.

    Args:
        plane: The plane.
        compile_program: The compiler.
        control: Where to listen; None for nowhere.

    Raises:
        LoadError: `control.cannot_listen`.
        UsageError: `control.no_keys` or `control.bad_keys`.
    """
    loader, streams = Loader(plane, compile_program), Streams(plane)
    requests = Requests(plane, loader, streams)
    listening = None if control is None else Control(control, requests, streams)
    loader.start()
    try:
        if listening is not None:
            listening.start()
        yield Live(loader, streams, requests)
    finally:
        loader.close()
        if listening is not None:
            listening.close()
