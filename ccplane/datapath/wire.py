"""Portus' wire protocol: its messages, and a way to an agent. Both are those of `native/ccp-quic`.

Messages hold registers as tuples like `Field`. `native/ccp-lang/tests/messages.rs` has the bytes of messages
from portus itself.
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
"""The kind of registers that every program has."""

CWND: Final = 4
RATE: Final = 5
"""Numbers of the implicit registers that agents may write: window [bytes] and rate [bytes/s]."""

CAME: Final = "the agent is there"
"""What is logged when it is."""


def no_socket(path: Path, why: str, fix: str) -> UsageError:
    """Return the error of a socket that cannot be made."""
    return UsageError(
        "wire.no_socket", f"there can be no socket {path}", where=f"--bind {path}", why=why, fix=fix
    )


def link(
    agent: Path,
    own: Path | None = None,
    *,
    gone: Callable[[], None] | None = None,
    datagram: Callable[[bytes], None] | None = None,
) -> WireLink:
    """Look for an agent; what happens is logged. Callbacks come on any thread and must not use the link.

    Args:
        agent: Where the agent's socket is, or will be.
        own: Where the datapath's own is [default: in the same directory].
        gone: Called when the agent is gone.
        datagram: Called with what the agent sends [default: flows of the link do it].

    Raises:
        UsageError: `wire.no_socket`.
    """

    def heard(kind: str, what: int | str | bytes) -> bool:
        if kind == "came":
            log.info("%s: it gets %s flows", CAME, what)
        elif kind == "gone":
            log.warning("the agent at %s is gone: %s", agent, what)
            if gone is not None:
                gone()
        elif kind == "refused":
            log.error("what the agent sent is not done: %s", what)
        elif datagram is not None and isinstance(what, bytes):
            datagram(what)
            return True
        return False

    try:
        return WireLink(agent, heard, own)
    except OSError as error:
        fix = "name a file in a directory that this user may write to"
        raise no_socket(own or agent, error.strerror or str(error), fix) from None
