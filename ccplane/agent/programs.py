"""Installed fold programs of one algorithm, shared by its flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ccplane.base.errors import LoadError, ProgramError
from ccplane.base.names import close_names
from ccplane.datapath.protocol import Datapath, Program

OBJECT_SUFFIX: Final = ".bpf.o"
"""Suffix of an extension's object file, after the extension's name."""


class Installed:
    """An installed program.

    Attributes:
        name: Its name within the algorithm.
        program: The compiled program.
        handle: Its handle in the datapath.
        registers: Names of its control registers.
        users: Number of flows that run it.
        retired: Whether another program took its name; it is removed when the last flow leaves it.
    """

    __slots__ = ("handle", "name", "program", "registers", "retired", "users")

    def __init__(self, name: str, program: Program, handle: int) -> None:
        self.name = name
        self.program = program
        self.handle = handle
        self.registers = frozenset(program.control_registers)
        self.users = 0
        self.retired = False


class ProgramSet:
    """The installed programs of one running algorithm.

    Attributes:
        initial: The program of a flow whose `on_create` sets none; None leaves the flow to the fallback.
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
        """Install all programs, or none if one is refused.

        Args:
            algorithm: Name of the algorithm, for errors.
            datapath: Where to install the programs.
            programs: Compiled programs by name.
            initial: Name of a flow's first program, None for none.
            before: Programs of the previous version: unchanged programs stay installed and are shared, so
                flows keep their registers.
            extensions: Extensions of the datapath that the algorithm uses.

        Raises:
            VerifierError: If the kernel refuses a program.
            LoadError: `load.extension` or `load.no_extension`, if an extension is not available.
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
        """The program of a flow whose `on_create` sets no program."""
        return None if self._initial is None else self._by_name[self._initial]

    def named(self, name: str) -> Installed:
        """Return the program with this name.

        Raises:
            ProgramError: `program.unknown`.
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
        """Return the program with this name, or None."""
        return self._by_name.get(name)

    def shares(self, name: str) -> bool:
        """Return whether a program is unchanged from the previous version."""
        return self._by_name[name] in self._shared

    def all(self) -> list[Installed]:
        """Return all programs that are not retired."""
        return list(self._by_name.values())

    def replace(self, name: str, program: Program) -> tuple[Installed | None, Installed]:
        """Install another program under this name; flows then move one by one, see `FlowControl.move`.

        Args:
            name: Name of one of the algorithm's programs, or a new name.
            program: The new program, compiled.

        Returns:
            The previous program (None if the name is new), and the new one.

        Raises:
            VerifierError: If the kernel refuses the program; nothing has changed then.
        """
        installed = Installed(name, program, self._datapath.install(program))
        before = self._by_name.get(name)
        self._by_name[name] = installed
        if before is not None:
            before.retired = True
            self._collect(before)
        return before, installed

    def moved(self, before: Installed | None, after: Installed | None) -> None:
        """Count a flow that moved from one program to another."""
        if after is not None:
            after.users += 1
        if before is not None:
            before.users -= 1
            self._collect(before)

    def abandon(self) -> None:
        """Remove the new programs of a rejected version; programs shared with the previous version stay."""
        for installed in self._by_name.values():
            if installed not in self._shared:
                self._datapath.uninstall(installed.handle)
        self._by_name.clear()

    def supersede(self, before: ProgramSet) -> None:
        """Retire programs that only the previous version has; each is removed once its last flow left it."""
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
    """Return name and object file of an extension; None instead of the object if it ships with ccplane.

    Raises:
        LoadError: `load.no_extension`, if the object file cannot be read.
    """
    if isinstance(extension, str):
        return extension, None
    try:
        raw = extension.read_bytes()
    except OSError as error:
        raise LoadError(
            "load.no_extension",
            f"cannot read the datapath extension {extension.name}",
            where=str(extension),
            why=error.strerror or str(error),
            fix="compile the extension; see docs/writing-an-extension.md",
        ) from None
    return extension.name.removesuffix(OBJECT_SUFFIX), raw
