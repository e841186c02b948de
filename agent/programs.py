"""Installed fold programs of one algorithm, shared by its flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ccp_base.errors import LoadError, ProgramError
from ccp_base.names import close_names
from datapath.protocol import Datapath, Program

OBJECT_SUFFIX: Final = ".bpf.o"
"""Of the object file of an extension; what stands before is the extension's name."""


class Installed:
    """An installed program.

    Attributes:
        name: Its name within the algorithm.
        program: The compiled program.
        handle: Its handle in the datapath.
        registers: Names of its control registers.
        users: How many flows run it.
        retired: Whether another program took its name; it goes when the last flow leaves it.
    """

    __slots__ = ("handle", "name", "program", "registers", "retired", "users")

    def __init__(self, name: str, program: Program, handle: int) -> None:
        """Take a program that has just been installed."""
        self.name = name
        self.program = program
        self.handle = handle
        self.registers = frozenset(program.control_registers)
        self.users = 0
        self.retired = False


class ProgramSet:
    """The installed programs of one running algorithm.

    Attributes:
        initial: The program that a flow gets if `on_create` chooses none; None leaves it to the fallback law.
    """

    def __init__(
        self,
        algorithm: str,
        datapath: Datapath,
        programs: Mapping[str, Program],
        initial: str | None,
        before: ProgramSet | None = None,
        *,
        extensions: Sequence[str | Path] = (),
    ) -> None:
        """Install all programs, or none if one of them is refused.

        Args:
            algorithm: Name of the algorithm, for messages.
            datapath: Where to install them.
            programs: Compiled programs by name.
            initial: Name of the first program of a flow, None for none.
            before: Programs of the version before: those that are unchanged stay installed and are shared,
                so that flows keep their registers.
            extensions: Extensions of the datapath that the algorithm uses.

        Raises:
            VerifierError: If the kernel refuses a program.
            LoadError: `load.extension` or `load.no_extension`, if an extension is not to be had here.
        """
        self._algorithm = algorithm
        self._datapath = datapath
        self._by_name: dict[str, Installed] = {}
        self._shared: set[Installed] = set()
        for extension in extensions:
            datapath.extend(*extension_of(extension))
        try:
            for name, program in programs.items():
                same = None if before is None else before.get(name)
                if same is not None and same.program.uid == program.uid:
                    self._shared.add(same)
                else:
                    same = Installed(name, program, datapath.install(program))
                self._by_name[name] = same
        except BaseException:
            self.abandon()
            raise
        self._initial = initial

    @property
    def initial(self) -> Installed | None:
        """The program that a flow gets if `on_create` chooses none."""
        return None if self._initial is None else self._by_name[self._initial]

    def named(self, name: str) -> Installed:
        """Return the program of this name.

        Raises:
            ProgramError: `program.unknown`, if there is none.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise ProgramError(
                "program.unknown",
                f"algorithm `{self._algorithm}` has no fold program `{name}`",
                fix=close_names(name, self._by_name, "program"),
            ) from None

    def get(self, name: str) -> Installed | None:
        """Return the program of this name, None if there is none."""
        return self._by_name.get(name)

    def shares(self, name: str) -> bool:
        """Return whether a program is that of the version before, unchanged."""
        return self._by_name[name] in self._shared

    def all(self) -> list[Installed]:
        """Return the programs that new flows may get."""
        return list(self._by_name.values())

    def replace(self, name: str, program: Program) -> tuple[Installed | None, Installed]:
        """Install another program under this name; flows move one by one, see `FlowControl.move`.

        Args:
            name: Program of the algorithm, or a new name.
            program: The compiled successor.

        Returns:
            The program before, None if the name is new, and the successor.

        Raises:
            VerifierError: If the kernel refuses it; nothing has changed then.
        """
        installed = Installed(name, program, self._datapath.install(program))
        before = self._by_name.get(name)
        self._by_name[name] = installed
        if before is not None:
            before.retired = True
            self._collect(before)
        return before, installed

    def moved(self, before: Installed | None, after: Installed | None) -> None:
        """Count a flow that went from one program to another."""
        if after is not None:
            after.users += 1
        if before is not None:
            before.users -= 1
            self._collect(before)

    def abandon(self) -> None:
        """Remove what the version before does not have, because this one is not taken over."""
        for installed in self._by_name.values():
            if installed not in self._shared:
                self._datapath.uninstall(installed.handle)
        self._by_name.clear()

    def supersede(self, before: ProgramSet) -> None:
        """Retire what only the version before has; flows that still run it keep it until they leave."""
        self._shared.clear()
        own = set(self._by_name.values())
        for installed in before.all():
            if installed not in own:
                installed.retired = True
                self._collect(installed)

    def uninstall(self) -> None:
        """Remove all programs from the datapath."""
        for installed in self._by_name.values():
            self._datapath.uninstall(installed.handle)
        self._by_name.clear()

    def _collect(self, installed: Installed) -> None:
        if installed.retired and installed.users == 0:
            self._datapath.uninstall(installed.handle)


def extension_of(extension: str | Path) -> tuple[str, bytes | None]:
    """Return name and object of an extension that an algorithm uses; None for one that ships with ccplane.

    Raises:
        LoadError: `load.no_extension`, if the object cannot be read.
    """
    if isinstance(extension, str):
        return extension, None
    try:
        octets = extension.read_bytes()
    except OSError as error:
        raise LoadError(
            "load.no_extension",
            f"the datapath's extension {extension.name} cannot be read",
            where=str(extension),
            why=error.strerror or str(error),
            fix="compile it; docs/writing-an-extension.md says how",
        ) from None
    return extension.name.removesuffix(OBJECT_SUFFIX), octets
