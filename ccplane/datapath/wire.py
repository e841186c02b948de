"""The wire protocol of portus: messages, and the connection to an agent; implemented in `native/ccp-quic`.

Messages contain registers as tuples like `Field`. `native/ccp-lang/tests/messages.rs` compares them with
messages from portus.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ccplane.base.errors import UsageError
from ccplane.base.native import Message, WireLink, from_bytecode, portable, to_bytecode
from ccplane.base.native import wire_messages as messages
from ccplane.base.native import wire_values as values
from ccplane.datapath.kinds.interop import SOCKET

__all__ = ["SOCKET", "Message", "from_bytecode", "messages", "portable", "to_bytecode", "values"]

log = logging.getLogger("ccplane.wire")


class Field(NamedTuple):
    """A register and its new value, 64 bits."""

    kind: int
    index: int  # type: ignore[assignment]  # hides tuple.index
    value: int


Create = Message.Create
Measure = Message.Measure
Install = Message.Install
Update = Message.Update
ChangeProgram = Message.ChangeProgram
Ready = Message.Ready

MAX_MESSAGE_BYTES: Final = 0xFFFF

IMPLICIT: Final = 2
"""Register kind of the implicit registers, which every program has."""

CWND: Final = 4
RATE: Final = 5
"""Implicit registers that agents can write: window [bytes] and rate [bytes/s]."""


def no_socket(path: Path, why: str, fix: str) -> UsageError:
    """Return the error of a socket that cannot be created."""
    return UsageError(
        "wire.no_socket", f"cannot create the socket {path}", where=f"--bind {path}", why=why, fix=fix
    )


def link(
    agent: Path,
    own: Path | None = None,
    *,
    gone: Callable[[], None] | None = None,
    datagram: Callable[[bytes], None] | None = None,
) -> WireLink:
    """Look for an agent, and log events. Callbacks may run on any thread, and must not use the link.

    Args:
        agent: The agent's socket; it need not exist yet.
        own: The datapath's socket [default: in the same directory].
        gone: Called when the agent disconnects.
        datagram: Called with datagrams of the agent [default: the link passes them to its flows].

    Raises:
        UsageError: `wire.no_socket`.
    """

    def received(kind: str, what: int | str | bytes) -> bool:
        if kind == "came":
            log.info("connected to the agent: announced %s flows", what)
        elif kind == "gone":
            log.warning("lost the agent at %s: %s", agent, what)
            if gone is not None:
                gone()
        elif kind == "refused":
            log.error("refused a message of the agent: %s", what)
        elif datagram is not None and isinstance(what, bytes):
            datagram(what)
            return True
        return False

    try:
        return WireLink(agent, received, own)
    except OSError as error:
        fix = "give a path in a directory that this user owns, and that no other user can write"
        raise no_socket(own or agent, error.strerror or str(error), fix) from None
