"""Messages between agents made with portus and their datapaths: octets and back.

A datagram may hold several. An agent installs programs, gives them to flows and updates registers. A datapath
says that it is ready, and announces flows and their reports; a report without fields says that a flow closed.
The format itself is in `native/ccp-lang/src/wire.rs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ccplane.base import _native

MAX_MESSAGE_BYTES: Final = _native.WIRE_MAX_BYTES

IMPLICIT, CWND, RATE = _native.WIRE_IMPLICIT
"""The kind of registers that every program has; the numbers of those of them that agents may write: window
[bytes] and rate [bytes/s]."""


class Field(NamedTuple):
    """A register and its new value.

    Attributes:
        kind: Kind of the register.
        index: Its number.
        value: The value, 64 bits.
    """

    kind: int
    index: int  # type: ignore[assignment]  # hides tuple.index
    value: int


class _Message:
    __slots__: tuple[str, ...] = ()

    def octets(self) -> bytes:
        """Return the message.

        Raises:
            CcpError: `wire.message`, if it is too long to be sent.
        """
        said = tuple(getattr(self, name) for name in self.__slots__)
        return _native.wire_write(_TYPES.index(type(self)), said)


@dataclass(frozen=True, slots=True)
class Create(_Message):
    """A flow came. Addresses and ports are numbers as the datapath has them.

    Attributes:
        flow: Its number.
        init_cwnd_bytes: Its first window [bytes].
        mss_bytes: Its maximum segment size [bytes].
        src_ip: Local IPv4 address.
        src_port: Local port.
        dst_ip: Peer's IPv4 address.
        dst_port: Peer's port.
        algorithm: What it asks for, at most 63 octets; empty for the agent's default.
    """

    flow: int
    init_cwnd_bytes: int
    mss_bytes: int
    src_ip: int
    src_port: int
    dst_ip: int
    dst_port: int
    algorithm: str = ""


@dataclass(frozen=True, slots=True)
class Measure(_Message):
    """A report, or the end of a flow if it has no fields.

    Attributes:
        flow: Number of the flow.
        program: Number of the program that made it.
        fields: Its Report registers, 64 bits each.
    """

    flow: int
    program: int
    fields: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Install(_Message):
    """A program for all flows; see `native/ccp-lang/src/bytecode.rs` for its octets.

    Attributes:
        program: Its number.
        n_events: How many events it has.
        n_instrs: How many instructions.
        code: The octets of both.
    """

    program: int
    n_events: int
    n_instrs: int
    code: bytes


@dataclass(frozen=True, slots=True)
class Update(_Message):
    """New values of registers of a flow.

    Attributes:
        flow: Its number.
        fields: The registers.
    """

    flow: int
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class ChangeProgram(_Message):
    """A flow gets another program.

    Attributes:
        flow: Number of the flow.
        program: Number of the program.
        fields: Registers that begin otherwise than the program says.
    """

    flow: int
    program: int
    fields: Sequence[Field] = ()


@dataclass(frozen=True, slots=True)
class Ready(_Message):
    """A datapath is there.

    Attributes:
        datapath: Its number.
    """

    datapath: int


Message = Create | Measure | Install | Update | ChangeProgram | Ready
_TYPES: Final = (Create, Measure, Install, Update, ChangeProgram, Ready)
"""In the order of their types."""


def messages(datagram: bytes) -> Iterator[Message]:
    """Yield the messages of a datagram.

    Raises:
        CcpError: `wire.message`, at the first octets that are none; what came before is good.
    """
    left = len(datagram)
    while left:
        of_type, said, left = _native.wire_read(datagram[-left:])
        kind = _TYPES[of_type]
        if kind in (Update, ChangeProgram):
            said = (*said[:-1], [Field(*one) for one in said[-1]])
        yield kind(*said)


def values(fields: Sequence[Field]) -> dict[str, int]:
    """Return new values by the names that registers of `Program.from_bytecode` have: c0 and so on.

    Window and rate are `cwnd_bytes` and `rate_bytes_per_s`; 0 leaves them as they are, as in libccp.

    Raises:
        CcpError: `wire.read_only`.
    """
    return _native.wire_values(fields)
