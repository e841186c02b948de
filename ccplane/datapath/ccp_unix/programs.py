"""Programs of an agent in the tables of its datapaths."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ccplane.base.errors import ProgramError
from ccplane.datapath.wire import Install, portable

if TYPE_CHECKING:
    from ccplane.base import _native

LAW_UID: Final = 1
"""Number of the law's program on the wire. The first to be installed: libccp then forgets all others."""


@dataclass(frozen=True)
class Limits:
    """What a kind of datapath has room for.

    Attributes:
        libccp: It is built on libccp 1.2; else it takes what ccplane takes, see `wire.from_bytecode`.
        programs: Programs at a time, the law's included; nobody tells when there are too many.
    """

    libccp: bool
    programs: int


LIBCCP: Final = Limits(libccp=True, programs=9)
"""libccp as others use it has a table of 10 programs, of which 1.2 leaves the last one empty."""

CCPLANE: Final = Limits(libccp=False, programs=64)


@dataclass(frozen=True, eq=False)
class Installed:
    """A program.

    Attributes:
        handle: Its handle; 0 for the law.
        uid: Its number on the wire, used for no other.
        name: Its name.
        fields: Its Report registers.
        places: The same, with their index.
        sent: What is sent of it.
        message: The message that installs it.
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
        """Make what is sent of a program.

        Raises:
            LangError: `lang.limit`, with what such a datapath does not have.
        """
        sent = portable(program, limits.libccp)
        uid = LAW_UID + handle
        fields = program.report_fields
        kinds = zip(sent.control_kinds, range(len(sent.control_kinds)), strict=True)
        return cls(
            handle=handle,
            uid=uid,
            name=program.name,
            fields=fields,
            places={name: place for place, name in enumerate(fields)},
            sent=sent,
            message=Install(uid, sent.n_events, sent.n_instrs, sent.octets).octets(),
            controls=dict(zip(program.control_registers, kinds, strict=True)),
        )


class Table:
    """The programs that datapaths have, in the order in which they got them.

    Nothing takes a program out of libccp's table but another first one, after which all are sent again, each
    to the place where it was: flows know theirs by its place.
    """

    def __init__(self, law: _native.Program, limits: Limits) -> None:
        self.limits = limits
        self._handles = count(1)
        self.law = Installed.of(law, 0, limits)
        self._by_handle: dict[int, Installed] = {0: self.law}
        self._places: list[Installed] = [self.law]

    def install(self, program: Any) -> tuple[Installed, list[bytes]]:
        """Add a program; return it, and the messages that tell datapaths.

        Raises:
            LangError: `lang.limit`.
            ProgramError: `program.no_room`.
        """
        free = [i for i, one in enumerate(self._places) if one.handle not in self._by_handle]
        if len(self._places) >= self.limits.programs and not free:
            raise ProgramError(
                "program.no_room",
                f"there is no room for the program `{program.name}`",
                why=f"such a datapath has room for {self.limits.programs - 1} programs at a time",
                fix="run fewer algorithms, or programs, beside each other",
            )
        installed = Installed.of(program, next(self._handles), self.limits)
        self._by_handle[installed.handle] = installed
        if len(self._places) < self.limits.programs:
            self._places.append(installed)
            return installed, [installed.message]
        self._places[free[0]] = installed
        return installed, self.messages()

    def uninstall(self, handle: int) -> None:
        """Forget a program; it stays where it is until its place is wanted."""
        self._by_handle.pop(handle, None)

    def messages(self) -> list[bytes]:
        """Return the messages after which a datapath has these programs and no others."""
        return [one.message for one in self._places]

    def get(self, handle: int) -> Installed | None:
        """Return a program by handle; None if it was uninstalled."""
        return self._by_handle.get(handle)

    def of_uid(self, uid: int) -> Installed | None:
        """Return a program by its number on the wire."""
        return self._by_handle.get(uid - LAW_UID)
