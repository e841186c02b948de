"""Imports from an algorithm's own directory, kept apart for each version of the algorithm.

    from my_lib import smoothed        # in mine.py: my_lib.py in the same directory

An algorithm loaded from a file is a module of a private package (here `PACKAGE.mine`), and so is each module
that it imports from its directory (`PACKAGE.my_lib`). Each version has its own package. Two versions can
therefore be loaded simultaneously, each with its own modules, even if a callback imports something later.

Only `.py` files and packages with an `__init__.py` are found this way. The names of the standard library's
modules, `ccplane` and `ccp_algs` always refer to those packages. Installed packages are imported as usual,
once per process.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.abc
import importlib.util
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

Read = Callable[[Path], str | None]
"""Returns the text of a file, None if the file does not exist. Raises OSError if the file may not be read."""

OWN: Final = frozenset({"broker", "ccp_algs", "ccplane", "experiments", "telemetry"})
"""Packages of ccplane."""

API: Final = frozenset({"ccplane", "ccp_algs"})
"""Packages of ccplane that algorithms import. Files next to an algorithm may not have these names."""

_packages: dict[str, Package] = {}
_executed: set[str] = set()


def place_of(path: str | Path) -> Path:
    """Return the absolute path of a file, with symbolic links in it.

    A link may lead to another file later, as in a ConfigMap of Kubernetes or a directory `current`.
    """
    given = Path(path).absolute()
    plain = Path(os.path.normpath(given))  # without `..`, which leads elsewhere after a link
    try:
        return plain if ".." not in given.parts or plain.samefile(given) else given
    except OSError:
        return given


def directories_of(file: str | Path) -> list[Path]:
    """Return where an algorithm imports from: its directory, and that of the file which a link leads to."""
    return list(dict.fromkeys([Path(file).parent, Path(os.path.realpath(file)).parent]))


def read_text(path: Path) -> str | None:
    """Return the text of a Python file, None if the file cannot be found; see `Read`."""
    try:
        path.stat()
    except (OSError, ValueError):  # no such file, or its directory is not readable
        return None
    return importlib.util.decode_source(path.read_bytes())


def sha256(text: str) -> str:
    """Return the hash that identifies a source text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Package:
    """The private package of one version of an algorithm.

    Attributes:
        name: Its name, unique among the versions in use.
        file: The algorithm's file, or a name in angle brackets, which has no directory to import from.
        own: Text of the file; empty before `load`.
        seen: Hash of each file that an import looked for, and of the algorithm's own file; None for files
            that do not exist. A callback that imports adds to it.
    """

    def __init__(self, name: str, file: str, read: Read = read_text) -> None:
        """Create a package without modules. It is not registered yet."""
        self.name = name
        self.file = file
        self.own = ""
        self.seen: dict[str, str | None] = {}
        self._read = read
        self._directories = [] if file.startswith("<") else directories_of(file)
        self._texts: dict[str, str] = {}
        self._known: dict[str, bool] = {}
        self._builtins: dict[str, Any] = {**vars(builtins), "__import__": self._import}

    @property
    def texts(self) -> dict[str, str]:
        """Text of each imported file, the algorithm's own included."""
        return {self.file: self.own, **self._texts}

    def load(self, text: str) -> ModuleType:
        """Import the algorithm's own file and register the package.

        Args:
            text: Content of the file.

        Returns:
            The module.

        Raises:
            Exception: Whatever the text raises. The package is dropped then.
        """
        holder = ModuleType(self.name)
        holder.__path__ = []
        _packages[self.name] = self
        sys.modules[self.name] = holder
        stem = re.sub(r"\W", "_", Path(self.file.strip("<>")).stem)
        module = ModuleType(f"{self.name}.{stem}")
        module.__file__ = self.file
        module.__package__ = self.name
        sys.modules[module.__name__] = module
        self.own = text
        self.seen[self.file] = sha256(text)
        try:
            self.execute(module, text, self.file)
        except BaseException:
            self.drop()
            raise
        return module

    def drop(self) -> None:
        """Forget the package and its modules; existing references to them stay valid."""
        _packages.pop(self.name, None)
        for name in self._modules():
            del sys.modules[name]

    def _modules(self) -> list[str]:
        inside = self.name + "."
        return [name for name in list(sys.modules) if name == self.name or name.startswith(inside)]

    def execute(self, module: ModuleType, text: str, file: str) -> None:
        """Run a text in a module."""
        _executed.add(file)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        vars(module)["__builtins__"] = self._builtins
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))

    def find(self, name: str) -> tuple[str, bool] | None:
        """Return the file of a module, by its name within the package, and whether it is a package."""
        for directory in self._directories:
            place = directory.joinpath(*name.split("."))
            for file, is_package in (
                (place / "__init__.py", True),
                (place.with_name(f"{place.name}.py"), False),
            ):
                text = self._read(file)
                self.seen[str(file)] = None if text is None else sha256(text)
                if text is not None:
                    self._texts[str(file)] = text
                    return str(file), is_package
        return None

    def text(self, file: str) -> str:
        """Return the text of a file that `find` returned."""
        return self._texts[file]

    def _has(self, name: str) -> bool:
        if name in API or name in sys.stdlib_module_names:
            return False
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = f"{self.name}.{name}" in sys.modules or self.find(name) is not None
        return known

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Replace `__import__` in the modules of the package."""
        first = name.partition(".")[0]
        if level or not self._has(first):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist or (), 0)
        return module if fromlist else sys.modules[f"{self.name}.{first}"]


class _Loader(importlib.abc.InspectLoader):
    """Imports one module of a private package."""

    def __init__(self, package: Package, file: str, is_package: bool) -> None:
        self._package = package
        self._file = file
        self._is_package = is_package

    def exec_module(self, module: ModuleType) -> None:
        self._package.execute(module, self._package.text(self._file), self._file)

    def get_source(self, fullname: str) -> str:
        return self._package.text(self._file)

    def is_package(self, fullname: str) -> bool:
        return self._is_package


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules of private packages."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        first, _, name = fullname.partition(".")
        package = _packages.get(first)
        found = None if package is None or not name else package.find(name)
        if package is None or found is None:
            return None
        file, is_package = found
        spec = ModuleSpec(fullname, _Loader(package, file, is_package), origin=file, is_package=is_package)
        spec.has_location = True
        return spec


sys.meta_path.insert(0, _Finder())


@contextmanager
def replacing(name: str) -> Iterator[None]:
    """Replace the package of this name by another one; restore the previous one if that raises."""
    before = _packages.get(name)
    modules = {} if before is None else {one: sys.modules[one] for one in before._modules()}
    if before is not None:
        before.drop()
    try:
        yield
    except BaseException:
        if before is not None:
            _packages[name] = before
            sys.modules.update(modules)
        raise


def package_of(cls: type) -> Package | None:
    """Return the private package that contains a class, None if the class is in none."""
    return _packages.get(cls.__module__.partition(".")[0])


def is_executed(file: str) -> bool:
    """Return whether this process imported a file as an algorithm, or as a module next to one."""
    return file in _executed
