"""Messages between agents made with portus and their datapaths: octets and back.

Every message begins with its type (16 bits), its length (16 bits, this header included) and the number of a
flow (32 bits), all little-endian; a datagram may hold several. An agent installs programs, gives them to
flows and updates registers; a datapath says that it is ready, and tells of flows and their reports. A
report without fields says that the flow closed. `native/ccp-lang/tests/messages.rs` has the same octets from
portus itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ccplane.base.errors import CcpError

MAX_NAME_BYTES: Final = 63
"""Of the algorithm that a flow asks for: 64 octets, the last is 0."""

MAX_MESSAGE_BYTES: Final = 0xFFFF

CONTROL: Final = frozenset({0, 8})
"""Kinds of registers that are control registers: those that stay, and the volatile ones."""

IMPLICIT: Final = 2
"""The kind of registers that every program has."""

CWND: Final = 4
RATE: Final = 5
"""Numbers of the implicit registers that agents may write: window [bytes] and rate [bytes/s]."""

_HEADER: Final = struct.Struct("<HHI")
_CREATE: Final = struct.Struct("<6I64s")
_COUNTS: Final = struct.Struct("<II")
_INSTALL: Final = struct.Struct("<III")
_NUMBER: Final = struct.Struct("<I")
_FIELD: Final = struct.Struct("<BIQ")
_CREATE_TYPE, _MEASURE_TYPE, _INSTALL_TYPE, _UPDATE_TYPE, _CHANGE_TYPE, _READY_TYPE = range(6)


@dataclass(frozen=True, slots=True)
class Field:
    """A register and its new value.

    Attributes:
        kind: Kind of the register.
        index: Its number.
        value: The value, 64 bits.
    """

    kind: int
    index: int
    value: int


@dataclass(frozen=True, slots=True)
class Create:
    """A flow came. Addresses and ports are numbers as the datapath has them.

    Attributes:
        flow: Its number.
        init_cwnd_bytes: Its first window [bytes].
        mss_bytes: Its maximum segment size [bytes].
        src_ip: Local IPv4 address.
        src_port: Local port.
        dst_ip: Peer's IPv4 address.
        dst_port: Peer's port.
        algorithm: What it asks for, at most `MAX_NAME_BYTES` octets; empty for the agent's default.
    """

    flow: int
    init_cwnd_bytes: int
    mss_bytes: int
    src_ip: int
    src_port: int
    dst_ip: int
    dst_port: int
    algorithm: str = ""

    def octets(self) -> bytes:
        """Return the message."""
        addresses = (self.src_ip, self.src_port, self.dst_ip, self.dst_port)
        name = self.algorithm.encode()[:MAX_NAME_BYTES]
        return _message(
            _CREATE_TYPE, self.flow, _CREATE.pack(self.init_cwnd_bytes, self.mss_bytes, *addresses, name)
        )


@dataclass(frozen=True, slots=True)
class Measure:
    """A report, or the end of a flow if it has no fields.

    Attributes:
        flow: Number of the flow.
        program: Number of the program that made it.
        fields: Its Report registers, 64 bits each, at most 255.
    """

    flow: int
    program: int
    fields: Sequence[int] = ()

    def octets(self) -> bytes:
        """Return the message."""
        n = len(self.fields)
        return _message(_MEASURE_TYPE, self.flow, struct.pack(f"<II{n}Q", self.program, n, *self.fields))


@dataclass(frozen=True, slots=True)
class Ready:
    """A datapath is there.

    Attributes:
        datapath: Its number.
    """

    datapath: int

    def octets(self) -> bytes:
        """Return the message."""
        return _message(_READY_TYPE, 0, _NUMBER.pack(self.datapath))


@dataclass(frozen=True, slots=True)
class Install:
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

    def octets(self) -> bytes:
        """Return the message.

        Raises:
            CcpError: `wire.message`, if it is too long to be sent.
        """
        body = _INSTALL.pack(self.program, self.n_events, self.n_instrs) + self.code
        return _message(_INSTALL_TYPE, 0, body)


@dataclass(frozen=True, slots=True)
class Update:
    """New values of registers of a flow.

    Attributes:
        flow: Its number.
        fields: The registers.
    """

    flow: int
    fields: Sequence[Field]

    def octets(self) -> bytes:
        """Return the message."""
        return _message(_UPDATE_TYPE, self.flow, _NUMBER.pack(len(self.fields)) + _fields(self.fields))


@dataclass(frozen=True, slots=True)
class ChangeProgram:
    """A flow gets another program.

    Attributes:
        flow: Number of the flow.
        program: Number of the program.
        fields: Registers that begin otherwise than the program says.
    """

    flow: int
    program: int
    fields: Sequence[Field] = ()

    def octets(self) -> bytes:
        """Return the message."""
        body = _COUNTS.pack(self.program, len(self.fields)) + _fields(self.fields)
        return _message(_CHANGE_TYPE, self.flow, body)


Message = Create | Measure | Ready | Install | Update | ChangeProgram


def _message(of_type: int, flow: int, body: bytes) -> bytes:
    length = _HEADER.size + len(body)
    if length > MAX_MESSAGE_BYTES:
        raise CcpError(
            "wire.message",
            f"a message of {length} octets cannot be sent",
            why=f"its length has 16 bits: {MAX_MESSAGE_BYTES} at most",
            fix="shorten the program, or split it into several",
        )
    return _HEADER.pack(of_type, length, flow) + body


def _fields(fields: Sequence[Field]) -> bytes:
    return b"".join(_FIELD.pack(field.kind, field.index, field.value) for field in fields)


def messages(datagram: bytes) -> Iterator[Message]:
    """Yield the messages of a datagram.

    Raises:
        CcpError: `wire.message`, at the first octets that are none; what came before is good.
    """
    rest = datagram
    while rest:
        if len(rest) < _HEADER.size:
            raise _malformed(f"{len(rest)} octets are no header")
        of_type, length, flow = _HEADER.unpack_from(rest)
        if not _HEADER.size <= length <= len(rest):
            raise _malformed(f"a message claims to have {length} octets, of {len(rest)} that came")
        body, rest = rest[_HEADER.size : length], rest[length:]
        try:
            yield _read(of_type, flow, body)
        except (struct.error, UnicodeDecodeError):
            raise _malformed(f"{length} octets are no message of type {of_type}") from None


def _read(of_type: int, flow: int, body: bytes) -> Message:
    if of_type == _CREATE_TYPE:
        cwnd, mss, src_ip, src_port, dst_ip, dst_port, padded = _CREATE.unpack(body)
        name, end, _ = padded.partition(b"\0")
        if not end:
            raise struct.error
        return Create(flow, cwnd, mss, src_ip, src_port, dst_ip, dst_port, name.decode())
    if of_type == _MEASURE_TYPE:
        program, n = _COUNTS.unpack_from(body)
        return Measure(flow, program, struct.unpack(f"<{n}Q", body[_COUNTS.size :]))
    if of_type == _READY_TYPE:
        return Ready(*_NUMBER.unpack(body))
    if of_type == _INSTALL_TYPE:
        program, n_events, n_instrs = _INSTALL.unpack_from(body)
        return Install(program, n_events, n_instrs, body[_INSTALL.size :])
    if of_type == _UPDATE_TYPE:
        (n,) = _NUMBER.unpack_from(body)
        return Update(flow, _read_fields(n, body[_NUMBER.size :]))
    if of_type == _CHANGE_TYPE:
        program, n = _COUNTS.unpack_from(body)
        return ChangeProgram(flow, program, _read_fields(n, body[_COUNTS.size :]))
    raise _malformed(f"there are no messages of type {of_type}")


def _read_fields(n: int, octets: bytes) -> list[Field]:
    if len(octets) != n * _FIELD.size:
        raise struct.error
    return [Field(*field) for field in _FIELD.iter_unpack(octets)]


def values(fields: Sequence[Field]) -> dict[str, int]:
    """Return new values by the names that registers of `Program.from_bytecode` have: c0 and so on.

    Window and rate are `cwnd_bytes` and `rate_bytes_per_s`; 0 leaves them as they are, as in libccp.

    Raises:
        CcpError: `wire.read_only`.
    """
    named: dict[str, int] = {}
    for field in fields:
        if field.kind in CONTROL:
            named[f"c{field.index}"] = field.value
        elif field.kind == IMPLICIT and field.index in (CWND, RATE):
            name = "cwnd_bytes" if field.index == CWND else "rate_bytes_per_s"
            if field.value:
                named[name] = field.value
        else:
            raise CcpError(
                "wire.read_only",
                f"a register of kind {field.kind}, number {field.index}, cannot be set",
                why="agents set control registers, window and rate",
                fix="declare a control register in the program",
            )
    return named


def _malformed(message: str) -> CcpError:
    return CcpError(
        "wire.message",
        message,
        why="it is not what portus sends, or of a version of it that ccplane does not know",
        fix="use an agent made with portus 0.9, whose octets this is held against",
    )
