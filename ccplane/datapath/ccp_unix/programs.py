"""An agent's programs in the tables of its datapaths."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ccplane.base.errors import ProgramError
from ccplane.datapath.wire import Install, portable

if TYPE_CHECKING:
    from ccplane.base import _native

FALLBACK_UID: Final = 1
"""Number of the fallback program on the wire.

The fallback program is installed first; libccp then drops all other programs.
"""


@dataclass(frozen=True)
class Limits:
    """Limits of a kind of datapath.

    Attributes:
        libccp: Whether it is built on libccp 1.2; else ccplane's limits apply, see `wire.from_bytecode`.
        programs: Maximum programs, including the fallback; datapaths do not report an overflow.
    """

    libccp: bool
    programs: int


LIBCCP: Final = Limits(libccp=True, programs=9)
"""libccp has a table of 10 programs, but version 1.2 does not use the last entry."""

CCPLANE: Final = Limits(libccp=False, programs=64)


@dataclass(frozen=True, eq=False)
class Installed:
    """A program.

    Attributes:
        handle: Its handle; 0 for the fallback.
        uid: Its unique number on the wire.
        name: Its name.
        fields: Its Report registers.
        places: Index of each Report register.
        sent: Its encoding.
        message: Its `Install` message.
        controls: Kind and index on the wire of its control registers, by name.
    """

    handle: int
    uid: int
    name: str
    fields: list[str]
    places: dict[str, int]
    sent: _native.Portable = field(repr=False)
    message: bytes = field(repr=False)
    controls: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, program: _native.Program, handle: int, limits: Limits) -> Installed:
        """Encode a program.

        Raises:
            LangError: `lang.limit`, if the program exceeds the datapath's limits.
        """
        sent = portable(program, limits.libccp)
        uid = FALLBACK_UID + handle
        fields = program.report_fields
        kinds = zip(sent.control_kinds, range(len(sent.control_kinds)), strict=True)
        return cls(
            handle=handle,
            uid=uid,
            name=program.name,
            fields=fields,
            places={name: place for place, name in enumerate(fields)},
            sent=sent,
            message=Install(uid, sent.n_events, sent.n_instrs, sent.raw).to_bytes(),
            controls=dict(zip(program.control_registers, kinds, strict=True)),
        )


class Table:
    """The programs in the datapaths' tables, in order of installation.

    libccp's table can only be cleared, by installing the first program again. Then all programs are sent
    once more in the same order, because flows refer to programs by their index.
    """

    def __init__(self, fallback: _native.Program, limits: Limits) -> None:
        self.limits = limits
        self._handles = count(1)
        self.fallback = Installed.of(fallback, 0, limits)
        self._by_handle: dict[int, Installed] = {0: self.fallback}
        self._places: list[Installed] = [self.fallback]

    def install(self, program: Any) -> tuple[Installed, list[bytes]]:
        """Add a program; return it, and the messages for the datapaths.

        Raises:
            LangError: `lang.limit`.
            ProgramError: `program.no_room`.
        """
        free = [i for i, one in enumerate(self._places) if one.handle not in self._by_handle]
        if len(self._places) >= self.limits.programs and not free:
            raise ProgramError(
                "program.no_room",
                f"cannot install the program `{program.name}`: the datapath's table is full",
                why=f"the datapath can have {self.limits.programs - 1} programs at a time",
                fix="run fewer algorithms, or algorithms with fewer programs",
            )
        installed = Installed.of(program, next(self._handles), self.limits)
        self._by_handle[installed.handle] = installed
        if len(self._places) < self.limits.programs:
            self._places.append(installed)
            return installed, [installed.message]
        self._places[free[0]] = installed
        return installed, self.messages()

    def uninstall(self, handle: int) -> None:
        """Release a program; its entry is reused later."""
        self._by_handle.pop(handle, None)

    def messages(self) -> list[bytes]:
        """Return the messages that give a datapath exactly these programs."""
        return [one.message for one in self._places]

    def get(self, handle: int) -> Installed | None:
        """Return a program by handle; None if it was uninstalled."""
        return self._by_handle.get(handle)

    def of_uid(self, uid: int) -> Installed | None:
        """Return a program by its number on the wire."""
        return self._by_handle.get(uid - FALLBACK_UID)
